"""MasRouter's six modes as graphs, and the untrained cascade, through the real executor."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.conduct import conduct
from conductor_plugin.graph import compile_steps, needed_steps
from conductor_plugin.planners import make_planner
from conductor_plugin.planners.masrouter import DECIDE, FORM, HINTS, Draw, MasRouter, build, profiles, random_draw
from tests.unit import workbench
from tests.unit.workbench import CALLS, pool_of


@pytest.fixture(autouse=True)
def _fresh():
    workbench.reset()


ROLES = list(profiles().roles["math"])
POOL = pool_of(*(f"scripted:{i}" for i in range(4)))


def graph_of(mode: str, agents: int):
    """The access lists of a mode for agents of different roles on different workers."""
    draw = Draw(task="math", mode=mode, roles=tuple(ROLES[:agents]), workers=tuple(i % 4 for i in range(agents)))
    return [step.access for step in build(draw)]


@pytest.mark.parametrize(
    ("mode", "access"),
    [
        ("IO", [(), (), (), (0, 1, 2)]),
        ("CoT", [(), (), (), (0, 1, 2)]),
        ("Chain", [(), (0,), (1,), (0, 1, 2)]),
        ("FullConnected", [(), (0,), (0, 1), (0, 1, 2)]),
        ("Debate", [(), (), (), (1, 2), (0, 2), (0, 1), (3, 4, 5)]),
        ("Reflection", [(), (0,), (), (2,), (), (4,), (1, 3, 5)]),
    ],
)
def test_each_mode_is_exactly_its_graph(mode, access):
    assert graph_of(mode, 3) == access


def test_a_debate_of_six_is_thirteen_steps():
    assert len(graph_of("Debate", 6)) == 13


@given(st.sampled_from(list(HINTS)), st.integers(1, 6))
def test_every_graph_compiles_and_every_step_counts(mode, agents):
    draw = Draw(task="math", mode=mode, roles=(ROLES[0],) * agents, workers=(0,) * agents)
    steps = build(draw)
    graph = compile_steps(steps)
    assert needed_steps(graph) == set(graph.nodes)
    assert len({step.model_dump_json() for step in steps}) == len(steps)  # equal agents are distinct calls


def test_nobody_debates_alone():
    assert graph_of("Debate", 1) == [(), (0,)]


def test_agents_keep_their_worker_and_role_in_both_steps():
    draw = Draw(task="math", mode="Debate", roles=(ROLES[3], ROLES[1]), workers=(2, 0))
    steps = build(draw)
    assert [step.worker for step in steps] == [2, 0, 2, 0, 2]
    text = profiles().roles["math"]
    assert [step.subtask.startswith(text[ROLES[i]]) for step, i in zip(steps, (3, 1, 3, 1), strict=False)] == [True] * 4
    assert all(step.subtask.endswith(FORM) for step in steps)
    assert DECIDE in steps[-1].subtask


@pytest.mark.parametrize(("workers", "chief"), [((1, 2, 2), 2), ((3, 1, 1, 3), 3), ((0,), 0)])
def test_the_last_step_is_the_most_frequent_workers(workers, chief):
    draw = Draw(task="math", mode="IO", roles=(ROLES[0],) * len(workers), workers=workers)
    assert build(draw)[-1].worker == chief


def test_the_papers_numbers_of_roles():
    assert {task: len(roles) for task, roles in profiles().roles.items()} == {"code": 7, "commonsense": 7, "math": 12}
    assert set(profiles().tasks) == set(profiles().roles)
    assert set(profiles().modes) == set(HINTS)


def test_an_untrained_cascade_draws_everything_evenly():
    draws = [random_draw(Random(i), 4) for i in range(3000)]
    for field, options in (("mode", 6), ("task", 3)):
        counts = Counter(getattr(draw, field) for draw in draws)
        assert len(counts) == options
        assert all(0.8 < count * options / 3000 < 1.2 for count in counts.values())
    assert {len(draw.workers) for draw in draws} == {1, 2, 3, 4, 5, 6}
    assert {worker for draw in draws for worker in draw.workers} == {0, 1, 2, 3}


@pytest.mark.parametrize("question", [f"q{i}" for i in range(12)])
async def test_an_untrained_plan_runs_and_is_the_same_again(question):
    planner = make_planner(POOL, "masrouter")
    assert planner == MasRouter()
    answer = await conduct(question, pool=POOL, planner=planner)
    assert (answer.status, answer.usage.calls) == ("completed", len(answer.rounds[0].steps))
    again = await conduct(question, pool=POOL, planner=planner)
    assert again.rounds[0].plan == answer.rounds[0].plan
    assert len(CALLS) == 2 * answer.usage.calls
