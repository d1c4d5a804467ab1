"""Prefect without a server of one's own: settings for the embedded one, and a drain before exit.

Where no API URL is configured, Prefect starts a temporary server on SQLite. As it comes, that server
loses most of a short process's task-run history and stalls on locked writes; batching its recorder and
waiting for it cures both.
"""

import asyncio
import contextlib
import contextvars
import logging
import math
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

    # In a copy of this context: the settings above are in it, and a new thread's own context would have none of them.
    thread = threading.Thread(target=contextvars.copy_context().run, args=(start,), daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)  # in short turns, so that Ctrl-C gets through to this thread
    if failed:
        raise failed[0]


@contextlib.asynccontextmanager
async def whole_history(patience_s: float = 30.0) -> AsyncIterator[None]:
    """Runs of `conductor` inside leave no task run unrecorded: on exit, wait until the server has all of them.

    A process that ends earlier loses the events that the server has not written yet. The wait goes on as long as the
    server records anything within `patience_s`; a history that stays incomplete is a warning: the answer itself
    is not lost for it. Who is interrupted waits for 3 s at most.
    """
    counts: dict[UUID, int] = {}
    token = TASK_RUNS.set(counts)
    most_s = math.inf
    try:
        yield
    except BaseException:
        most_s = 3.0
        raise
    finally:
        TASK_RUNS.reset(token)
        try:
            await drain(counts, patience_s, most_s)
        except Exception as error:
            logging.getLogger(__name__).warning("The run's history may be incomplete: %s", error)


async def drain(expected: Mapping[UUID, int], patience_s: float, most_s: float = math.inf) -> None:
    """Wait until each flow run has as many task runs in a terminal state as `expected` says.

    TimeoutError says how many are missing, after `patience_s` without a further one or `most_s` in all.
    """
    began = last = time.monotonic()
    fewest = math.inf
    while missing := await _missing(expected):
        now = time.monotonic()
        if missing < fewest:
            fewest, last = missing, now
        if now - last > patience_s or now - began > most_s:
            raise TimeoutError(f"Prefect's server recorded {missing} task runs too few in {now - began:.0f} s")
        await asyncio.sleep(0.3)


async def _missing(expected: Mapping[UUID, int]) -> int:
    """How many task runs are not in a terminal state yet. Counted by the server: to read them all would keep the
    temporary one, on SQLite, from recording them."""
    from prefect.client.orchestration import get_client

    found = 0
    async with get_client() as client:
        for flow_run_id, count in expected.items():
            wanted = {
                "flow_runs": {"id": {"any_": [str(flow_run_id)]}},
                "task_runs": {"state": {"type": {"any_": ["COMPLETED", "FAILED", "CRASHED", "CANCELLED"]}}},
            }
            response = await client.request("POST", "/task_runs/count", json=wanted)
            found += max(count - int(response.json()), 0)
    return found
