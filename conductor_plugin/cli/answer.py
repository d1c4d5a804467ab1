"""`conductor answer`: the flow `conductor`, run in this process; with --batch the flow `conductor-batch`."""

import asyncio
import signal
from typing import Any, NoReturn

import click

from conductor_plugin.cli.options import (
    Positive,
    json_option,
    planner_options,
    pool_options,
    quiet_prefect,
    read_completion,
    read_question,
)
from conductor_plugin.cli.plan import print_plan
from conductor_plugin.errors import InputError

EXIT_CODES = {
    "completed": 0,
    "failed": 1,
    "stopped_budget": 3,
    "stopped_deadline": 3,
    "stopped_label": 3,
    "stopped_policy": 3,
    "no_plan": 4,
    "cancelled": 130,
}
# What a planner that was asked may end with.
PLANNERS_FAULTS = ("no_plan", "question_outside", "question_too_long")
OPTIONS = (
    "planner",
    "blind",
    "few_shot",
    "max_steps",
    "max_rounds",
    "run_all",
    "label",
    "budget_usd",
    "reuse",
    "approve",
)


@click.command()
@click.argument("question", required=False)
@pool_options
@planner_options
@click.option("--run-all", is_flag=True, help="Also run steps that cannot reach the answer.")
@click.option("--budget-usd", type=Positive(), help="Hard cap on planner and workers.")
@click.option("--deadline", type=Positive(), metavar="SECONDS", help="Hard limit on time.")
@click.option(
    "--reuse",
    type=click.Choice(["run", "always", "never"]),
    default="run",
    show_default=True,
    help="Whose stored results may stand in for a call.",
)
@click.option("--quote", "quote_only", is_flag=True, help="Plan, print what the plan may take, and run nothing.")
@click.option("--approve", is_flag=True, help="Show the plan and what it may take, and ask before running it.")
@click.option("--batch", "batch_file", metavar="FILE", help="Answer every question of a JSONL file instead.")
@click.option("--results", metavar="FILE", help="Where a batch's answers go. Default: FILE.answers.jsonl")
@click.option("--concurrency", default=8, show_default=True, type=click.IntRange(1, 1000), help="Of a batch.")
@json_option
def answer(
    question: str | None,
    plan_file: str | None,
    batch_file: str | None,
    results: str | None,
    concurrency: int,
    quote_only: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Answer QUESTION (`-`: read it from stdin) and print the answer with its receipt."""
    from conductor_plugin.options import AnswerOptions, prepare
    from conductor_plugin.pool import load_pool

    if (question is None) == (batch_file is None):
        raise InputError("give either a question or --batch FILE", code="bad_option")
    if batch_file is not None and (quote_only or given["approve"]):
        raise InputError("--quote and --approve are for one question, not for --batch", code="bad_option")
    if given["approve"] and "-" in (question, plan_file):
        raise InputError(
            "--approve reads its answer from stdin; give the question and the plan otherwise", code="bad_option"
        )
    if quote_only:
        return print_plan(question or "", plan_file, as_json=as_json, quoted=True, **given)
    text = None if question is None else read_question(question, plan_file)
    options = AnswerOptions(
        **{name: given[name] for name in OPTIONS},
        only=given["only"],
        exclude=given["exclude"],
        deadline_s=given["deadline"],
        plan=read_completion(plan_file),
    )
    pool = given["pool_file"]
    if not (pool or "").startswith("block/"):  # only Prefect's server knows a block; the flow checks the rest
        prepare(load_pool(pool), options)
    quiet_prefect()
    if batch_file is not None:
        from conductor_plugin.cli.batch import run_batch

        return run_batch(batch_file, results, pool, options, concurrency, as_json)
    return _answer({"question": text, "pool": pool, **options.model_dump(mode="json")}, as_json)


def _answer(parameters: dict[str, Any], as_json: bool) -> int:
    from conductor_plugin.cli.screen import Screen, print_answer
    from conductor_plugin.cli.screen import as_json as as_json_line

    # Where Prefect's own handler is not, or no longer, in place. It raises too.
    signal.signal(signal.SIGTERM, _terminated)
    with Screen() as screen:
        try:
            result = _run(parameters, screen)
        except (Exception, SystemExit):
            raise
        except BaseException:  # Ctrl-C or SIGTERM, in whichever form it got here
            if screen.answer is None:
                raise KeyboardInterrupt from None
            result = screen.answer
    if as_json:
        print(as_json_line(result.to_json()))
    else:
        print_answer(result)
    if result.status == "no_plan" and result.error.code not in PLANNERS_FAULTS:
        return 2  # a plan, template or folder that a person gave, not one that a planner failed to write
    return EXIT_CODES[result.status]


def _terminated(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _run(parameters: dict[str, Any], screen: Any) -> Any:
    screen.say("starting Prefect")
    from conductor_plugin.on_prefect.history import embedded_server, whole_history

    async def run() -> Any:
        from conductor_plugin.on_prefect.approve import ASK
        from conductor_plugin.on_prefect.engine import LISTENER
        from conductor_plugin.on_prefect.flow import conductor
        from conductor_plugin.on_prefect.seal import by_reference, whole_answer
        from conductor_plugin.on_prefect.storage import UNKEPT, tell_unkept_run

        LISTENER.set(screen.hear)
        UNKEPT.set(screen.say)
        ASK.set(screen.ask)
        referred = await by_reference(parameters)
        async with whole_history():
            state: Any = await conductor(**referred, return_state=True)
            tell_unkept_run(state)
            return await whole_answer(await state.result(raise_on_failure=False))

    with embedded_server():
        result = asyncio.run(run())
    if isinstance(result, BaseException):
        raise result
    return result
