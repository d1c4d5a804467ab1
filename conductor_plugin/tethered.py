"""A command with all its processes: told what we are told, and ended whole.

vLLM's engine is a process of its own. It outlives a server that is killed, and keeps the memory that the next start
needs.
"""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType

from conductor_plugin.sandbox.processes import descendants

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LIBC = ctypes.CDLL(None)
GRACE_SECONDS = 3.0  # for what ends by itself a moment after the command


def run_tethered(command: Sequence[str]) -> int:
    """Run a command until it ends, then end what it has left behind; its exit code, as a shell gives it.

    SIGINT, SIGTERM and SIGHUP are handed on, once: the command is in a process group of its own, which Ctrl-C in a
    terminal does not reach. After SIGINT the code is 130, whatever the command made of it. Where this process is
    killed, the command gets SIGTERM. OSError if it cannot be run.
    """
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans below become our children
    process = subprocess.Popen(command, process_group=0, preexec_fn=_end_with_us)
    interrupted = False

    def hand_on(number: int, _: FrameType | None) -> None:
        nonlocal interrupted
        interrupted |= number == signal.SIGINT
        process.send_signal(number)

    before = {number: signal.signal(number, hand_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        code = process.wait()
        _end_orphans()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if interrupted:
        return 128 + signal.SIGINT
    return code if code >= 0 else 128 - code


def _end_with_us() -> None:
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _end_orphans() -> None:
    deadline = time.monotonic() + GRACE_SECONDS
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not (left := descendants(os.getpid())):
            return
        for orphan in left if time.monotonic() > deadline else ():
            with suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)
        time.sleep(0.05)
