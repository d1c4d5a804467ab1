"""A run that is stopped from outside - cancelled in the UI, Ctrl-C, SIGTERM - still says what it came to."""

import asyncio
from collections.abc import Awaitable, Callable

from prefect.exceptions import TerminationSignal
from prefect.logging import get_run_logger

from conductor_plugin.conduct import Answered
from conductor_plugin.receipt import Answer
from conductor_plugin.rounds import Listener

# Who stops a run waits for its process, and kills it after a while (Prefect's worker after 30 s, others sooner).
SETTLE_SECONDS = 1.5


def told_to(answers: list[Answer], on_event: Listener, flow_run_id: Callable[[], str | None]) -> Listener:
    """A listener that also keeps the answer, which a stopped `conduct` tells and does not return."""

    def heard(event: object) -> None:
        if isinstance(event, Answered):
            answers.append(event.answer.model_copy(update={"flow_run_id": flow_run_id()}))
        on_event(event)

    return heard


async def settled(running: Awaitable[Answer], write: Callable[[Answer], Awaitable[None]], told: list[Answer]) -> Answer:
    """The answer; where the run is stopped, what it came to is written first, and then what stopped it is raised."""
    try:
        return await running
    except (Exception, GeneratorExit):
        raise
    except BaseException as stop:
        if told:
            await _settle(write, told[-1])
        raise _signal_in(stop) or stop from None


async def _settle(write: Callable[[Answer], Awaitable[None]], answer: Answer) -> None:
    try:
        async with asyncio.timeout(SETTLE_SECONDS):
            await write(answer)
    except Exception as error:
        get_run_logger().warning("The stopped run's artifact could not be written: %s", type(error).__name__)


def _signal_in(stop: BaseException) -> TerminationSignal | None:
    """SIGTERM, where it struck inside a step: Prefect's engine would not find it in a task group's exception."""
    while isinstance(stop, BaseExceptionGroup):
        stop = next((error for error in stop.exceptions if not isinstance(error, Exception)), stop.exceptions[0])
    return stop if isinstance(stop, TerminationSignal) else None
