"""A helper process for computations that cannot be bounded from inside: sympy's, and factorisation.

`await ask(operation, *arguments)` runs one entry of `algebra.OPERATIONS` in a child process,
`python -m conductor_plugin.workers.tools.child`, which reads one JSON line a request from stdin and writes one a
reply to stdout. At most two children live at a time; each starts at its first request and stays. A request
that takes too long, or whose caller is cancelled, costs the child its life, and the next request starts
another. sympy is thus never imported into this process, and nothing it does can hold the event loop.

What a request may take is processor time, which the child measures itself, so that a busy machine does not
turn answers into refusals, and so that the computation ends even if this process is killed. Only a multiple
of it is the limit on the clock.
"""

import asyncio
import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from conductor_plugin.errors import TransientError

JOB_SECONDS = 5.0
CLOCK_FACTOR = 3.0
START_SECONDS = 30.0
CHILDREN = 2
MEMORY_BYTES = 2**30
MAX_LINE = 2**20


async def ask(operation: str, *arguments: object) -> str | None:
    """The operation's result, or None if it is refused, fails, or takes more than JOB_SECONDS.

    Works from any event loop and any thread. Cancelling the caller kills the computation.
    TransientError if no helper process can be started.
    """
    line = json.dumps([JOB_SECONDS, operation, *arguments]).encode() + b"\n"
    job = _Job(line, CLOCK_FACTOR * JOB_SECONDS)
    try:
        return await asyncio.wrap_future(_pool.threads.submit(job.run, _pool))
    except asyncio.CancelledError:
        job.cancel()
        raise


class _Child:
    """One helper process, used by one job at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False

    def start(self) -> None:
        """Start the process unless it runs. It tells by a line when it is ready; `exchange` waits for that."""
        if self._process is not None and self._process.poll() is None:
            return
        self.stop()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env=_environment(),
                # Ctrl-C in a terminal is for the parent, which then closes the child in its own time.
                start_new_session=True,
            )
        except OSError as error:
            raise TransientError(f"the helper process for algebra cannot be started: {error}") from None

    def exchange(self, line: bytes, seconds: float) -> bytes:
        """The reply to one request line; empty if there is none in time, and then the process is gone."""
        assert self._process is not None
        assert self._process.stdin is not None
        if not self._ready:
            self._ready = bool(self._read_line(START_SECONDS))
            if not self._ready:
                self.stop()
                raise TransientError("the helper process for algebra did not start")
        try:
            _write(self._process.stdin.fileno(), line)
            reply = self._read_line(seconds)
        except OSError:
            reply = b""
        if not reply:
            self.stop()
        return reply

    def kill(self) -> None:
        """Signal only: the thread that waits for the reply sees the end of the stream and cleans up."""
        if self._process is not None:
            self._process.kill()

    def stop(self) -> None:
        """End the process and reap it."""
        process, self._process, self._ready = self._process, None, False
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.wait()

    def _read_line(self, seconds: float) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        deadline = time.monotonic() + seconds
        line = b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or len(line) > MAX_LINE or not poll.poll(left * 1000):
                return b""
            part = os.read(pipe, 65536)
            if not part:
                return b""
            line += part
        return line


class _Pool:
    """The threads that wait for children, and the children that nobody uses at the moment."""

    def __init__(self) -> None:
        self.children = [_Child() for _ in range(CHILDREN)]
        # Taken from the end: a lone caller always gets the child that is already warm. There are as many
        # threads as children, so a job that runs finds one.
        self.idle = list(self.children)
        self.threads = ThreadPoolExecutor(CHILDREN, thread_name_prefix="conductor-algebra")

    def stop(self) -> None:
        for child in self.children:
            child.stop()


class _Job:
    """One request. `cancel` may come from another thread at any moment."""

    def __init__(self, line: bytes, seconds: float) -> None:
        self._line = line
        self._seconds = seconds
        self._lock = threading.Lock()
        self._cancelled = False
        self._child: _Child | None = None

    def run(self, pool: _Pool) -> str | None:
        child = pool.idle.pop()
        try:
            with self._lock:
                if self._cancelled:
                    return None
                child.start()
                self._child = child
            try:
                reply = child.exchange(self._line, self._seconds)
            except TransientError:
                if self._cancelled:
                    return None
                raise
            finally:
                with self._lock:
                    self._child = None
        finally:
            pool.idle.append(child)
        result = json.loads(reply).get("result") if reply else None
        return result if isinstance(result, str) else None

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._child is not None:
                self._child.kill()


def _environment() -> dict[str, str]:
    """What the child needs to import what this process can import, and nothing else: no API keys."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "PYTHONHOME") if name in os.environ}
    return {**kept, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


_pool = _Pool()


def _forget() -> None:
    """A forked process must not share its parent's children, and does not have its parent's threads."""
    global _pool
    _pool = _Pool()


os.register_at_fork(after_in_child=_forget)
atexit.register(lambda: _pool.stop())


def serve() -> None:
    """The child: answer requests until stdin closes or the parent is gone."""
    replies = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints must not be taken for a reply
    _limit_memory()
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()
    sys.set_int_max_str_digits(0)  # the size of results is bounded where they are made
    from conductor_plugin.workers.tools.algebra import OPERATIONS

    _write(replies, b'{"ready": true}\n')
    for line in sys.stdin.buffer:
        seconds, operation, *arguments = json.loads(line)
        try:
            signal.setitimer(signal.ITIMER_PROF, seconds)  # its signal ends the process
            reply = {"result": OPERATIONS[operation](*arguments)}
        except MemoryError:
            return
        except Exception as error:  # sympy raises anything at all; none of it is an answer
            reply = {"refused": f"{type(error).__name__}: {error}"[:200]}
        signal.setitimer(signal.ITIMER_PROF, 0)
        _write(replies, json.dumps(reply).encode() + b"\n")


def _limit_memory() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    serve()
