"""The shipped deployment as its users run it: a server, a process worker, and the processes of its flow runs.

    with deployed(server, home) as deployment, deployment.worker():
        run = deployment.start(question="q", pool=pool)
        deployment.wait(run, StateType.COMPLETED)

One at a time on a server: the work pool's name is fixed.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.states import State as NewState

from tests.servers import PrefectServer

ROOT = Path(__file__).parents[1]
POOL = "conductor"
ENDS = {StateType.COMPLETED, StateType.FAILED, StateType.CANCELLED}


@dataclass(frozen=True)
class Deployment:
    client: SyncPrefectClient
    environment: dict[str, str]
    home: Path

    def prefect(self, *arguments: str) -> None:
        self.python("-m", "prefect", "--no-prompt", *arguments)

    def python(self, *arguments: str) -> str:
        """Run Python in the repository's root, as the README has it."""
        done = subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def worker(self, name: str = "worker") -> Iterator["subprocess.Popen[bytes]"]:
        """A process worker; its log is `NAME.log` in the home."""
        command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL, "--name", name]
        with (self.home / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)

    def start(self, **parameters: Any) -> UUID:
        """Create a flow run, which a worker will take."""
        deployment = self.client.read_deployment_by_name("conductor/answer")
        return self.client.create_flow_run_from_deployment(deployment.id, parameters=parameters).id

    def wait(self, run: UUID, *types: StateType, seconds: float = 60) -> FlowRun:
        """Wait until the run is in one of the states; AssertionError if it ends in another."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.client.read_flow_run(run)
            assert found.state is not None
            if found.state.type in types:
                return found
            assert found.state.type not in ENDS, found.state
            assert time.monotonic() < deadline, (found.state, self.told())
            time.sleep(0.1)

    def states(self, run: UUID) -> list[State]:
        """The run's states, oldest first."""
        return sorted(self.client.read_flow_run_states(run), key=lambda state: state.timestamp)

    def put(self, run: UUID, type: StateType, name: str | None = None) -> None:
        """Put the run into a state by force, as if a process or an automation had done it."""
        self.client.set_flow_run_state(run, NewState(type=type, name=name), force=True)

    def told(self) -> str:
        """The ends of the workers' logs."""
        return "\n".join(path.read_text(errors="replace")[-3000:] for path in sorted(self.home.glob("*.log")))


@contextmanager
def deployed(server: PrefectServer, home: Path) -> Iterator[Deployment]:
    """Deploy `deployments/prefect.yaml` and its automations; `home` keeps the results, for every worker."""
    environment = {
        **os.environ,
        "PREFECT_API_URL": server.api_url,
        "PREFECT_HOME": str(home),
        "PREFECT_WORKER_QUERY_SECONDS": "1",
    }
    with server.use(), get_client(sync_client=True) as client:
        deployment = Deployment(client, environment, home)
        deployment.prefect("work-pool", "create", POOL, "--type", "process", "--overwrite")
        deployment.prefect("deploy", "--all", "--prefect-file", "deployments/prefect.yaml")
        deployment.python("-m", "deployments.automations")
        try:
            yield deployment
        finally:
            client.delete_work_pool(POOL)  # other tests on this server create it as the README does


def processes_of(run: UUID) -> list[int]:
    """The processes of a flow run: each has the run's id in its environment."""
    mark = f"PREFECT__FLOW_RUN_ID={run}".encode()
    return [pid for pid in _pids() if mark in _read(pid, "environ").split(b"\0")]


def engine_of(run: UUID) -> set[int]:
    """The process that runs the flow, or prepares to; not the one of the hooks after a crash."""
    programs = (b"prefect.engine", b"prefect.runner._workspace_supervisor")
    return {pid for pid in processes_of(run) if any(name in _read(pid, "cmdline").split(b"\0") for name in programs)}


def _pids() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it ended while we looked, or is another user's
        return b""
