"""The graph of a plan: edges, what the answer needs, levels, the critical path."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from conductor_plugin.graph import (
    CallStep,
    ConductorStep,
    ReduceStep,
    Step,
    answer_step,
    compile_plan,
    compile_steps,
    critical_path,
    levels,
    needed_steps,
    plan_steps,
    topological_order,
)
from conductor_plugin.plan import Plan
from tests.unit.strategies import plans, step_lists


def may_see(steps: Sequence[Step], i: int) -> set[int]:
    access = steps[i].access
    return set(range(i)) if access == "all" else set(access)


def chains(steps: Sequence[Step], i: int) -> Iterator[list[int]]:
    """Every chain of views that ends at step `i`."""
    yield [i]
    for earlier in may_see(steps, i):
        for chain in chains(steps, earlier):
            yield [*chain, i]


@given(step_lists())
def test_edges_are_the_allowed_views(steps: list[Step]) -> None:
    graph = compile_steps(steps)
    assert list(graph.nodes) == list(range(len(steps)))
    assert [graph.nodes[i]["step"] for i in graph.nodes] == steps
    assert set(graph.edges) == {(j, i) for i in range(len(steps)) for j in may_see(steps, i)}


@given(step_lists())
def test_the_answer_is_the_last_steps_or_the_one_before_the_conductor(steps: list[Step]) -> None:
    answers = [i for i, step in enumerate(steps) if step.kind != "conductor"]
    assert answer_step(compile_steps(steps)) == (answers[-1] if answers else None)


@given(step_lists())
def test_needed_steps_are_those_that_reach_an_end(steps: list[Step]) -> None:
    ends = {len(steps) - 1, len(steps) - 2} if steps and steps[-1].kind == "conductor" else {len(steps) - 1}
    reaching = {i for end in ends if end >= 0 for chain in chains(steps, end) for i in chain}
    assert needed_steps(compile_steps(steps)) == reaching


@given(step_lists())
def test_levels_and_order(steps: list[Step]) -> None:
    graph = compile_steps(steps)
    longest = [max(len(chain) for chain in chains(steps, i)) for i in range(len(steps))]
    assert levels(graph) == [
        [i for i in range(len(steps)) if longest[i] == n + 1] for n in range(max(longest, default=0))
    ]
    assert topological_order(graph) == list(range(len(steps)))


@given(step_lists(longest=7), st.lists(st.integers(0, 9) | st.none(), min_size=8, max_size=8))
def test_critical_path_is_the_slowest_chain(steps: list[Step], seconds: list[int | None]) -> None:
    durations = {i: float(s) for i, s in enumerate(seconds) if s is not None}
    total, path = critical_path(compile_steps(steps), durations)
    every = [chain for i in range(len(steps)) for chain in chains(steps, i)]
    assert total == max((sum(durations.get(i, 0) for i in chain) for chain in every), default=0.0)
    assert path in every or (path == [] and not steps)
    assert sum(durations.get(i, 0) for i in path) == total


@given(plans(), st.booleans())
def test_a_plan_compiles_to_its_steps(plan: Plan, conductor: bool) -> None:
    """Id 3 is the Conductor in a pool of three, and a worker in a pool of four."""
    plan = plan.model_copy(update={"model_id": (*(i % 3 for i in plan.model_id[:-1]), 3)})
    steps = plan_steps(plan, workers=3 if conductor else None)
    assert [step.access for step in steps] == list(plan.access_list)
    assert [(step.worker, step.subtask) for step in steps if isinstance(step, CallStep)] == list(
        zip(plan.model_id, plan.subtasks, strict=True)
    )[: -1 if conductor else None]
    graph = compile_plan(plan, workers=3 if conductor else None)
    assert all(set(graph.predecessors(i)) == set(plan.sees(i)) for i in range(len(plan)))
    assert (graph.nodes[len(plan) - 1]["step"].kind == "conductor") == conductor


@pytest.mark.parametrize(
    ("steps", "what"),
    [
        ([CallStep(worker=0, access=(0,))], "step 0 cannot see step 0"),
        ([CallStep(worker=0), CallStep(worker=0, access=(2,)), CallStep(worker=0)], "step 1 cannot see step 2"),
        ([ConductorStep(), CallStep(worker=0)], "step 0 is the Conductor"),
        ([CallStep(worker=0), ConductorStep(), ConductorStep()], "step 1 is the Conductor"),
    ],
)
def test_impossible_graphs(steps: list[Step], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        compile_steps(steps)


def test_unknown_reducers_and_workers() -> None:
    with pytest.raises(ValidationError, match="there are majority, pick"):
        ReduceStep(reduce="minority")
    with pytest.raises(ValidationError):
        CallStep(worker=-1)


def test_a_graph_may_have_hundreds_of_steps() -> None:
    graph = compile_steps([CallStep(worker=0, access=(i - 1,) if i else ()) for i in range(500)])
    assert critical_path(graph, dict.fromkeys(range(500), 1.0)) == (500.0, list(range(500)))
    assert len(needed_steps(graph)) == len(levels(graph)) == 500
