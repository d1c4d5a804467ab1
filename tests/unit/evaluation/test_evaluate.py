"""Systems on questions by the one executor: paired, paid once, and the same bytes from the store alone."""

import asyncio
import json
import subprocess
import sys
from collections import Counter

import pytest

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.budget import Budget
from conductor_plugin.errors import BudgetError
from conductor_plugin.evaluation.evaluate import System, evaluate, tasks_of
from conductor_plugin.evaluation.store import Store
from conductor_plugin.grading.verdict import Verdict
from conductor_plugin.graph import CallStep, ReduceStep
from conductor_plugin.models import Frozen
from conductor_plugin.plan import Plan, render_plan
from conductor_plugin.planners import make_planner
from conductor_plugin.planners.base import PlanRequest, Proposal
from tests.unit import workbench
from tests.unit.test_budget import llm_pool
from tests.upstream import Delay, Status, Text, Upstream

QUESTIONS = [
    Question(id=f"q{i}", benchmark="made up", text=f"question {i}", gold=str(i), grader="text", level=str(i % 2))
    for i in range(6)
]


class Exact:
    """Right where the answer holds the gold as a word; `broken` answers cannot be judged."""

    def __init__(self):
        self.graded = []

    async def grade(self, question, answer):
        self.graded.append((question.id, answer))
        if "broken" in answer:
            return Verdict(outcome="infrastructure")
        if not answer.split():
            return Verdict(outcome="unparsed")
        return Verdict(outcome="right" if question.gold in answer.split() else "wrong", extracted=answer)


def given(pool, *ids, access=None):
    plan = Plan(model_id=ids, subtasks=("",) * len(ids), access_list=access or ((),) * (len(ids) - 1) + ("all",))
    return make_planner(pool, plan=render_plan(plan))


class Sampler(Frozen):
    """Three samples of one worker and their majority."""

    tries: int = 1
    name: str = "sampler"

    async def propose(self, request: PlanRequest) -> Proposal:
        return Proposal(steps=(*(CallStep(worker=0, sample=i) for i in range(3)), ReduceStep(reduce="majority")))


def systems(pool):
    return [
        System("single:a", given(pool, 0), pool),
        System("sampler", Sampler(), pool),
        System("chain", given(pool, 0, 1), pool),
    ]


@pytest.fixture
def store(tmp_path):
    return Store(f"sqlite:///{tmp_path / 'store.sqlite'}")


def two_models(upstream):
    pool = llm_pool(upstream.base_url)
    other = pool.workers[1].model_copy(update={"model": "openai/other"})
    return pool.of([pool.workers[0], other])


@pytest.fixture
def pool(upstream):
    return two_models(upstream)


async def test_samples_are_shared_and_paid_once(store, pool, upstream):
    rows = await evaluate(tasks_of(systems(pool), QUESTIONS, 2), store=store, grader=Exact())
    assert len(rows) == 3 * 6 * 2
    # A question and repeat: three samples, of which single has the first, and the chain's second step.
    models = Counter(request.body["model"] for request in upstream.requests)
    assert models == {"m": 6 * (3 + 3), "other": 6 * 2}
    assert [row.calls for row in rows[:3]] == [1, 3, 2]
    assert [row.topology for row in rows[:3]] == ["one step", "verify", "chain"]
    assert rows[0].cost_usd > 0
    assert rows[0].critical_path_s > 0


class Counting(Frozen):
    """A plan by lot: so many samples of one worker as the seed says, told apart by their index."""

    seed: int = 0
    tries: int = 1
    name: str = "counting"

    async def propose(self, request: PlanRequest) -> Proposal:
        return Proposal(
            steps=(*(CallStep(worker=0, sample=i) for i in range(3 - self.seed)), ReduceStep(reduce="majority"))
        )


async def test_repeats_share_no_sample_whatever_each_plans(store, pool, upstream):
    rows = await evaluate(tasks_of([System("c", Counting(), pool)], QUESTIONS[:1], 3), store=store, grader=Exact())
    assert [row.calls for row in rows] == [3, 2, 1]
    assert len(upstream.requests) == 6


async def test_a_worker_is_told_which_sample_it_is(store):
    """A local model draws by it: else all repeats of it would be one."""
    workbench.reset()
    own = workbench.pool_of("ok")
    await evaluate(tasks_of([System("s", Sampler(), own)], QUESTIONS[:1], 2), store=store, grader=Exact())
    assert sorted(request.sample for _, request in workbench.CALLS) == [0, 1, 1000, 1001, 2000, 2001]


@pytest.mark.parametrize("name", ["random", "moa", "masrouter", "trinity"])
async def test_what_is_drawn_by_lot_is_drawn_anew_in_each_repeat(store, tmp_path, name):
    def systems():
        pool = workbench.pool_of(*(f"scripted:{i}" for i in range(5)))
        return [System(name, make_planner(pool, name), pool)]

    elsewhere = Store(f"sqlite:///{tmp_path / 'elsewhere.sqlite'}")
    rows = await evaluate(tasks_of(systems(), QUESTIONS[:2], 8), store=store, grader=Exact())
    for question in {row.question for row in rows}:
        assert len({row.workers for row in rows if row.question == question}) > 2
    again = await evaluate(tasks_of(systems(), QUESTIONS[:2], 8), store=elsewhere, grader=Exact())
    assert [row.workers for row in again] == [row.workers for row in rows]


async def test_a_second_run_asks_nobody_and_gives_the_same_rows(store, pool, upstream):
    tasks = tasks_of(systems(pool), QUESTIONS, 1)
    first = await evaluate(tasks, store=store, grader=Exact())
    calls, grader = len(upstream.requests), Exact()
    assert await evaluate(tasks, store=store, grader=grader) == first
    assert (len(upstream.requests), grader.graded) == (calls, [])


async def test_equal_calls_at_once_are_one(store, pool, upstream):
    same = [System(f"s{i}", given(pool, 0), pool) for i in range(8)]
    await evaluate(tasks_of(same, QUESTIONS[:1], 1), store=store, grader=Exact())
    assert len(upstream.requests) == 1


async def test_failures_are_counted_apart(store, pool, upstream):
    upstream.script(Status(400), Text("broken"), Text(""), Text("3"), Text("no"), model="m")
    rows = await evaluate(tasks_of(systems(pool)[:1], QUESTIONS[:5], 1), store=store, grader=Exact(), concurrency=1)
    assert [row.outcome for row in rows] == ["failed", "failed", "unparsed", "right", "wrong"]
    assert [row.error for row in rows] == ["bad_request", None, "empty_answer", None, None]


async def test_failed_rows_are_made_anew_when_asked_to(store, pool, upstream):
    upstream.script(Status(400), model="m")
    tasks = tasks_of(systems(pool)[:1], QUESTIONS[:1], 1)
    first = await evaluate(tasks, store=store, grader=Exact())
    assert await evaluate(tasks, store=store, grader=Exact()) == first
    again = await evaluate(tasks, store=store, grader=Exact(), retry_failed=True)
    assert (first[0].outcome, again[0].outcome, len(upstream.requests)) == ("failed", "wrong", 2)
    assert await evaluate(tasks, store=store, grader=Exact()) == again


async def test_the_budget_is_over_all_systems_and_resumes(store, pool, upstream):
    tasks = tasks_of(systems(pool)[:1], QUESTIONS, 1)
    budget = Budget(0.0006)
    with pytest.raises(BudgetError):
        await evaluate(tasks, store=store, grader=Exact(), budget=budget, concurrency=1)
    paid = len(upstream.requests)
    assert 0 < paid < 6
    rows = await evaluate(tasks, store=store, grader=Exact())
    assert (len(upstream.requests), len(rows)) == (6, 6)


async def test_a_cancelled_payer_does_not_take_the_others_along(store, pool, upstream):
    upstream.script(Delay(0.5), Delay(0.1), model="m")
    tasks = tasks_of(systems(pool)[:1], QUESTIONS[:1], 1)
    first = asyncio.create_task(evaluate(tasks, store=store, grader=Exact()))
    await asyncio.sleep(0.2)
    second = asyncio.create_task(evaluate(tasks, store=store, grader=Exact()))
    await asyncio.sleep(0.1)
    first.cancel()
    rows = await second
    assert rows[0].outcome == "wrong"
    with pytest.raises(asyncio.CancelledError):
        await first


REPORT = """
import asyncio, json, sys
from pathlib import Path
from conductor_plugin.evaluation.report import write_report
from conductor_plugin.evaluation.store import Store
from conductor_plugin.evaluation.evaluate import evaluate, tasks_of
from conductor_plugin.pool import pool_from
from tests.unit.evaluation.test_evaluate import QUESTIONS, Exact, systems

pool = pool_from(json.loads(sys.argv[1]))
rows = asyncio.run(evaluate(tasks_of(systems(pool), QUESTIONS, 2), store=Store(sys.argv[2]), grader=Exact()))
write_report(rows, Path(sys.argv[3]), title="A report")
"""


def test_a_new_process_without_the_upstream_writes_the_same_bytes(store, tmp_path):
    with Upstream() as upstream:
        pool = two_models(upstream)
        first = report_of(pool, store, tmp_path / "first")
    assert len(upstream.requests) == 6 * 6 + 6 * 2
    second = report_of(pool, store, tmp_path / "second")
    assert sorted(first) == sorted(second)
    assert {name for name in first if first[name] != second[name]} == set()
    assert {"rows.jsonl", "report.md", "report.html", "steps.png", "steps.svg", "made-up-cost.svg"} <= set(first)


def report_of(pool, store, folder):
    content = json.dumps(pool.model_dump(mode="json", exclude_defaults=True))
    subprocess.run([sys.executable, "-c", REPORT, content, store.url, str(folder)], check=True, capture_output=True)
    return {path.name: path.read_bytes() for path in folder.iterdir()}
