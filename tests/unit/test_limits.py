"""A worker's limits within one event loop, on a clock that moves only when everybody waits."""

import asyncio
import contextlib

import pytest

from conductor_plugin import limits, step
from conductor_plugin.context import Message, WorkerReply
from conductor_plugin.errors import TransientError, WorkerTimeout
from conductor_plugin.graph import CallStep
from conductor_plugin.limits import Gate, expected_tokens, gate
from conductor_plugin.step import StepJob
from conductor_plugin.worker_spec import WorkerSpec

nothing_but_others = asyncio.sleep  # as it is before a test replaces it


def worker(**limits: object) -> WorkerSpec:
    return WorkerSpec.model_validate({"name": "a", "kind": "text"} | limits)


class Clock:
    """Stands in for `time.monotonic` and `asyncio.sleep`: the earliest sleeper moves it once nobody else can go on."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.sleepers: list[float] = []

    async def sleep(self, seconds: float) -> None:
        until = self.now + seconds
        self.sleepers.append(until)
        while self.now < until:
            before = list(self.sleepers)
            for _ in range(20):
                await nothing_but_others(0)
            if self.sleepers == before and until == min(before):
                self.now = until
        self.sleepers.remove(until)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(limits.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    return clock


class Calls:
    """Calls through a gate: when each began, in seconds from the start, and how many ran at once."""

    def __init__(self, entrance: Gate, clock: Clock, seconds: float = 0.0) -> None:
        self.entrance, self.clock, self.seconds = entrance, clock, seconds
        self.start, self.began, self.inside, self.peak = clock.now, [0.0] * 0, 0, 0

    async def one(self) -> None:
        async with self.entrance:
            self.began.append(self.clock.now - self.start)
            self.inside += 1
            self.peak = max(self.peak, self.inside)
            if self.seconds:
                await self.clock.sleep(self.seconds)
            self.inside -= 1

    async def many(self, n: int) -> "Calls":
        await asyncio.gather(*(self.one() for _ in range(n)))
        return self


@pytest.mark.parametrize(("slots", "calls"), [(1, 4), (3, 10), (8, 8), (8, 3), (None, 50)])
async def test_no_more_calls_at_once_than_allowed(slots: int | None, calls: int, clock: Clock) -> None:
    seen = await Calls(Gate(max_concurrency=slots), clock, seconds=2.0).many(calls)
    at_once = slots or calls
    assert seen.peak == min(at_once, calls)
    assert seen.began == [2.0 * (i // at_once) for i in range(calls)]


async def test_requests_are_spaced(clock: Clock) -> None:
    seen = await Calls(Gate(requests_per_minute=120), clock).many(5)
    assert seen.began == [0.0, 0.5, 1.0, 1.5, 2.0]


async def test_slow_calls_with_both_limits(clock: Clock) -> None:
    seen = await Calls(Gate(requests_per_minute=60, max_concurrency=2), clock, seconds=5.0).many(5)
    assert (seen.began, seen.peak) == ([0.0, 1.0, 5.0, 6.0, 10.0], 2)


async def test_an_idle_minute_is_not_saved_up(clock: Clock) -> None:
    entrance = Gate(requests_per_minute=60)
    await Calls(entrance, clock).many(1)
    clock.now += 60
    assert (await Calls(entrance, clock).many(3)).began == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(("holds", "delay"), [([3.0], 3.0), ([3.0, 1.0], 3.0), ([1.0, 3.0], 3.0), ([0.0], 0.0)])
async def test_a_hold_delays_everyone_and_the_longest_counts(holds: list[float], delay: float, clock: Clock) -> None:
    entrance = Gate()
    for seconds in holds:
        entrance.hold(seconds)
    assert (await Calls(entrance, clock).many(3)).began == [delay] * 3


async def test_a_hold_reaches_those_who_wait_already(clock: Clock) -> None:
    entrance = Gate(requests_per_minute=60)
    calls = Calls(entrance, clock)
    waiting = asyncio.create_task(calls.many(3))
    while not calls.began:
        await nothing_but_others(0)
    entrance.hold(30.0)
    assert (await waiting).began == [0.0, 30.0, 31.0]


async def test_a_held_call_that_runs_goes_on(clock: Clock) -> None:
    entrance = Gate(max_concurrency=1)
    async with entrance:
        entrance.hold(5.0)
    assert (await Calls(entrance, clock).many(1)).began == [5.0]


@pytest.mark.parametrize("how", ["fails", "is cancelled", "is cancelled while it waits"])
async def test_a_call_that_ends_badly_frees_its_slot(how: str) -> None:
    entrance = Gate(max_concurrency=1)

    async def call() -> None:
        async with entrance:
            if how == "fails":
                raise ValueError
            await asyncio.Event().wait()

    if how == "is cancelled while it waits":
        entrance.hold(1000.0)
    task = asyncio.create_task(call())
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, ValueError):
        await task
    entrance._not_before = 0.0
    async with asyncio.timeout(5), entrance:
        pass


async def test_one_gate_for_one_worker() -> None:
    assert gate(worker()) is gate(worker())
    assert gate(worker()) is gate(worker(params={"x": 1}))  # other settings, the same provider's limits
    others = [worker(max_concurrency=1), worker(requests_per_minute=1), worker(name="b")]
    assert len({id(gate(spec)) for spec in [worker(), *others]}) == 4


def test_event_loops_do_not_share_gates() -> None:
    async def crowd() -> Gate:
        """Two calls, so that the second one waits, which binds a semaphore to its event loop."""
        entrance = gate(worker(max_concurrency=1))

        async def call() -> None:
            async with entrance:
                await asyncio.sleep(0)

        await asyncio.gather(call(), call())
        return entrance

    assert asyncio.run(crowd()) is not asyncio.run(crowd())


async def test_tokens_are_waited_for(clock: Clock) -> None:
    entrance = Gate(tokens_per_minute=600)  # ten a second

    async def call(expected: int, used: int) -> float:
        async with entrance:
            entrance.charge(expected)
            began = clock.now - 1000.0
            await clock.sleep(1.0)
            entrance.charge(used - expected)
        return began

    assert await asyncio.gather(*(call(100, 100) for _ in range(3))) == [0.0, 10.0, 20.0]
    clock.now = 2000.0
    # What was charged too much is given back while the others wait, at most a nap later.
    first, second = await asyncio.gather(call(6000, 20), call(20, 20))
    assert (first, second) == (1000.0, 1002.0)


async def test_an_idle_minute_of_tokens_is_not_saved_up(clock: Clock) -> None:
    entrance = Gate(tokens_per_minute=60)
    entrance.charge(10)
    entrance.charge(-10)
    clock.now += 600
    for seconds in (5, 3):
        entrance.charge(seconds)
    async with entrance:
        assert clock.now == 1000.0 + 600 + 8


@pytest.mark.parametrize(
    ("failure", "billed"), [(None, True), (TransientError("429"), False), (WorkerTimeout("t", maybe_billed=True), True)]
)
async def test_a_steps_tokens_count_unless_its_call_was_refused(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, failure: Exception | None, billed: bool
) -> None:
    async def call(spec: WorkerSpec, request: object) -> WorkerReply:
        if failure:
            raise failure
        return WorkerReply(output="x", prompt_tokens=40, completion_tokens=20)

    monkeypatch.setattr(step, "call_worker", call)
    spec = worker(tokens_per_minute=60, retries=0, params={"max_tokens": 60})
    job = StepJob(0, CallStep(worker=0, subtask=""), spec, "q")
    for _ in range(2):
        with contextlib.suppress(TransientError):
            await step.run_step(job, ())
    waited = clock.now - 1000.0
    assert 59 <= waited <= 62 if billed else waited == 0


@pytest.mark.parametrize(
    "params", [{}, {"max_tokens": 10}, {"max_completion_tokens": 10, "max_tokens": 99}, {"max_tokens": "x"}]
)
def test_the_tokens_that_a_call_may_take(params: dict[str, object]) -> None:
    most = 10 if params and params.get("max_tokens") != "x" else 0
    assert expected_tokens(worker(params=params), [Message(role="user", content="abcd" * 5)]) == 5 + most
