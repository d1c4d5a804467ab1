"""`conductor check`: is this completion a valid plan? Imports neither Prefect nor networkx."""

import json
import sys
from typing import TYPE_CHECKING

import click

from conductor_plugin.cli.options import json_option, pool_options, read_completion

if TYPE_CHECKING:
    from conductor_plugin.plan import Plan
    from conductor_plugin.receipt import PlanRecord


@click.command()
@click.argument("file")
@pool_options
@click.option("--max-steps", default=5, show_default=True, type=click.IntRange(1, 100))
@click.option("--max-rounds", default=0, show_default=True, type=click.IntRange(0, 10))
@json_option
def check(
    file: str,
    pool_file: str | None,
    only: tuple[str, ...],
    exclude: tuple[str, ...],
    max_steps: int,
    max_rounds: int,
    as_json: bool,
) -> int:
    """Validate the plan in FILE (`-`: stdin), a planner's completion, against a pool."""
    from conductor_plugin.errors import PlanError
    from conductor_plugin.plan import PlanRules, parse_plan
    from conductor_plugin.pool import load_pool

    completion = read_completion(file) or ""
    pool = load_pool(pool_file).subset(only, exclude)
    rules = PlanRules(workers=len(pool.workers), max_steps=max_steps, conductor=max_rounds > 0)
    try:
        plan = parse_plan(completion, rules)
    except PlanError as error:
        if not as_json:
            raise
        fault = {"code": error.code, "message": str(error), "list": error.list_name, "index": error.index}
        print(json.dumps({"schema": 1, "error": fault, "plan": None}, ensure_ascii=False))
        print(f"conductor: {error}", file=sys.stderr)
        return error.exit_code
    if as_json:
        print(json.dumps({"schema": 1, "error": None, "plan": plan.model_dump(mode="json")}, ensure_ascii=False))
    else:
        print_lists(plan)
        print(f"\na valid plan of {len(plan)} step{'' if len(plan) == 1 else 's'}")
    return 0


def print_lists(plan: "Plan | PlanRecord") -> None:
    """The three lists, as a planner writes them."""
    print(f"model_id = {list(plan.model_id)}")
    print(f"subtasks = {list(plan.subtasks)}")
    print(f"access_list = {[access if access == 'all' else list(access) for access in plan.access_list]}")
