"""The one retry policy: which errors deserve another attempt, how many, and how long to wait."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.errors import (
    ConductorError,
    ContextTooLongError,
    PermanentError,
    QuotaError,
    TransientError,
    WorkerError,
    WorkerTimeout,
)
from conductor_plugin.plan import PlanRules
from conductor_plugin.planners.base import PlanRequest, Proposal
from conductor_plugin.policy import RetryPolicy, with_retries
from conductor_plugin.rounds import ask
from tests.unit.strategies import make_pool

DONE = "done"
TRANSIENT, TIMEOUT = TransientError("try again"), WorkerTimeout("too slow")
SOON, LATER = TransientError("wait a minute", retry_after_s=60.0), TransientError("come back", retry_after_s=121.0)
PERMANENT, QUOTA, TOO_LONG = PermanentError("never"), QuotaError("no more"), ContextTooLongError("too long")
OTHER = ConductorError("something else")


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of every sleep, which takes none."""
    return no_sleep(monkeypatch)


def no_sleep(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds: list[float] = []

    async def sleep(delay: float) -> None:
        seconds.append(delay)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return seconds


class Script:
    """A call that raises or returns one outcome after the other; the last one for ever."""

    def __init__(self, *outcomes: Exception | str) -> None:
        self.outcomes, self.calls = outcomes, 0

    async def __call__(self) -> str:
        outcome = self.outcomes[min(self.calls, len(self.outcomes) - 1)]
        self.calls += 1
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@pytest.mark.parametrize(
    ("outcomes", "retries", "calls"),
    [
        ([DONE], 3, 1),
        ([TRANSIENT, TIMEOUT, DONE], 3, 3),
        ([TRANSIENT, TRANSIENT, TRANSIENT, DONE], 3, 4),
        ([TRANSIENT], 3, 4),
        ([TRANSIENT], 0, 1),
        ([TRANSIENT, DONE], 1, 2),
        ([PERMANENT], 3, 1),
        ([QUOTA], 3, 1),
        ([TOO_LONG], 3, 1),
        ([OTHER], 3, 1),
        ([ValueError("a bug")], 3, 1),
        ([TRANSIENT, PERMANENT], 3, 2),
        ([SOON, DONE], 3, 2),
        ([LATER], 3, 1),
        ([TRANSIENT, LATER], 3, 2),
        ([SOON], 2, 3),
    ],
)
async def test_calls(outcomes: list[Exception | str], retries: int, calls: int, slept: list[float]) -> None:
    script = Script(*outcomes)
    last = outcomes[calls - 1] if calls <= len(outcomes) else outcomes[-1]
    try:
        ended: object = await with_retries(script, RetryPolicy(retries=retries))
    except Exception as error:
        ended = error
    assert (script.calls, len(slept)) == (calls, calls - 1)
    assert ended is last


@given(st.lists(st.sampled_from([DONE, TRANSIENT, TIMEOUT, SOON, LATER, PERMANENT]), min_size=1), st.integers(0, 20))
def test_an_attempt_follows_only_what_deserves_it(outcomes: list[Exception | str], retries: int) -> None:
    policy = RetryPolicy(retries=retries)
    deserving = [isinstance(outcome, Exception) and policy.deserves_retry(outcome) for outcome in outcomes]
    first_end = deserving.index(False) if False in deserving else retries
    script = Script(*outcomes)
    with pytest.MonkeyPatch.context() as monkeypatch:
        no_sleep(monkeypatch)
        asyncio.run(asyncio.wait_for(_swallow(script, policy), 10))
    assert script.calls == 1 + min(first_end, retries)


async def _swallow(script: Script, policy: RetryPolicy) -> None:
    try:
        await with_retries(script, policy)
    except WorkerError as error:
        assert error in script.outcomes  # noqa: PT017 - which error it is, not that there is one


async def test_cancellation_is_no_failure(slept: list[float]) -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await with_retries(cancelled, RetryPolicy())
    assert slept == []


@given(
    st.builds(
        RetryPolicy,
        retries=st.integers(0, 20),
        first_delay_s=st.floats(0, 100),
        factor=st.floats(1, 10),
        longest_delay_s=st.floats(0, 100),
        jitter=st.floats(0, 1),
    )
)
def test_waits_grow_up_to_a_bound(policy: RetryPolicy) -> None:
    delays = policy.delays()
    assert len(delays) == policy.retries
    assert delays == sorted(delays)
    assert all(delay <= policy.longest_delay_s for delay in delays)
    with pytest.MonkeyPatch.context() as monkeypatch:
        slept = no_sleep(monkeypatch)
        asyncio.run(_swallow(Script(TRANSIENT), policy))
    assert len(slept) == policy.retries
    for waited, delay in zip(slept, delays, strict=True):
        assert delay <= waited <= delay * (1 + policy.jitter) * 1.000001


def test_default_waits() -> None:
    assert RetryPolicy().delays() == [0.5, 1.0, 2.0]
    assert RetryPolicy(retries=9).delays()[-2:] == [30.0, 30.0]


@pytest.mark.parametrize(("asked", "deserves"), [(None, True), (0.0, True), (9.9, True), (10.0, True), (10.1, False)])
def test_nobody_waits_longer_than_longest_wait_s(asked: float | None, deserves: bool) -> None:
    policy = RetryPolicy(longest_wait_s=10.0)
    assert policy.deserves_retry(TransientError("wait", retry_after_s=asked)) is deserves
    assert not policy.deserves_retry(PermanentError("no", retry_after_s=asked))
    assert not policy.deserves_retry(None)


class BusyPlanner:
    """Asks for a wait of a minute, then gives a plan."""

    name, tries = "busy", 1

    def __init__(self) -> None:
        self.script = Script(SOON, DONE)

    async def propose(self, request: PlanRequest) -> Proposal:
        return Proposal(completion=await self.script(), steps=(), calls=1)


async def test_a_planner_waits_as_long_as_its_provider_asks(slept: list[float]) -> None:
    request = PlanRequest(question="Why?", pool=make_pool("a"), rules=PlanRules(workers=1))
    asked = await ask(BusyPlanner(), request)
    assert asked.proposal is not None
    assert sum(slept) >= 60.0
