"""`conductor store`: keep a question where Prefect's server does not see it, for a deployment's `question_ref`."""

import asyncio
import json

import click

from conductor_plugin.cli.options import POOL_HELP, json_option, quiet_prefect, read_completion, read_question


@click.command()
@click.argument("question")
@click.option("--label", required=True, help="The question's data label, one of the pool's.")
@click.option("--pool", "pool_file", metavar="FILE", help=POOL_HELP)
@click.option("--plan", "plan_file", metavar="FILE|-", help="A completion to run instead of asking a planner.")
@json_option
def store(question: str, label: str, pool_file: str | None, plan_file: str | None, as_json: bool) -> int:
    """Store QUESTION (`-`: read it from stdin) under its label and print the reference for `question_ref`."""
    from conductor_plugin.labels import label_of

    text, plan = read_question(question, plan_file), read_completion(plan_file)
    quiet_prefect()
    from conductor_plugin.on_prefect.blocks import resolve_pool
    from conductor_plugin.on_prefect.seal import Asked, open_seal

    async def keep() -> str:
        label_of(await resolve_pool(pool_file), label)
        return await (await open_seal(label)).keep_question(Asked(question=text, plan=plan))

    reference = asyncio.run(keep())
    print(json.dumps({"schema": 1, "error": None, "question_ref": reference}) if as_json else reference)
    return 0
