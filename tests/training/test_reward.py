"""0, 0.5, 1 or nothing: what a rollout earns, whom it asks for that, and who is not asked twice."""

import asyncio
import json
import sqlite3
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.budget import Budget
from conductor_plugin.context import WorkerReply
from conductor_plugin.errors import BudgetError, ContentPolicyError, ContextTooLongError, PermanentError, TransientError
from conductor_plugin.grading.verdict import Verdict
from conductor_plugin.pool import pool_from
from tests.training.world import QUESTIONS, Exact, completion, config, pool_file
from tests.unit.test_budget import llm_pool
from tests.upstream import Status, Text
from training.config import RewardSpec
from training.paid import PaidCalls
from training.reward import Outcome, Rewarder, Rollout, priced, written_length

RIGHT, WRONG = completion(0), completion(1)
WORST, PAID = 475e-6, 17e-6  # USD of a call of `llm_pool`: before it is made, and as it is billed here
FAILURES = {
    "lost": TransientError("the connection was lost"),
    "key": PermanentError("wrong key", code="bad_key"),
    "policy": ContentPolicyError("no", code="content_policy"),
    "long": ContextTooLongError("too long", code="context_too_long"),
    "code": ValueError("a bug of the worker"),
}
asked: Counter = Counter()


async def failing(request, how):
    asked[how] += 1
    raise FAILURES[how]


async def counted(request, **_):
    asked[request.question, request.subtask] += 1
    await asyncio.sleep(0.01)
    return WorkerReply(output=request.question.split()[-1], cost_usd=0.25)


@pytest.fixture(autouse=True)
def _nobody_was_asked():
    asked.clear()


def rollout(text, question="q1", place=0, iteration=0, workers=(0, 1), after=None):
    return Rollout(question, text, workers, iteration, place, after)


def rewarder_of(folder, pool=None, questions=QUESTIONS, budget=None, grader=Exact, **changes):
    settings = config(pool_file(folder), **changes)
    pool = pool or pool_from(json.loads((folder / "pool.yaml").read_text()))
    paid = PaidCalls(folder / "calls.sqlite")
    return Rewarder(settings, pool, questions, paid=paid, grader=grader, budget=budget)


def pool_of(*entries):
    return pool_from({"workers": [{"name": f"w{i}", "retries": 0, **entry} for i, entry in enumerate(entries)]})


COUNTED = {"kind": "tests.training.test_reward:counted"}


async def rewards(rewarder, *texts, **options):
    return [o.reward for o in await rewarder.score([rollout(t, place=i, **options) for i, t in enumerate(texts)])]


async def test_format_answer_and_right(tmp_path):
    found = await rewards(rewarder_of(tmp_path), RIGHT, WRONG, completion(1, 0), "nonsense", completion(7))
    assert found == [1.0, 0.5, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("how", "reward", "error"),
    [
        ("lost", None, "worker_failed"),
        ("key", None, "bad_key"),
        ("code", None, "worker_raised"),
        ("policy", 0.5, "content_policy"),
        ("long", 0.5, "context_too_long"),
    ],
)
async def test_what_says_nothing_about_the_plan_gives_no_reward(tmp_path, how, reward, error):
    pool = pool_of({"kind": "tests.training.test_reward:failing", "params": {"how": how}}, COUNTED)
    (outcome,) = await rewarder_of(tmp_path, pool).score([rollout(RIGHT)])
    assert (outcome.reward, outcome.error, outcome.valid) == (reward, error, True)


async def test_transient_errors_are_retried_before(tmp_path, upstream):
    upstream.script(Status(503), Text("1"))
    pool = llm_pool(upstream.base_url)
    pool = pool.of(worker.model_copy(update={"retries": 1}) for worker in pool.workers)
    (outcome,) = await rewarder_of(tmp_path, pool).score([rollout(RIGHT)])
    assert (outcome.reward, outcome.calls, len(upstream.requests)) == (1.0, 2, 2)


async def test_a_grader_that_cannot_judge_gives_no_reward(tmp_path):
    class Broken:
        async def grade(self, question, answer):
            return Verdict(outcome="infrastructure")

    (outcome,) = await rewarder_of(tmp_path, grader=Broken).score([rollout(RIGHT)])
    assert (outcome.reward, outcome.right, outcome.error) == (None, None, "grader")


async def test_workers_that_may_answer_otherwise_are_asked_for_each_rollout(tmp_path):
    rewarder = rewarder_of(tmp_path, pool_of(COUNTED, COUNTED))
    await rewards(rewarder, RIGHT, RIGHT, RIGHT)
    assert asked.total() == 3


async def test_equal_calls_at_temperature_0_run_once_in_a_batch_and_after(tmp_path):
    exact = {**COUNTED, "params": {"temperature": 0}}
    rewarder = rewarder_of(tmp_path, pool_of(exact, exact))
    assert await rewards(rewarder, *[RIGHT] * 20, completion(0, subtask="other")) == [1.0] * 21
    assert await rewards(rewarder, RIGHT, iteration=1) == [1.0]
    assert asked.total() == 2


async def test_a_tool_that_is_told_of_a_step_by_its_number_is_asked_for_each_number(tmp_path):
    """The same words seen as step 0 or as step 1 are two questions to a tool."""
    pool = pool_of({"kind": "text"}, {"kind": "text"})
    asked = {"q": Question(id="q", benchmark="b", text="?", gold="cba", grader="text")}
    lists = "model_id = {}\nsubtasks = {}\naccess_list = {}"
    first = lists.format([0, 0], ["Reverse the text: abc", "Return the output of step 0."], "[[], [0]]")
    second = lists.format(
        [0, 0, 0], ["Reverse the text: xyz", "Reverse the text: abc", "Return the output of step 0."], "[[], [], [1]]"
    )
    rewarder = rewarder_of(tmp_path, pool, asked)
    await rewarder.score([rollout(first, "q"), rollout(second, "q", place=1)])
    assert rewarder.paid.made == 3  # abc is reversed once for both; "step 0" is asked for as step 0 and as step 1


async def test_another_process_is_told_what_was_paid_for(tmp_path):
    first, batch = rewarder_of(tmp_path, pool_of(COUNTED, COUNTED)), [completion(0, 1), RIGHT]
    before = await first.score([rollout(text, place=i) for i, text in enumerate(batch)])
    first.paid.close()
    second = rewarder_of(tmp_path, pool_of(COUNTED, COUNTED))
    after = await second.score([rollout(text, place=i) for i, text in enumerate(batch)])
    assert before == after
    assert (asked.total(), second.paid.made) == (3, 0)
    await second.score([rollout(RIGHT, iteration=1)])
    assert second.paid.made == 1


async def test_every_call_is_on_the_disk_when_the_scores_are_there(tmp_path):
    await rewards(rewarder_of(tmp_path, pool_of(COUNTED, COUNTED)), *[RIGHT] * 300)
    assert sqlite3.connect(tmp_path / "calls.sqlite").execute("SELECT count(*) FROM calls").fetchone() == (300,)


async def test_the_pools_limits_hold_and_the_batch_runs_at_once(tmp_path):
    limited = {**COUNTED, "max_concurrency": 10}
    rewarder = rewarder_of(tmp_path, pool_of(limited, limited))
    outcomes = await rewarder.score([rollout(RIGHT, place=i) for i in range(30)])
    assert max(outcome.latency_s for outcome in outcomes) > 0.029  # three after one another, through ten slots


async def test_the_budget_stops_the_batch_and_what_was_paid_stays(tmp_path, upstream):
    upstream.script(*[Text("1")] * 9)
    pool = llm_pool(upstream.base_url)
    rewarder = rewarder_of(tmp_path, pool, budget=Budget(WORST + 2.5 * PAID))
    with pytest.raises(BudgetError, match="budget of"):
        await rewards(rewarder, *[RIGHT] * 6)
    paid = len(upstream.requests)
    assert paid == 3  # what was settled made room, as far as it went
    richer = rewarder_of(tmp_path, pool, budget=Budget(1.0))
    assert await rewards(richer, *[RIGHT] * 6) == [1.0] * 6
    assert len(upstream.requests) == 6


async def test_a_second_round_corrects_or_keeps(tmp_path):
    rewarder = rewarder_of(tmp_path, rules={"max_rounds": 1})
    first, fine = await rewarder.score([rollout(WRONG), rollout(RIGHT, place=1)])
    keep = "model_id=[]\nsubtasks=[]\naccess_list=[]"
    second = [
        rollout(RIGHT, place=2, after=first),
        rollout(keep, place=3, after=first),
        rollout(keep, place=4, after=fine),
    ]
    assert [o.reward for o in await rewarder.score(second)] == [1.0, 0.5, 1.0]
    assert first.view.outputs[0].output == "no"
    # Without an answer there is nothing to keep.
    assert await rewards(rewarder, keep) == [0.0]


async def test_a_plan_that_ends_with_the_conductor_is_judged_by_its_answer_so_far(tmp_path):
    rewarder = rewarder_of(tmp_path, rules={"max_rounds": 1})
    (outcome,) = await rewarder.score([rollout(completion(0, 2))])
    assert (outcome.reward, outcome.view.plan.model_id) == (1.0, (0, 2))


async def test_a_label_violation_is_a_format_failure_where_asked_for(tmp_path):
    open_one, closed = {**COUNTED, "clearance": "internal"}, COUNTED
    secret = Question(id="s", benchmark="b", text="say 1", gold="1", grader="text", metadata={"label": "internal"})
    pool = pool_of(closed, open_one)
    strict = rewarder_of(tmp_path, pool, {"s": secret}, reward={"label_violation": "format"})
    assert await rewards(strict, RIGHT, WRONG, question="s") == [0.0, 1.0]  # worker 0 may not see it
    assert asked.total() == 1
    offered = rewarder_of(tmp_path, pool, {"s": secret})
    assert await rewards(offered, RIGHT, WRONG, question="s") == [1.0, 0.0]  # only worker 1 is offered, as number 0


@given(
    *[st.floats(0, 10) for _ in range(3)],
    st.integers(0, 20),
    st.one_of(st.none(), st.floats(0, 10)),
    st.floats(0, 100),
)
def test_a_right_answer_never_earns_less_than_a_wrong_one(calls, cost, latency, made, usd, seconds):
    spec = RewardSpec(call_weight=calls, cost_weight=cost, latency_weight=latency)
    outcome = Outcome(None, calls=made, cost_usd=usd, latency_s=seconds)
    assert 0.5 <= priced(outcome, spec) <= 1.0
    assert priced(outcome, RewardSpec()) == 1.0


async def test_cost_and_calls_are_taken_off_right_answers_alone(tmp_path):
    rewarder = rewarder_of(tmp_path, pool_of(COUNTED, COUNTED), reward={"call_weight": 0.01, "cost_weight": 0.1})
    outcomes = await rewarder.score([rollout(RIGHT), rollout(completion(0, 1), place=1), rollout("nonsense", place=2)])
    assert [outcome.reward for outcome in outcomes] == pytest.approx([1 - 0.01 - 0.025, 1 - 0.02 - 0.05, 0.0])
    assert [outcome.cost_usd for outcome in outcomes] == [0.25, 0.5, 0.0]


@given(st.integers(0, 5), st.integers(0, 4))
def test_a_completion_has_a_length_whether_it_is_valid_or_not(steps, worker):
    text = completion(*[worker] * steps)
    assert written_length(text) == steps
    assert written_length(text.replace("access_list", "acc")) == steps
    assert written_length("no list at all") == 0
    assert written_length("model_id = [1, 2") == 0
