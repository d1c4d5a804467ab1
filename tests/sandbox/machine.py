"""What the sandbox tests share: the backends of this machine, and looking at the machine from outside.

Landlock is tried with a copy of the interpreter where root runs the tests: others may not read what lies
below /root.
"""

import asyncio
import atexit
import itertools
import os
import secrets
import shutil
import sysconfig
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from conductor_plugin.sandbox import Backend, Limits, SandboxResult, interpreter, landlock, probe
from conductor_plugin.sandbox.identity import NOBODY, Identity, _tasks_of
from conductor_plugin.sandbox.model import Job
from conductor_plugin.sandbox.processes import descendants, resident_bytes
from conductor_plugin.sandbox.run import run_job

MUST = bool(os.environ.get("CI")) or os.environ.get("CONDUCTOR_TEST_ALL") == "1"
MARK = f"sandbox test {secrets.token_hex(8)}"


def backend_or_skip(name: str, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """That backend, its processes marked. Where bubblewrap is missing, tests fail in CI; landlock is its stand-in."""
    monkeypatch.setattr(interpreter, "INSIDE", f"# {MARK}\n{interpreter.INSIDE}")
    monkeypatch.setattr(landlock, "SUPERVISE", f"# {MARK}\n{landlock.SUPERVISE}")
    if name == "bubblewrap":
        found = probe()
        if found.name != "bubblewrap":
            (pytest.fail if MUST else pytest.skip)(f"bubblewrap does not work here: {found.sentence}")
        return found
    if not landlock.offered():
        pytest.skip("this kernel has no landlock")
    if os.geteuid() == 0:
        copy = readable_interpreter()
        # Not a uid of its own: what stands between code and its user's other processes is to be tested.
        monkeypatch.setattr(landlock, "identity", lambda **_: Identity(NOBODY, _tasks_of(NOBODY)))
        monkeypatch.setattr(interpreter, "binary", lambda: copy[0])
        monkeypatch.setattr(interpreter, "packages", lambda: ())
        monkeypatch.setattr(interpreter, "read_only", lambda: (*interpreter.SYSTEM[:2], "/usr/lib", copy[1]))
        monkeypatch.setitem(interpreter.ENVIRONMENT, "LD_LIBRARY_PATH", f"{copy[1]}/lib")
    return Backend("landlock")


@cache
def readable_interpreter() -> tuple[str, str]:
    """(binary, prefix) of a copy that everybody can read, without packages."""
    prefix = tempfile.mkdtemp(prefix="readable-python-")
    atexit.register(shutil.rmtree, prefix, ignore_errors=True)
    os.chmod(prefix, 0o755)
    stdlib = Path(sysconfig.get_path("stdlib"))
    without = shutil.ignore_patterns(
        "site-packages", "dist-packages", "test", "idlelib", "ensurepip", "*.a", "config-*"
    )
    shutil.copytree(stdlib, f"{prefix}/lib/{stdlib.name}", ignore=without, symlinks=True)
    for library in Path(str(sysconfig.get_config_var("LIBDIR"))).glob("libpython*.so*"):
        shutil.copy(library, f"{prefix}/lib/{library.name}")
    os.mkdir(f"{prefix}/bin")
    return shutil.copy(interpreter.binary(), f"{prefix}/bin/"), prefix


class Peak(NamedTuple):
    """The most that was seen of the processes below this one, while a block ran."""

    processes: int
    memory: int


@asynccontextmanager
async def watching() -> AsyncIterator[list[Peak]]:
    """Fills the list with the peak, at the end."""
    before = set(descendants(os.getpid()))
    peaks = [Peak(0, 0)]

    async def look() -> None:
        while True:
            pids = [pid for pid in descendants(os.getpid()) if pid not in before]
            now = Peak(len(pids), resident_bytes(pids, 0))
            peaks[0] = Peak(max(peaks[0].processes, now.processes), max(peaks[0].memory, now.memory))
            await asyncio.sleep(0.01)

    task = asyncio.create_task(look())
    try:
        yield peaks
    finally:
        task.cancel()


def ours() -> set[int]:
    """Processes of these tests' sandboxes that run now: they show the text that they were started with."""
    found = set()
    for entry in os.listdir("/proc"):
        try:
            line = Path(f"/proc/{entry}/cmdline").read_bytes() if entry.isdigit() else b""
        except OSError:
            continue
        if MARK.encode() in line:
            found.add(int(entry))
    return found


def work_directories() -> set[str]:
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("conductor-sandbox-")}


class Attacker:
    """Runs code on one backend, and checks after each run that nothing of it is left."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.name = backend.name

    async def __call__(self, code: str, **limits: float) -> SandboxResult:
        processes, directories, started = ours(), work_directories(), time.monotonic()
        settings = Limits.model_validate({"timeout_s": 5.0, **limits})
        result = await run_job(Job(code=code, limits=settings), self.backend)
        assert result.backend == self.backend.name
        assert time.monotonic() - started < settings.timeout_s + 3
        assert ours() <= processes, "a process is left"
        assert work_directories() <= directories, "a directory is left"
        return result


def host_addresses() -> Iterator[str]:
    """This machine as its own code could call it."""
    yield "127.0.0.1"
    with open("/proc/net/fib_trie") as file:
        lines = file.read().splitlines()
    for above, line in itertools.pairwise(lines):
        if "host LOCAL" in line and not above.split()[-1].startswith("127."):
            yield above.split()[-1]


def text_of(path: str | Path) -> str:
    """A file of this machine, empty if it is not there."""
    return Path(path).read_text() if os.path.exists(path) else ""
