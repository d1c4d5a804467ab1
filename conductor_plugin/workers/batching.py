"""Many callers, one thread: calls that are made together are worked off together."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from typing import Generic, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")
Value = TypeVar("Value")


class Batch(Generic[Job, Result]):
    """Jobs that run together; each one's caller may leave at any moment."""

    def __init__(self, tickets: Sequence[tuple[Job, Future[Result]]]) -> None:
        self.jobs = [job for job, _ in tickets]
        self._futures = [future for _, future in tickets]

    def wanted(self, i: int) -> bool:
        """Whether somebody still waits for the result of job `i`."""
        return not self._futures[i].done()

    def resolve(self, i: int, result: Result) -> None:
        """Hand job `i` its result, also before the rest of the batch is done."""
        with contextlib.suppress(InvalidStateError):  # its caller has left meanwhile
            self._futures[i].set_result(result)

    def fail(self, error: BaseException) -> None:
        """Every job without a result gets `error`."""
        for future in self._futures:
            with contextlib.suppress(InvalidStateError):
                future.set_exception(error)


class Batcher(Generic[Job, Result]):
    """Collects the jobs of any number of callers, on any number of event loops, into batches.

    `run` is called in one thread, which is started by the first job, joined when the interpreter exits, and
    never runs two things at once. A batch is the longest-waiting jobs, in order: at most `max_size` of them,
    and no more than `fits` allows (one job alone is never asked about).
    """

    def __init__(
        self,
        run: Callable[[Batch[Job, Result]], None],
        *,
        max_size: int,
        fits: Callable[[Sequence[Job]], bool] = lambda jobs: True,
        gather_seconds: float = 0.005,
    ) -> None:
        self.batches = 0  # how many were run
        self._run = run
        self._max_size = max_size
        self._fits = fits
        self._gather_seconds = gather_seconds
        self._waiting: deque[tuple[Job, Future[Result]]] = deque()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="conductor-batch")

    async def submit(self, job: Job) -> Result:
        """The result of `job`. A cancelled caller leaves its batch without disturbing the others."""
        future: Future[Result] = Future()
        self._waiting.append((job, future))
        self._thread.submit(self._next_batch)
        return await asyncio.wrap_future(future)

    async def call(self, function: Callable[[], Value]) -> Value:
        """The value of `function()`, run between batches in the same thread."""
        return await asyncio.wrap_future(self._thread.submit(function))

    def wait_for(self, function: Callable[[], Value]) -> Value:
        """The same for a caller in a thread of its own, which waits."""
        return self._thread.submit(function).result()

    def _next_batch(self) -> None:
        # Called once a job, so that none is forgotten; mostly an earlier call has taken the job along.
        if not self._waiting:
            return
        time.sleep(self._gather_seconds)  # calls that are made together arrive within milliseconds
        tickets = self._take()
        if not tickets:
            return
        batch = Batch(tickets)
        self.batches += 1
        try:
            self._run(batch)
            batch.fail(RuntimeError("the batch ended without this job's result"))
        except BaseException as error:  # whatever it is, a caller must not wait for ever
            batch.fail(error)

    def _take(self) -> list[tuple[Job, Future[Result]]]:
        tickets: list[tuple[Job, Future[Result]]] = []
        while self._waiting and len(tickets) < self._max_size:
            job, future = self._waiting[0]  # only this thread takes jobs out
            if future.cancelled():
                self._waiting.popleft()
                continue
            if tickets and not self._fits([*(taken for taken, _ in tickets), job]):
                break
            tickets.append(self._waiting.popleft())
        return tickets
