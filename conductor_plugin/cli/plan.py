"""`conductor plan`: the three lists and the drawing, without running anything."""

import asyncio
import json
from typing import Any

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
@click.option("--run-all", is_flag=True, help="Quote also steps that cannot reach the answer.")
@click.option("--quote", "quoted", is_flag=True, help="Also print calls, tokens, USD and time that it may take.")
@json_option
def plan(question: str, plan_file: str | None, as_json: bool, quoted: bool, **given: Any) -> int:
    """Plan QUESTION (`-`: read it from stdin) and print the lists and their drawing; no worker is called."""
    return print_plan(question, plan_file, as_json=as_json, quoted=quoted, **given)


def print_plan(question: str, plan_file: str | None, *, as_json: bool, quoted: bool, **given: Any) -> int:
    """Ask the planner and print its plan, with its quote if `quoted`. `given` are the shared options."""
    from conductor_plugin.conduct import permitted_pool
    from conductor_plugin.graph import compile_steps, levels, needed_steps, plan_steps
    from conductor_plugin.labels import check_steps, label_of
    from conductor_plugin.plan import PlanRules
    from conductor_plugin.planners import check_planner_key, make_planner
    from conductor_plugin.planners.base import PlanRequest
    from conductor_plugin.pool import load_pool
    from conductor_plugin.rounds import ask, record_plan

    text = read_question(question, plan_file)
    pool = load_pool(given["pool_file"]).subset(given["only"], given["exclude"])
    few_shot, completion = given["few_shot"], read_completion(plan_file)
    chosen = make_planner(pool, given["planner"], plan=completion, blind=given["blind"], few_shot=few_shot)
    check_planner_key(chosen)
    pool = permitted_pool(pool, chosen, label_of(pool, given["label"]))
    workers = len(pool.workers)
    rules = PlanRules(workers=workers, max_steps=given["max_steps"], conductor=given["max_rounds"] > 0)
    asked = asyncio.run(ask(chosen, PlanRequest(question=text, pool=pool, rules=rules)))
    if asked.proposal is None:
        raise asked.error or RuntimeError("the planner gave neither a plan nor an error")
    proposal = asked.proposal
    steps = proposal.steps or plan_steps(proposal.plan, workers if rules.conductor else None)  # type: ignore[arg-type]
    check_steps(steps, pool, label_of(pool, given["label"]))
    record = record_plan(steps, workers, proposal.plan.reasoning if proposal.plan else "")
    graph = compile_steps(steps)
    offer = _quote(graph, pool, text, run_all=given["run_all"]) if quoted else None
    if as_json:
        report = {
            "schema": 1,
            "error": None,
            "planner": asked.planner.model_dump(mode="json"),
            "plan": record.model_dump(mode="json"),
            "levels": levels(graph),
            "pruned": sorted(set(graph.nodes) - needed_steps(graph)),
            **({"quote": offer.model_dump(mode="json")} if offer else {}),
        }
        print(json.dumps(report, ensure_ascii=False))
    else:
        _print(record, graph, pool, asked.planner, offer)
    return 0


def _quote(graph: Any, pool: Any, question: str, *, run_all: bool) -> Any:
    from conductor_plugin.calls import typical_calls
    from conductor_plugin.quote import quote

    return quote(graph, pool=pool, question=question, typical=typical_calls(pool), run_all=run_all)


def _print(record: Any, graph: Any, pool: Any, planner: Any, offer: Any) -> None:
    from conductor_plugin.drawing import terminal
    from conductor_plugin.quote import quote_lines

    print_lists(record)
    print(f"\n{terminal(graph, pool)}")
    if offer:
        cost = "unknown" if planner.cost_usd is None else f"{planner.cost_usd:.4f}"
        print("\n" + "\n".join([*quote_lines(offer), f"spent on planning: USD {cost}"]))
