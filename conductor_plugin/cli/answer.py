"""`conductor answer`: the flow `conductor`, run in this process."""

import asyncio
import json
import os
from typing import Any

import click

from conductor_plugin.cli.options import (
    Positive,
    json_option,
    planner_options,
    pool_options,
    read_completion,
    read_question,
)

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


@click.command()
@click.argument("question")
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
@json_option
def answer(question: str, plan_file: str | None, as_json: bool, **options: Any) -> int:
    """Answer QUESTION (`-`: read it from stdin) and print the answer with its receipt."""
    from conductor_plugin.cli.screen import Screen, print_answer

    text = read_question(question, plan_file)
    parameters = {
        "question": text,
        "pool": options["pool_file"],
        "planner": options["planner"],
        "plan": read_completion(plan_file),
        **{name: list(options[name]) for name in ("only", "exclude")},
        **{
            name: options[name]
            for name in ("blind", "few_shot", "max_steps", "max_rounds", "run_all", "budget_usd", "reuse")
        },
        "deadline_s": options["deadline"],
    }
    _check(parameters)
    with Screen() as screen:
        try:
            result = _run(parameters, screen)
        except KeyboardInterrupt:
            if screen.answer is None:
                raise
            result = screen.answer
    if as_json:
        print(json.dumps(result.to_json(), ensure_ascii=False))
    else:
        print_answer(result)
    if result.status == "no_plan" and result.error.code != "no_plan":
        return 2  # a plan or template that a person gave, not one that a planner failed to write
    return EXIT_CODES[result.status]


def _check(parameters: dict[str, Any]) -> None:
    """Find bad input before a server is started for it."""
    from conductor_plugin.plan import PlanRules, parse_plan
    from conductor_plugin.planners import make_planner
    from conductor_plugin.pool import load_pool
    from conductor_plugin.pricing import check_priced

    if (parameters["pool"] or "").startswith("block/"):
        return  # only Prefect's server knows the block; the flow checks the rest
    pool = load_pool(parameters["pool"]).subset(parameters["only"], parameters["exclude"])
    planner = make_planner(
        pool,
        parameters["planner"],
        plan=parameters["plan"],
        blind=parameters["blind"],
        few_shot=parameters["few_shot"],
    )
    if parameters["plan"] is not None:
        conductor = parameters["max_rounds"] > 0
        rules = PlanRules(workers=len(pool.workers), max_steps=parameters["max_steps"], conductor=conductor)
        parse_plan(parameters["plan"], rules)
    pool.check_keys()
    if parameters["budget_usd"] is not None:
        check_priced(pool, planner)


def _run(parameters: dict[str, Any], screen: Any) -> Any:
    # Prefect's log lines would stand between the progress lines; the server keeps them for the UI.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    screen.say("starting Prefect")
    from conductor_plugin.on_prefect.history import embedded_server, whole_history

    async def run() -> Any:
        from conductor_plugin.on_prefect.flow import LISTENER, conductor

        LISTENER.set(screen.hear)
        async with whole_history():
            state: Any = await conductor(**parameters, return_state=True)
            return await state.result(raise_on_failure=False)

    with embedded_server():
        result = asyncio.run(run())
    if isinstance(result, BaseException):
        raise result
    return result
