"""A real vLLM with an adapter of random weights, as `conductor serve-planner --run` starts it; killed and interrupted.

`CONDUCTOR_TEST_VLLM` names the `vllm` of the environment that it is installed in.
"""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx

from conductor_plugin.sandbox.processes import descendants
from tests.servers import free_port

ROOT = Path(__file__).parents[2]
START_SECONDS = 600
SETTINGS = {  # of a vLLM for CPUs; others pass them over
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "HF_HUB_OFFLINE": "1",
}


class Server:
    """The process and what it says of itself. It may be started again, on the same port."""

    def __init__(self, adapter: Path, folder: Path) -> None:
        self.port = free_port()
        self.log = folder / "vllm.log"
        python = Path(os.environ["CONDUCTOR_TEST_VLLM"]).with_name("python")
        self._command = [
            *(sys.executable, "-c", "from conductor_plugin.cli import main; main()", "serve-planner", str(adapter)),
            *("--port", str(self.port), "--dtype", "float32", "--max-model-len", "4096", "--python", str(python)),
            *("--reasoning", "0", "--subtask", "20"),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._session = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def printed(self) -> str:
        """What `serve-planner` prints without `--run`."""
        return subprocess.run(self._command, capture_output=True, text=True, check=True, env=_environment()).stdout

    def start(self) -> float:
        """Start it, unless it runs, and wait until it is healthy; the seconds that this took."""
        started = time.monotonic()
        if self._process is None:
            with self.log.open("ab") as log:
                command = [*self._command, "--run", "--", "--enforce-eager", "--max-num-seqs", "16"]
                # A session of its own, so that a signal can reach all its processes, as Ctrl-C in a terminal does.
                self._process = subprocess.Popen(
                    command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env=_environment()
                )
            self._session = self._process.pid
            self._wait(started + START_SECONDS)
        return time.monotonic() - started

    def kill(self) -> int:
        """SIGKILL for vLLM's own process, below the command that was started; that command's exit code."""
        assert self._process
        os.kill(descendants(self._process.pid)[0], signal.SIGKILL)
        return self._ended()

    def interrupt(self) -> int:
        """Ctrl-C; the command's exit code."""
        assert self._process
        os.killpg(self._process.pid, signal.SIGINT)
        return self._ended()

    def _ended(self) -> int:
        assert self._process
        code = self._process.wait(120)
        self._process = None
        return code

    def left(self) -> list[str]:
        """The processes of the last start that still run."""
        return running_in(self._session)

    def close(self) -> None:
        """End what is left."""
        if self._process:
            self._process.terminate()
            self._process.wait(120)

    def figure(self, name: str) -> float:
        """The sum of one of its metrics over all labels."""
        text = httpx.get(f"http://127.0.0.1:{self.port}/metrics", trust_env=False, timeout=30).text
        return sum(float(value) for value in re.findall(rf"^vllm:{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))

    def _wait(self, deadline: float) -> None:
        assert self._process
        while not self._healthy():
            if self._process.poll() is not None or time.monotonic() > deadline:
                tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
                raise RuntimeError(f"vLLM did not start; the end of its log:\n{tail}")
            time.sleep(0.5)

    def _healthy(self) -> bool:
        with suppress(httpx.HTTPError):
            return httpx.get(f"http://127.0.0.1:{self.port}/health", trust_env=False, timeout=5).is_success
        return False


def running_in(session: int) -> list[str]:
    """The command lines of a session's processes, zombies left out, as /proc has them."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            state, *_, its_session = (place / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state != "Z":
                found.append((place / "cmdline").read_text().replace("\0", " "))
    return found


def _environment() -> dict[str, str]:
    mine = {**SETTINGS, **os.environ}
    return mine | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [mine.get("PYTHONPATH")])])}
