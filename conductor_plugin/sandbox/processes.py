"""The processes below one of ours, looked at from outside: which, how much memory, and how to end them all."""

import contextlib
import os
import signal
import time

PAGE = os.sysconf("SC_PAGE_SIZE")
STOP_SECONDS = 0.5
KILL_PASSES = 2_000


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, parents first. Those that vanish meanwhile are left out."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop(0))
        found += children
        waiting += children
    return found


def resident_bytes(pids: list[int], limit: int) -> int:
    """Memory of these processes together, in bytes.

    Pages shared by several processes (after a fork, nearly all) are counted once for each of them, which is quick
    to read; only where that exceeds `limit` is it counted again with each page divided among its users.
    """
    counted = sum(_resident(pid) for pid in pids)
    return counted if counted <= limit else sum(_proportional(pid) for pid in pids)


def kill_tree(pid: int) -> None:
    """SIGKILL everything below `pid`, then let `pid` itself, our own child, end; the caller reaps it.

    `pid` is halted first: a bubblewrap killed just between making its namespaces and arranging to take them along
    would leave a process that waits for ever. Once all below it are dead it may go on, so that it reaps
    them, which is the only thing left for it to do.
    """
    _signal(pid, signal.SIGSTOP)
    deadline = time.monotonic() + STOP_SECONDS
    while _state(pid) not in "TtZX" and time.monotonic() < deadline:
        time.sleep(0.0005)
    below = descendants(pid)
    for _ in range(KILL_PASSES):
        living = [process for process in descendants(pid) if _state(process) not in "ZX"]
        if not living:
            break
        for process in living:
            _signal(process, signal.SIGKILL)
        time.sleep(0.0005)
    _signal(pid, signal.SIGCONT if below else signal.SIGKILL)


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                children += map(int, file.read().split())
    except OSError:
        pass  # it ended meanwhile
    return children


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except ProcessLookupError:
        return 0  # it ended, and has no memory any more
    except OSError:
        pass
    return _resident(pid)


def _state(pid: int) -> str:
    """One letter of proc(5); X if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return chr(file.read().rpartition(b") ")[2][0])
    except (OSError, IndexError):
        return "X"


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
