"""One run: start it, watch it, end it, and say what happened."""

import asyncio
import contextlib
import os
import re
import select
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType

from conductor_plugin.sandbox import bubblewrap, landlock
from conductor_plugin.sandbox.command import Command
from conductor_plugin.sandbox.model import (
    BackendName,
    Job,
    Limits,
    Reason,
    SandboxFailed,
    SandboxResult,
    SandboxUnavailable,
    make_job,
)
from conductor_plugin.sandbox.probe import Backend, known, probe
from conductor_plugin.sandbox.processes import descendants, kill_tree, resident_bytes

LOOK_SECONDS = 0.02
"""How often a run's memory and files are counted: about 20 MB written between two looks, 50 at worst."""
INIT_SECONDS = 5.0
CHILD_PID = re.compile(rb'"child-pid": (\d+)')
CPU_EXIT = 128 + 24  # SIGXCPU
_NO_FILES: Mapping[str, str | bytes] = MappingProxyType({})


async def run_code(
    code: str,
    *,
    stdin: str = "",
    files: Mapping[str, str | bytes] = _NO_FILES,
    limits: Limits = Limits(),  # noqa: B008  (immutable)
    allow_unsafe: bool = False,
) -> SandboxResult:
    """Run Python code as `__main__` in a new sandbox, with `files` (relative name -> content) in its work directory.

    Whatever the code does is a result. Cancelling kills the sandbox at once and leaves neither a process nor a
    file. SandboxUnavailable if no backend is safe here, unless `allow_unsafe`; SandboxFailed if this
    sandbox did not come up; InputError `sandbox_bad_file` for a file outside the work directory or too many.
    """
    job = make_job(code, stdin, files, limits)
    backend = known()
    if backend is None:
        backend = await asyncio.to_thread(probe)
    if not backend.safe and not allow_unsafe:
        raise SandboxUnavailable(backend.sentence)
    return await run_job(job, backend)


async def run_job(job: Job, backend: Backend) -> SandboxResult:
    """The same on a given backend, whatever it is."""
    start = time.monotonic()
    try:
        with _prepared(job, backend) as command:
            running = _Running(command, job.limits)
            try:
                reason = await running.watch()
            finally:
                running.stop()
            started = _has_started(command)
    except OSError as error:  # too many open files or processes, or a temporary directory that is full
        raise SandboxFailed(f"the sandbox cannot be started: {error}") from None
    if not started:
        lines = running.stderr.text.strip().splitlines()
        raise SandboxFailed(f"the sandbox did not start: {lines[-1] if lines else reason or 'it says nothing'}")
    return _result(running, reason, time.monotonic() - start, backend.name)


def _prepared(job: Job, backend: Backend) -> AbstractContextManager[Command]:
    if backend.name == "bubblewrap":
        return bubblewrap.prepared(backend.bwrap, job)
    return landlock.prepared(job, safe=backend.safe)


def _has_started(command: Command) -> bool:
    try:
        return os.read(command.started, 1) != b""
    except BlockingIOError:
        return False


class _Running:
    """The started process, its two streams and its end."""

    def __init__(self, command: Command, limits: Limits) -> None:
        self._usage = command.usage
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        # In its own session, so that Ctrl-C in a terminal is for us, who then end it in order.
        self.process = subprocess.Popen(
            command.argv,
            stdin=command.stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=command.inherited,
            cwd="/",
            env={},
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.stdout = _Stream(self.process.stdout.fileno(), limits.output_bytes, self._changed.set)
        self.stderr = _Stream(self.process.stderr.fileno(), limits.output_bytes, self._changed.set)
        self._end: int | None = None
        self._init: int | None = None
        self._init_report = command.init

    async def watch(self) -> Reason | None:
        """Wait for its end, or for the first limit that it exceeds."""
        deadline = time.monotonic() + self._limits.timeout_s
        self._end = os.pidfd_open(self.process.pid)
        self._loop.add_reader(self._end, self._ended)
        if self._init_report is not None:
            self._loop.add_reader(self._init_report, self._open_init)
        for stream in (self.stdout, self.stderr):
            self._loop.add_reader(stream.descriptor, self._read, stream)
        while self.process.poll() is None:
            if reason := self._excess(deadline):
                return reason
            self._changed.clear()
            wait = min(LOOK_SECONDS, max(0.0, deadline - time.monotonic()))
            timer = self._loop.call_later(wait, self._changed.set)
            try:
                await self._changed.wait()
            finally:
                timer.cancel()
        return None

    def stop(self) -> None:
        """Nothing is left afterwards: no process, no descriptor. What was printed is kept."""
        for descriptor in (self._end, self._init_report, self.stdout.descriptor, self.stderr.descriptor):
            if descriptor is not None:
                self._loop.remove_reader(descriptor)
        try:
            if self.process.poll() is None:
                kill_tree(self.process.pid)
                try:
                    self.process.wait(2.0)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
            self._open_init()
            if self._init is not None:
                # bubblewrap itself ends as soon as the code does, and takes the namespace along a moment later.
                waiting = select.poll()
                waiting.register(self._init, select.POLLIN)
                waiting.poll(INIT_SECONDS * 1000)
            for stream in (self.stdout, self.stderr):
                while stream.read():
                    pass
        finally:
            for descriptor in (self._end, self._init):
                if descriptor is not None:
                    os.close(descriptor)
            for pipe in (self.process.stdout, self.process.stderr):
                assert pipe is not None
                pipe.close()

    def _excess(self, deadline: float) -> Reason | None:
        limits = self._limits
        if self.stdout.overflown or self.stderr.overflown:
            return "output"
        if time.monotonic() >= deadline:
            return "time"
        pids = descendants(self.process.pid)
        usage = self._usage(pids)
        if usage.memory + resident_bytes(pids, limits.memory_bytes - usage.memory) > limits.memory_bytes:
            return "memory"
        if usage.files > limits.files:
            return "files"
        return "disk" if usage.disk > limits.disk_bytes else None

    def _ended(self) -> None:
        if self._end is not None:
            self._loop.remove_reader(self._end)
        self._changed.set()

    def _open_init(self) -> None:
        """Take hold of the namespace's first process while its number is surely its own."""
        if self._init_report is None:
            return
        self._loop.remove_reader(self._init_report)
        with contextlib.suppress(OSError):  # it has ended, or never came to be
            # The number comes with the first write, the rest of the JSON with later ones.
            if match := CHILD_PID.search(os.read(self._init_report, 4096)):
                self._init = os.pidfd_open(int(match[1]))
        self._init_report = None

    def _read(self, stream: "_Stream") -> None:
        if not stream.read():
            self._loop.remove_reader(stream.descriptor)


class _Stream:
    """One of the two pipes, read as far as its limit."""

    def __init__(self, descriptor: int, limit: int, on_overflow: Callable[[], None]) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.overflown = False
        self._limit = limit
        self._on_overflow = on_overflow
        self._content = bytearray()

    def read(self) -> bool:
        """Take what is there. False if nothing more will be taken."""
        if self.overflown:
            return False
        try:
            part = os.read(self.descriptor, 65536)
        except BlockingIOError:
            return False
        room = self._limit - len(self._content)
        self._content += part[:room]
        if len(part) > room:
            self.overflown = True
            self._on_overflow()
        return bool(part) and not self.overflown

    @property
    def text(self) -> str:
        return self._content.decode("utf-8", "replace")


def _result(running: _Running, reason: Reason | None, seconds: float, backend: BackendName) -> SandboxResult:
    code = running.process.returncode
    if reason is None and (running.stdout.overflown or running.stderr.overflown):
        reason = "output"  # its last words, after which it ended by itself
    if reason is None and code == CPU_EXIT:
        reason = "time"
    return SandboxResult(
        stdout=running.stdout.text,
        stderr=running.stderr.text,
        exit_code=code if code >= 0 else 128 - code,
        timed_out=reason == "time",
        killed_for=reason,
        duration_s=seconds,
        backend=backend,
    )
