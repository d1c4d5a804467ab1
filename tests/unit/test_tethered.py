"""A command is ended with all its processes, however it or we end; its stand-in has a child that would live on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conductor_plugin.sandbox.processes import descendants

ROOT = Path(__file__).parents[2]
# An engine that hears no signal of a terminal, and a server that ends it where it is told to end.
SERVER = """
import signal, subprocess, sys
engine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
told = []
def end(number, _):
    told.append(number)
    if len(told) > 1:
        sys.exit(99)  # told twice
    engine.kill()
    engine.wait()
    sys.exit(0)
signal.signal(signal.SIGINT, end)
signal.signal(signal.SIGTERM, end)
print("up", flush=True)
while True:
    signal.pause()
"""
RUN = "import sys; from conductor_plugin.tethered import run_tethered; sys.exit(run_tethered(sys.argv[1:]))"


def to_us(number: int) -> Callable[[int], None]:
    return lambda pid: os.kill(pid, number)


def to_the_server(number: int) -> Callable[[int], None]:
    return lambda pid: os.kill(descendants(pid)[0], number)


# What ends it, and the exit code that is seen.
ENDS: dict[str, tuple[Callable[[int], None], int]] = {
    "Ctrl-C": (lambda pid: os.killpg(pid, signal.SIGINT), 130),
    "SIGINT to us alone": (to_us(signal.SIGINT), 130),
    "SIGTERM to us": (to_us(signal.SIGTERM), 0),
    "SIGKILL to us": (to_us(signal.SIGKILL), -9),
    "SIGKILL to the server": (to_the_server(signal.SIGKILL), 137),
    "SIGTERM to the server": (to_the_server(signal.SIGTERM), 0),
}


@pytest.mark.parametrize(("strike", "code"), ENDS.values(), ids=ENDS)
def test_nothing_is_left(strike: Callable[[int], None], code: int) -> None:
    command = [sys.executable, "-c", RUN, sys.executable, "-c", SERVER]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ours = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, env=environment)
    assert ours.stdout
    assert ours.stdout.readline() == b"up\n"
    below = descendants(ours.pid)
    assert len(below) == 2
    strike(ours.pid)
    assert ours.wait(60) == code
    deadline = time.monotonic() + 30  # a moment later, where nobody is left to wait for them
    while any(map(runs, below)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [pid for pid in below if runs(pid)] == []


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(("words", "code"), [(["/bin/true"], 0), (["/bin/sh", "-c", "exit 7"], 7)])
def test_a_commands_own_code(words: list[str], code: int) -> None:
    done = subprocess.run([sys.executable, "-c", RUN, *words], env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert done.returncode == code
