"""The planners of one worker: single, 5x context, 5x self-reflection, 5x consensus, through the real executor."""

import pytest

from conductor_plugin.conduct import conduct
from conductor_plugin.context import build_messages
from conductor_plugin.graph import CallStep, compile_steps
from conductor_plugin.plan import PlanRules
from conductor_plugin.planners import make_planner
from conductor_plugin.planners.base import PlanRequest
from conductor_plugin.planners.consensus import Consensus
from conductor_plugin.planners.context5 import LongContext
from conductor_plugin.planners.reflection import REFLECT
from conductor_plugin.pool import Pool, pool_from
from conductor_plugin.quote import quote
from conductor_plugin.run import run_graph
from conductor_plugin.worker_spec import WorkerSpec
from tests.unit import workbench
from tests.unit.workbench import CALLS, SCRIPTS, pool_of


@pytest.fixture(autouse=True)
def _fresh():
    workbench.reset()


async def answered(pool: Pool, name: str):
    return await conduct("q", pool=pool, planner=make_planner(pool, name))


async def test_single_asks_its_worker_the_bare_question_once():
    SCRIPTS["b"] = ["four"]
    answer = await answered(pool_of("ok", "scripted:b"), "single:scripted-b")
    assert (answer.answer, answer.planner.name, answer.usage.calls) == ("four", "single:scripted-b", 1)
    [(_, request)] = CALLS
    assert (request.question, request.subtask, request.seen) == ("q", "", ())


async def test_reflection_has_everything_before_in_view():
    SCRIPTS["a"] = ["1", "2", "3", "4", "5"]
    answer = await answered(pool_of("scripted:a"), "reflection:scripted-a")
    assert (answer.answer, answer.usage.calls) == ("5", 5)
    assert [[seen.output for seen in request.seen] for _, request in CALLS] == [list("1234")[:i] for i in range(5)]
    assert [request.subtask for _, request in CALLS] == ["", *[REFLECT] * 4]


async def test_consensus_is_five_distinct_calls_and_a_vote():
    SCRIPTS["a"] = ["I say 5", r"\boxed{4}", "So the answer is 4.", "The answer is 5", "Answer: 4"]
    answer = await answered(pool_of("scripted:a"), "consensus:scripted-a")
    assert (answer.answer, answer.usage.calls) == (r"\boxed{4}", 5)
    assert [request.sample for _, request in CALLS] == [0, 1, 2, 3, 4]
    assert {(request.subtask, request.seen) for _, request in CALLS} == {("", ())}
    assert [step.kind for step in answer.rounds[0].steps][-1] == "reduce"


async def test_a_tied_consensus_is_the_earliest():
    SCRIPTS["a"] = ["3", "2", "1", "2", "3"]
    assert (await answered(pool_of("scripted:a"), "consensus:scripted-a")).answer == "3"


def capped(**fields: object) -> Pool:
    worker = {"name": "a", "kind": "llm", "model": "openai/x", **fields}
    return pool_from({"workers": [worker, {**worker, "name": "b", "fallbacks": []}]})


async def specs_called(pool: Pool) -> list[WorkerSpec]:
    """The workers as the executor hands them to a step, each of them failing."""
    called: list[WorkerSpec] = []

    async def step(job, visible):
        called.append(job.worker)
        raise workbench.permanent()

    request = PlanRequest(question="q", pool=pool, rules=PlanRules(workers=2))
    proposal = await LongContext(worker="a").propose(request)
    assert proposal.steps is not None
    await run_graph(compile_steps(proposal.steps), pool=pool, question="q", step=step)
    return called


@pytest.mark.parametrize("cap", ["max_tokens", "max_completion_tokens"])
async def test_five_times_the_context_for_the_worker_and_its_fallback(cap):
    pool = capped(params={cap: 100, "temperature": 0.2}, fallbacks=["b"], timeout_seconds=60)
    called = await specs_called(pool)
    assert [worker.name for worker in called] == ["a", "b"]
    assert [worker.params for worker in called] == [{cap: 500, "temperature": 0.2}] * 2
    assert [worker.timeout_seconds for worker in called] == [300, 300]
    assert called[0].fingerprint != pool.workers[0].fingerprint  # no result of the capped worker is taken for it
    assert pool.workers[0].params[cap] == 100


async def test_a_quote_knows_of_the_larger_cap():
    pool = capped(params={"max_tokens": 100}, price={"input": 1, "output": 10}, retries=0)
    most = [
        quote(compile_steps([step]), pool=pool, question="q", typical={}).completion_tokens.high
        for step in (CallStep(worker=0), CallStep(worker=0, caps=5))
    ]
    assert most == [100, 500]


async def test_five_times_no_cap_is_refused():
    answer = await answered(pool_of("ok"), "context5:ok")
    assert (answer.status, answer.error and answer.error.code, CALLS) == ("no_plan", "no_max_tokens", [])


async def test_a_worker_that_the_question_may_not_use_is_named():
    answer = await conduct("q", pool=pool_of("ok"), planner=Consensus(worker="gone"))
    assert answer.error is not None
    assert (answer.status, answer.error.code) == ("no_plan", "pool_unknown_worker")
    assert "'gone'" in answer.error.message


async def test_reflection_shows_its_own_answers_as_an_assistants():
    await answered(pool_of("echo"), "reflection:echo")
    roles = [message.role for message in build_messages(CALLS[-1][1])]
    assert roles == ["user", "assistant"] * 4 + ["user"]
