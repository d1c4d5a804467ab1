"""A process to start, as a backend describes it, and what its files take meanwhile."""

import fcntl
import marshal
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from conductor_plugin.sandbox import interpreter
from conductor_plugin.sandbox.identity import Identity
from conductor_plugin.sandbox.model import Job


@dataclass(frozen=True)
class Usage:
    """What a run's files take: bytes of memory, bytes on a disk, how many there are."""

    memory: int = 0
    disk: int = 0
    files: int = 0


@dataclass(frozen=True)
class Command:
    """argv, descriptors that the process inherits under their numbers, its stdin, and how to measure its files.

    `usage` is given the processes below the one that was started. From `started` a word can be read once the
    confinement is complete, just before the code runs: without it, what went wrong was not the code. From
    `init`, if there is one, JSON whose `child-pid` is the namespace's first process: all die with it.
    """

    argv: tuple[str, ...]
    inherited: tuple[int, ...]
    stdin: int
    started: int
    usage: Callable[[list[int]], Usage]
    init: int | None = None


@contextmanager
def in_memory(*contents: bytes) -> Iterator[list[int]]:
    """Descriptors, at their beginning, from which exactly these bytes are read; closed at the end.

    Sealed: code that inherits one cannot use it to take memory that nobody counts.
    """
    descriptors: list[int] = []
    try:
        for content in contents:
            descriptors.append(os.memfd_create("sandbox", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
            with open(descriptors[-1], "wb", closefd=False) as file:
                file.write(content)
            seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
            fcntl.fcntl(descriptors[-1], fcntl.F_ADD_SEALS, seals)
            os.lseek(descriptors[-1], 0, os.SEEK_SET)
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@contextmanager
def signal_pipe() -> Iterator[tuple[int, int]]:
    """A pipe (read end, write end); reading never waits."""
    ends = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def payload(job: Job, *, started: int, directory: str, user: Identity, **more: Any) -> bytes:
    """What `inside.py` reads: the job, the descriptor to report to, the directory, the user, the rlimits."""
    limits = job.limits
    cpu = math.ceil(limits.timeout_s) + 1  # for threads, and for when nobody looks at the clock any more
    content = {
        "code": job.code.encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
        "files": dict(job.files),
        "started": started,
        "directory": directory,
        "uid": user.uid,
        "packages": interpreter.packages(),
        "rlimits": {
            "RLIMIT_AS": limits.memory_bytes,
            "RLIMIT_CPU": cpu,
            "RLIMIT_FSIZE": limits.disk_bytes,
            "RLIMIT_NOFILE": limits.open_files,
            "RLIMIT_NPROC": limits.processes + user.tasks,
            "RLIMIT_CORE": 0,
            "RLIMIT_MEMLOCK": 0,
        },
        **more,
    }
    return marshal.dumps(content)
