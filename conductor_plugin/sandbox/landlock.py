"""The second choice, where namespaces are refused: landlock for files, seccomp for the rest. And no choice: neither.

Weaker than bubblewrap in what code may know (whether a file of some name exists, and its size, though never its
content) and in what it can do (no signals even to its own children, no change of file modes), and its files lie on a
real disk. The interpreter must be readable to everybody if root runs it.
"""

import contextlib
import ctypes
import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conductor_plugin.sandbox import interpreter, seccomp
from conductor_plugin.sandbox.command import Command, Usage, in_memory, payload, signal_pipe
from conductor_plugin.sandbox.identity import Identity, identity
from conductor_plugin.sandbox.model import Job, Limits

CREATE_RULESET, VERSION = 444, 1
SUPERVISE = Path(__file__).with_name("supervise.py").read_text()


def offered() -> bool:
    """Whether this kernel has landlock and lets it be used."""
    version: int = ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, VERSION)
    return version >= 1


@contextmanager
def prepared(job: Job, *, safe: bool = True) -> Iterator[Command]:
    """The command for one run; its directory and descriptors live as long as the context.

    With `safe=False` there is a limit on what the run takes, and none on what it does.
    """
    user = identity(own_namespace=False) if safe or os.geteuid() != 0 else Identity(None)
    with _directory(user.uid) as directory, signal_pipe() as (started, report):
        content = payload(
            job,
            started=report,
            directory=directory,
            user=user,
            safe=safe,
            parent=os.getpid(),
            inside=interpreter.INSIDE,
            read_only=interpreter.read_only(),
            devices=[path for path in interpreter.DEVICES if os.path.exists(path)],
            seccomp=seccomp.program(shared=True) if safe else b"",
        )
        environment = {**interpreter.ENVIRONMENT, "HOME": directory, "TMPDIR": directory}
        with in_memory(content, job.stdin) as (job_pipe, stdin):
            argv = (
                *("/usr/bin/env", "-i", *(f"{name}={value}" for name, value in environment.items())),
                *(interpreter.binary(), *interpreter.OPTIONS, SUPERVISE, str(job_pipe)),
            )
            yield Command(argv, (job_pipe, report), stdin, started, lambda pids: _usage(directory, job.limits))


@contextmanager
def _directory(owner: int | None) -> Iterator[str]:
    directory = tempfile.mkdtemp(prefix="conductor-sandbox-")
    try:
        if owner is not None:
            os.chown(directory, owner, owner)
        yield directory
    finally:
        _remove(directory)


def _remove(directory: str) -> None:
    """Also what code made to resist: directories closed to us, or nested deeper than a path or Python reaches."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(directory, ignore_errors=True)
    if os.path.exists(directory):
        for tool in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*tool, "--", directory], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _usage(directory: str, limits: Limits) -> Usage:
    disk = files = 0
    waiting = [directory]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if files > limits.files or disk > limits.disk_bytes:
                        return Usage(disk=disk, files=files)  # the code may write faster than we count
                    files += 1
                    disk += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return Usage(disk=disk, files=limits.files + 1)  # nested so deep that nobody can look
            continue  # removed meanwhile, or closed
    return Usage(disk=disk, files=files)
