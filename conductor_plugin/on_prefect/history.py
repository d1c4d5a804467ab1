"""Prefect without a server of one's own: settings for the embedded one, and a drain before exit.

Where no API URL is configured, Prefect starts a temporary server on SQLite. As it comes, that server
loses most of a short process's task-run history and stalls on locked writes; batching its recorder and
waiting for it cures both.
"""

import asyncio
import contextlib
import logging
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from uuid import UUID

from conductor_plugin.on_prefect.storage import check_prefect_home
from conductor_plugin.on_prefect.tasks import TASK_RUNS


@contextlib.contextmanager
def embedded_server() -> Iterator[bool]:
    """Settings for a temporary server; no change, and False, where an API URL is configured.

    InputError if Prefect's home is of no use to that server.
    """
    from prefect.settings import (
        PREFECT_API_URL,
        PREFECT_SERVER_ANALYTICS_ENABLED,
        PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS,
        PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE,
        PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL,
        PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE,
        temporary_settings,
    )

    if PREFECT_API_URL.value():
        yield False
        return
    check_prefect_home()
    with temporary_settings(
        updates={
            PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE: 100,
            PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE: 100,
            PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL: 1,
            PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: 180,
            PREFECT_SERVER_ANALYTICS_ENABLED: False,
        }
    ):
        _start_server()
        yield True


def _start_server() -> None:
    """Start the temporary server, out of reach of Ctrl-C.

    A terminal sends SIGINT to the whole process group. The server is started from a thread that blocks the
    signal, and inherits that: so the run that Ctrl-C cancels can still tell the server how it ended.
    """
    from prefect.server.api.server import SubprocessASGIServer

    failed: list[BaseException] = []

    def start() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            SubprocessASGIServer().start()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)  # in short turns, so that Ctrl-C gets through to this thread
    if failed:
        raise failed[0]


@contextlib.asynccontextmanager
async def whole_history(timeout_s: float = 60.0) -> AsyncIterator[None]:
    """Runs of `conductor` inside leave no task run unrecorded: on exit, wait until the server has all of them.

    A process that ends earlier loses the events that the server has not written yet. A history that stays
    incomplete is a warning: the answer itself is not lost for it.
    """
    counts: dict[UUID, int] = {}
    token = TASK_RUNS.set(counts)
    try:
        yield
    except BaseException:
        timeout_s = min(timeout_s, 3.0)
        raise
    finally:
        TASK_RUNS.reset(token)
        try:
            await drain(counts, timeout_s)
        except Exception as error:
            logging.getLogger(__name__).warning("The run's history may be incomplete: %s", error)


async def drain(expected: Mapping[UUID, int], timeout_s: float) -> None:
    """Wait until each flow run has as many task runs in a terminal state as `expected` says.

    TimeoutError names what is missing.
    """
    deadline = time.monotonic() + timeout_s
    while missing := await _missing(expected):
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"Prefect's server recorded {sum(missing.values())} task runs too few within {timeout_s:.0f} s"
            )
        await asyncio.sleep(0.2)


async def _missing(expected: Mapping[UUID, int]) -> dict[UUID, int]:
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
    from prefect.client.schemas.objects import StateType

    missing = {}
    terminal = {StateType.COMPLETED, StateType.FAILED, StateType.CRASHED, StateType.CANCELLED}
    async with get_client() as client:
        for flow_run_id, count in expected.items():
            done, offset = 0, 0
            while page := await client.read_task_runs(
                flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[flow_run_id])), limit=200, offset=offset
            ):
                done += sum(run.state_type in terminal for run in page)
                offset += len(page)
            if done < count:
                missing[flow_run_id] = count - done
    return missing
