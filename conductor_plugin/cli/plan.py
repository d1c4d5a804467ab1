"""`conductor plan`: the three lists and the drawing, without running anything."""

import asyncio
import json

import click

from conductor_plugin.cli.check import print_lists
from conductor_plugin.cli.options import (
    json_option,
    planner_options,
    pool_options,
    read_completion,
    read_question,
)


@click.command()
@click.argument("question")
@pool_options
@planner_options
@json_option
def plan(
    question: str,
    pool_file: str | None,
    only: tuple[str, ...],
    exclude: tuple[str, ...],
    planner: str | None,
    plan_file: str | None,
    blind: bool,
    few_shot: str,
    max_steps: int,
    max_rounds: int,
    as_json: bool,
) -> int:
    """Plan QUESTION (`-`: read it from stdin) and print the lists and their drawing; no worker is called."""
    from conductor_plugin.drawing import terminal
    from conductor_plugin.graph import compile_steps, levels, needed_steps, plan_steps
    from conductor_plugin.plan import PlanRules
    from conductor_plugin.planners import check_planner_key, make_planner
    from conductor_plugin.planners.base import PlanRequest
    from conductor_plugin.pool import load_pool
    from conductor_plugin.rounds import ask, record_plan

    text = read_question(question, plan_file)
    pool = load_pool(pool_file).subset(only, exclude)
    chosen = make_planner(pool, planner, plan=read_completion(plan_file), blind=blind, few_shot=few_shot)
    check_planner_key(chosen)
    workers = len(pool.workers)
    rules = PlanRules(workers=workers, max_steps=max_steps, conductor=max_rounds > 0)
    asked = asyncio.run(ask(chosen, PlanRequest(question=text, pool=pool, rules=rules)))
    if asked.proposal is None:
        raise asked.error or RuntimeError("the planner gave neither a plan nor an error")
    proposal = asked.proposal
    steps = proposal.steps or plan_steps(proposal.plan, workers if rules.conductor else None)  # type: ignore[arg-type]
    record = record_plan(steps, workers, proposal.plan.reasoning if proposal.plan else "")
    graph = compile_steps(steps)
    if as_json:
        report = {
            "schema": 1,
            "error": None,
            "planner": asked.planner.model_dump(mode="json"),
            "plan": record.model_dump(mode="json"),
            "levels": levels(graph),
            "pruned": sorted(set(graph.nodes) - needed_steps(graph)),
        }
        print(json.dumps(report, ensure_ascii=False))
    else:
        print_lists(record)
        print()
        print(terminal(graph, pool))
    return 0
