"""Real servers for tests and for the scripts in tests/performance: processes, and Prefect's server.

    with prefect_server() as server, server.use():
        my_flow()                    # its run is at server.ui_url

Run a script that imports this as `python -m tests.performance.NAME`, from the root of the repository.
"""

import inspect
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_SECONDS = 90

# Without batches the recorder commits each task run's events alone and collides with the API on SQLite: flows then
# wait for seconds, and a short process loses task runs.
PREFECT_SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": str(START_SECONDS),
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
}

# The server runs under a shell that stops it when its own standard input closes: so it stops also when this process
# is killed and can clean nothing up.
_GUARD = 'exec 3<&0; "$@" & server=$!; (cat <&3 >/dev/null; kill -s "$STOP_SIGNAL" $server) & wait $server'


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(
    command: list[str], *, log: Path, ready: Callable[[], bool], stop: str = "TERM", **options: Any
) -> Iterator[None]:
    """Run a server until the block ends, whatever ends it. `options` are those of `subprocess.Popen`."""
    options["env"] = {**options.get("env", os.environ), "STOP_SIGNAL": stop}
    with log.open("wb") as output:
        guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **options,
        )
    try:
        _wait_until(ready, guard, log)
        yield
    finally:
        guard.stdin.close()  # type: ignore[union-attr]
        with suppress(subprocess.TimeoutExpired):
            guard.wait(10)
        with suppress(ProcessLookupError):
            os.killpg(guard.pid, signal.SIGKILL)
        guard.wait()


def _wait_until(ready: Callable[[], bool], process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
            raise RuntimeError(f"the server did not start; the end of its log:\n{tail}")
        time.sleep(0.1)


@dataclass(frozen=True)
class PrefectServer:
    api_url: str
    ui_url: str
    home: Path  # its PREFECT_HOME, with server.log in it

    @contextmanager
    def use(self) -> Iterator[None]:
        """Point this process's flows and clients at the server."""
        from prefect.settings import PREFECT_API_URL, temporary_settings

        with temporary_settings({PREFECT_API_URL: self.api_url}):
            _send_what_waits()
            try:
                yield
            finally:
                _send_what_waits()


def _send_what_waits() -> None:
    """End Prefect's senders of events and logs: they stay with the first server that they saw."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker
    from prefect.utilities.asyncutils import run_coro_as_sync

    async def drain() -> None:
        for sender in (EventsWorker, APILogWorker):
            result = sender.drain_all(timeout=30)
            if inspect.isawaitable(result):
                await result

    run_coro_as_sync(drain())


def prefect_environment(home: Path, **more: str) -> dict[str, str]:
    """The environment of a Prefect process that knows nothing of the user's own Prefect."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    return {**mine, "DO_NOT_TRACK": "1", "PREFECT_HOME": str(home), **PREFECT_SETTINGS, **more}


@contextmanager
def prefect_server(database_url: str | None = None) -> Iterator[PrefectServer]:
    """A real `prefect server start` on a free port, on its own SQLite file or on the given database."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with tempfile.TemporaryDirectory(prefix="prefect-server-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        settings = {"PREFECT_SERVER_UI_API_URL": f"{url}/api"}
        if database_url:
            settings["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = database_url
        environment = prefect_environment(home, **settings)
        with running(command, log=home / "server.log", ready=lambda: _healthy(f"{url}/api"), env=environment, cwd=home):
            yield PrefectServer(f"{url}/api", url, home)


def _healthy(api_url: str) -> bool:
    import httpx

    with suppress(httpx.HTTPError):
        return httpx.get(f"{api_url}/health", trust_env=False, timeout=5).is_success
    return False


@contextmanager
def prefect_harness() -> Iterator[str]:
    """Prefect's own test harness, on SQLite and in its own PREFECT_HOME, with every flow of this process pointed at it.

    Much lighter than a `prefect_server`, but without the UI.
    """
    from prefect.settings import PREFECT_API_URL, temporary_settings
    from prefect.testing.utilities import prefect_test_harness

    with tempfile.TemporaryDirectory(prefix="prefect-home-", ignore_cleanup_errors=True) as home:
        settings = {"PREFECT_HOME": home, **PREFECT_SETTINGS}
        with temporary_settings(_keyed(settings)), prefect_test_harness(server_startup_timeout=START_SECONDS):
            yield str(PREFECT_API_URL.value())


def _keyed(settings: dict[str, str]) -> dict[Any, str]:
    import prefect.settings

    return {getattr(prefect.settings, name): value for name, value in settings.items()}
