"""The executor: data flow, access scoping, failures, growth, receipts."""

import asyncio
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.context import Message
from conductor_plugin.errors import TransientError
from conductor_plugin.graph import CallStep, ReduceStep, compile_steps, needed_steps
from conductor_plugin.pool import pool_from
from conductor_plugin.run import RunFinished, StepFinished, StepStarted, run_graph
from tests.unit import workbench
from tests.unit.workbench import CALLS, OVERLAPS, SCRIPTS, permanent, pool_of, transient


@pytest.fixture(autouse=True)
def _fresh():
    workbench.reset()


@st.composite
def access_lists(draw, most=8):
    lists = []
    for i in range(draw(st.integers(1, most))):
        earlier = draw(st.lists(st.integers(0, i - 1), unique=True)) if i else []
        lists.append("all" if draw(st.booleans()) and i else tuple(earlier))
    return lists


def calls(access_list, worker=0):
    return compile_steps([CallStep(worker=worker, subtask=str(i), access=a) for i, a in enumerate(access_list)])


@given(access_lists())
def test_every_worker_sees_exactly_its_access_list(access_list):
    workbench.reset()
    graph = calls(access_list)
    receipt = asyncio.run(run_graph(graph, pool=pool_of("echo"), question="q"))
    seen = {request.subtask: [s.index for s in request.seen] for _, request in CALLS}
    assert seen == {str(i): sorted(graph.predecessors(i)) for i in needed_steps(graph)}
    assert receipt.status == "completed"
    assert [step.index for step in receipt.steps] == list(range(len(access_list)))
    for step in receipt.steps:
        assert step.pruned == (step.index not in needed_steps(graph))
        assert step.status == ("not_started" if step.pruned else "completed")
        assert list(step.sees) == sorted(graph.predecessors(step.index))


@given(access_lists(), st.integers(0, 2**32))
def test_the_answer_does_not_depend_on_who_finishes_first(access_list, seed):
    """Every schedule gives what running the steps one after another gives."""
    graph = calls(access_list)
    outputs: dict[int, str] = {}
    for i in sorted(needed_steps(graph)):
        outputs[i] = f"{i}<{','.join(outputs[p] for p in sorted(graph.predecessors(i)))}>"
    rng = random.Random(seed)

    async def jittered(job, visible):
        from conductor_plugin.step import run_step

        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        return await run_step(job, visible)

    receipt = asyncio.run(run_graph(graph, pool=pool_of("echo"), question="q", step=jittered))
    assert receipt.answer == outputs[len(access_list) - 1]


async def test_no_level_barriers():
    """Step 2 sees only the quick step 0, so it starts while the slow step 1 of the first level still runs."""
    steps = [
        CallStep(worker=0, subtask="a 0.01"),
        CallStep(worker=0, subtask="b 0.2"),
        CallStep(worker=0, subtask="c 0.01", access=(0,)),
        CallStep(worker=0, subtask="d 0.01", access="all"),
    ]
    await run_graph(compile_steps(steps), pool=pool_of("sleeper"), question="q")
    assert frozenset(("b 0.2", "c 0.01")) in OVERLAPS
    assert [request.subtask for _, request in CALLS] == ["a 0.01", "c 0.01", "b 0.2", "d 0.01"]


async def test_history_question_and_sample_reach_the_worker():
    history = (Message(role="user", content="before"),)
    step = CallStep(worker=0, subtask="s", sample=7)
    await run_graph(compile_steps([step]), pool=pool_of("ok"), question="q", history=history)
    (_, request), *_ = CALLS
    assert (request.question, request.subtask, request.sample, request.history) == ("q", "s", 7, history)


async def test_five_samples_are_five_calls_and_a_vote():
    steps = [CallStep(worker=0, sample=i) for i in range(5)] + [ReduceStep(reduce="majority")]
    SCRIPTS["main"] = ["4", "5", "4", "5", "4"]
    receipt = await run_graph(compile_steps(steps), pool=pool_of("scripted:main"), question="q")
    assert sorted(request.sample for _, request in CALLS) == [0, 1, 2, 3, 4]
    assert receipt.answer == "4"
    assert (receipt.steps[5].kind, receipt.steps[5].cost_usd) == ("reduce", 0.0)


async def test_a_needed_failure_cancels_its_siblings():
    steps = [
        CallStep(worker=0, subtask="slow 30"),
        CallStep(worker=1),
        CallStep(worker=0, subtask="last 0.01", access="all"),
    ]
    SCRIPTS["bad"] = [permanent()]
    receipt = await asyncio.wait_for(
        run_graph(compile_steps(steps), pool=pool_of("sleeper", "scripted:bad"), question="q"), 5
    )
    assert receipt.status == "failed"
    assert receipt.error is not None
    assert receipt.error.code == "bad_request"
    assert [step.status for step in receipt.steps] == ["cancelled", "failed", "not_started"]
    assert receipt.answer is None


async def test_a_failure_that_the_answer_does_not_need_is_harmless():
    steps = [CallStep(worker=1), CallStep(worker=0, access=(0,)), CallStep(worker=0, subtask="answer")]
    SCRIPTS["bad"] = [permanent()]
    receipt = await run_graph(compile_steps(steps), pool=pool_of("echo", "scripted:bad"), question="q", run_all=True)
    assert receipt.status == "completed"
    assert [step.status for step in receipt.steps] == ["failed", "not_started", "completed"]
    assert not any(step.pruned for step in receipt.steps)


async def test_attempts_are_counted_over_retries():
    SCRIPTS["main"] = [transient(), transient(), "fine"]
    receipt = await run_graph(compile_steps([CallStep(worker=0)]), pool=pool_of("scripted:main"), question="q")
    assert (receipt.answer, receipt.steps[0].attempts, len(CALLS)) == ("fine", 3, 3)


async def test_a_fallback_answers_after_the_worker_failed_for_good():
    SCRIPTS["bad"], SCRIPTS["good"] = [transient(), transient()], ["rescued"]
    pool = pool_of("scripted:bad", "scripted:good", retries=1)
    first = pool.workers[0].model_copy(update={"fallbacks": ("scripted-good",)})
    pool = pool.model_copy(update={"workers": (first, pool.workers[1])})
    receipt = await run_graph(compile_steps([CallStep(worker=0)]), pool=pool, question="q")
    step = receipt.steps[0]
    assert (receipt.answer, step.worker, step.fallback_from, step.attempts) == (
        "rescued",
        "scripted-good",
        "scripted-bad",
        3,
    )


async def test_a_fallback_outside_the_questions_pool_is_not_used():
    SCRIPTS["bad"] = [permanent()]
    pool = pool_of("scripted:bad", "scripted:good")
    first = pool.workers[0].model_copy(update={"fallbacks": ("scripted-good",)})
    pool = pool.model_copy(update={"workers": (first, pool.workers[1])}).subset(only=["scripted-bad"])
    receipt = await run_graph(compile_steps([CallStep(worker=0)]), pool=pool, question="q")
    assert receipt.status == "failed"
    assert [name for name, _ in CALLS] == ["bad"]


@pytest.mark.parametrize(
    "broken",
    [
        *(ValueError("boom"), KeyError("x"), RuntimeError("Retry-After: 5"), TimeoutError("mine")),
        *(SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()),
    ],
    ids=repr,
)
async def test_any_exception_of_a_worker_becomes_a_failed_receipt(broken):
    SCRIPTS["main"] = [broken]
    receipt = await run_graph(compile_steps([CallStep(worker=0)]), pool=pool_of("scripted:main"), question="q")
    assert receipt.status == "failed"
    assert receipt.error is not None
    assert receipt.error.code == "worker_raised"
    assert "scripted" in receipt.error.message


class Blocking:
    """Workers that are not async."""

    @staticmethod
    def leave(request):
        raise SystemExit(3)

    @staticmethod
    def block(request):
        time.sleep(0.3)
        return "late"


leave, block = Blocking.leave, Blocking.block


async def test_a_worker_that_ends_the_program_does_not():
    pool = pool_from({"workers": [{"name": "a", "kind": "tests.unit.test_run:leave"}]})
    receipt = await run_graph(compile_steps([CallStep(worker=0)]), pool=pool, question="q")
    assert (receipt.status, receipt.error.code) == ("failed", "worker_raised")


async def test_blocking_workers_do_not_wait_for_one_another():
    """More of them at once than an executor has threads, each with little time to spare."""
    pool = pool_from(
        {"workers": [{"name": "a", "kind": "tests.unit.test_run:block", "timeout_seconds": 2, "retries": 0}]}
    )
    steps = [CallStep(worker=0, sample=i) for i in range(60)] + [ReduceStep(reduce="majority")]
    receipt = await run_graph(compile_steps(steps), pool=pool, question="q")
    assert receipt.answer == "late"


async def test_half_a_surrogate_pair_is_no_text():
    SCRIPTS["main"] = ["half \ud83d emoji"]
    receipt = await run_graph(compile_steps([CallStep(worker=0)]), pool=pool_of("scripted:main"), question="q")
    assert receipt.answer == "half ? emoji"


async def test_a_worker_that_takes_too_long_times_out_and_is_tried_again():
    pool = pool_of("sleeper", timeout_seconds=0.05, retries=1)
    receipt = await run_graph(compile_steps([CallStep(worker=0, subtask="x 9")]), pool=pool, question="q")
    assert receipt.error is not None
    assert (receipt.error.code, receipt.steps[0].attempts) == ("worker_timeout", 2)


async def test_growing_plans():
    """The next step is chosen after reading output; nothing is pruned, and the last step answers."""
    seen: list[list[str]] = []

    async def grow(results):
        seen.append([result.reply.output for result in results])
        return [CallStep(worker=0, subtask=f"turn {len(results)}", access="all")] if len(results) < 3 else []

    start = compile_steps([CallStep(worker=0, subtask="turn 0")])
    receipt = await run_graph(start, pool=pool_of("echo"), question="q", grow=grow)
    assert [len(outputs) for outputs in seen] == [1, 2, 3]
    assert [step.sees for step in receipt.steps] == [(), (0,), (0, 1)]
    assert receipt.answer == "turn 2<turn 0<>,turn 1<turn 0<>>>"
    assert len(CALLS) == 3


async def test_a_growing_plan_does_not_run_a_failed_step_again():
    SCRIPTS["bad"] = [permanent(), "never asked"]
    turns = []

    async def grow(results):
        turns.append(len(results))
        return [CallStep(worker=0, subtask="more")] if len(turns) < 3 else []

    start = compile_steps([CallStep(worker=1), CallStep(worker=0, subtask="answer")])
    receipt = await run_graph(start, pool=pool_of("echo", "scripted:bad"), question="q", grow=grow)
    assert [name for name, _ in CALLS] == ["bad", "echo", "echo", "echo"]
    assert [step.status for step in receipt.steps] == ["failed", "completed", "completed", "completed"]


async def test_cancellation_reaches_the_calls_and_tells_the_receipt():
    told: list[object] = []
    steps = [CallStep(worker=0, subtask="quick 0.01"), CallStep(worker=0, subtask="slow 30", access=(0,))]
    run = asyncio.create_task(
        run_graph(compile_steps(steps), pool=pool_of("sleeper"), question="q", on_event=told.append)
    )
    while StepStarted(1, "sleeper") not in told:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    receipt = next(event.receipt for event in told if isinstance(event, RunFinished))
    assert receipt.status == "cancelled"
    assert [step.status for step in receipt.steps] == ["completed", "cancelled"]
    assert not any(workbench.RUNNING.values())


async def test_events_come_in_order():
    told: list[object] = []
    await run_graph(calls([(), (0,)]), pool=pool_of("ok"), question="q", on_event=told.append)
    kinds = [type(event) for event in told]
    assert kinds == [StepStarted, StepFinished, StepStarted, StepFinished, RunFinished]


async def test_critical_path_is_no_longer_than_the_run():
    steps = [
        CallStep(worker=0, subtask="a 0.05"),
        CallStep(worker=0, subtask="b 0.1"),
        CallStep(worker=0, subtask="c 0.05", access="all"),
    ]
    receipt = await run_graph(compile_steps(steps), pool=pool_of("sleeper"), question="q")
    assert 0.14 < receipt.critical_path_s <= receipt.elapsed_s


async def test_maybe_billed_attempts_make_the_cost_unknown():
    SCRIPTS["main"] = [TransientError("cut off", code="connection", maybe_billed=True), "fine"]
    receipt = await run_graph(compile_steps([CallStep(worker=0)]), pool=pool_of("scripted:main"), question="q")
    step = receipt.steps[0]
    assert (receipt.answer, step.cost_usd, step.prompt_tokens, step.completion_tokens) == ("fine", None, None, None)


async def test_an_empty_graph_has_an_empty_receipt():
    receipt = await run_graph(compile_steps([]), pool=pool_of("ok"), question="q")
    assert (receipt.status, receipt.steps, receipt.answer) == ("completed", (), None)
