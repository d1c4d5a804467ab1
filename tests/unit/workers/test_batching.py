"""Batches of calls from any number of event loops, without a model."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

import pytest

from conductor_plugin.workers.batching import Batch, Batcher


class Doubler:
    """A batcher that doubles numbers, remembers its batches, and can be held up in the middle of one."""

    def __init__(self, max_size: int = 32, fits: Callable[[Sequence[int]], bool] = lambda jobs: True) -> None:
        self.seen: list[list[int]] = []
        self.entered = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        self.batcher: Batcher[int, int] = Batcher(self._run, max_size=max_size, fits=fits)

    def _run(self, batch: Batch[int, int]) -> None:
        self.seen.append(batch.jobs)
        self.entered.set()
        assert self.go_on.wait(timeout=30)
        for i, job in enumerate(batch.jobs):
            if job < 0:
                raise ValueError("negative")
            if job > 0:
                batch.resolve(i, 2 * job)

    async def held_up(self, *jobs: int) -> list[asyncio.Task[int]]:
        """Tasks for `jobs`, of which the first is being worked on until `go_on` is set."""
        self.go_on.clear()
        first = asyncio.create_task(self.batcher.submit(jobs[0]))
        assert await asyncio.to_thread(self.entered.wait, 30)
        rest = [asyncio.create_task(self.batcher.submit(job)) for job in jobs[1:]]
        await asyncio.sleep(0)
        return [first, *rest]


async def test_calls_made_together_run_together() -> None:
    doubler = Doubler()
    assert await asyncio.gather(*map(doubler.batcher.submit, range(1, 21))) == list(range(2, 41, 2))
    assert doubler.seen == [list(range(1, 21))]
    assert doubler.batcher.batches == 1


async def test_calls_made_during_a_batch_are_the_next_one() -> None:
    doubler = Doubler()
    tasks = await doubler.held_up(1, 2, 3, 4)
    doubler.go_on.set()
    assert await asyncio.gather(*tasks) == [2, 4, 6, 8]
    assert doubler.seen == [[1], [2, 3, 4]]


async def test_a_batch_is_bounded_in_number_and_by_what_fits() -> None:
    doubler = Doubler(max_size=3, fits=lambda jobs: sum(jobs) <= 10)
    jobs = [1, 1, 1, 1, 9, 4, 50, 2, 2]
    assert await asyncio.gather(*map(doubler.batcher.submit, jobs)) == [2 * job for job in jobs]
    assert doubler.seen == [[1, 1, 1], [1, 9], [4], [50], [2, 2]]  # in order; 50 fits nowhere, so it runs alone


async def test_an_error_reaches_the_callers_of_its_batch_only() -> None:
    doubler = Doubler()
    results = await asyncio.gather(*map(doubler.batcher.submit, (1, -1, 2)), return_exceptions=True)
    assert results[0] == 2  # was there before the error
    assert [str(error) for error in results[1:]] == ["negative", "negative"]
    assert await doubler.batcher.submit(5) == 10


async def test_a_job_without_a_result_does_not_wait_for_ever() -> None:
    with pytest.raises(RuntimeError, match="without this job's result"):
        await Doubler().batcher.submit(0)


async def test_whoever_leaves_the_queue_is_not_worked_for() -> None:
    doubler = Doubler()
    tasks = await doubler.held_up(1, 2, 3)
    tasks[1].cancel()
    await asyncio.sleep(0)
    doubler.go_on.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[1], asyncio.CancelledError)
    assert [results[0], results[2]] == [2, 6]
    assert doubler.seen == [[1], [3]]


async def test_whoever_leaves_a_running_batch_disturbs_nobody() -> None:
    batches: list[Batch[int, int]] = []
    entered, go_on = threading.Event(), threading.Event()

    def run(batch: Batch[int, int]) -> None:
        batches.append(batch)
        entered.set()
        assert go_on.wait(timeout=30)
        for i, job in enumerate(batch.jobs):
            batch.resolve(i, job)

    batcher = Batcher(run, max_size=8)
    tasks = [asyncio.create_task(batcher.submit(job)) for job in (1, 2, 3)]
    assert await asyncio.to_thread(entered.wait, 30)
    tasks[1].cancel()
    await asyncio.sleep(0)
    assert [batches[0].wanted(i) for i in range(3)] == [True, False, True]
    go_on.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[1], asyncio.CancelledError)
    assert [results[0], results[2]] == [1, 3]


async def test_a_result_can_come_before_the_batch_ends() -> None:
    go_on = threading.Event()

    def run(batch: Batch[int, int]) -> None:
        batch.resolve(0, 10)
        assert go_on.wait(timeout=30)
        batch.resolve(1, 20)

    batcher = Batcher(run, max_size=2)
    early, late = (asyncio.create_task(batcher.submit(job)) for job in (1, 2))
    assert await early == 10
    assert not late.done()
    go_on.set()
    assert await late == 20


async def test_the_event_loop_goes_on_meanwhile() -> None:
    doubler = Doubler()
    (task,) = await doubler.held_up(1)
    await asyncio.sleep(0.01)
    assert not task.done()
    doubler.go_on.set()
    assert await task == 2


def test_event_loops_one_after_another_and_at_once() -> None:
    doubler = Doubler()
    assert [asyncio.run(doubler.batcher.submit(job)) for job in (1, 2, 3)] == [2, 4, 6]
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda job=job: results.append(asyncio.run(doubler.batcher.submit(job))))
        for job in range(1, 9)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(results) == list(range(2, 17, 2))


def test_an_event_loop_that_ends_in_the_middle_breaks_nothing() -> None:
    doubler = Doubler()
    asyncio.run(doubler.held_up(1, 2))  # cancels what it leaves behind, as asyncio.run does
    doubler.go_on.set()
    assert asyncio.run(doubler.batcher.submit(3)) == 6
    assert doubler.seen == [[1], [3]]


async def test_a_call_runs_in_the_same_thread_as_the_batches() -> None:
    def run(batch: Batch[int, str]) -> None:
        batch.resolve(0, threading.current_thread().name)

    batcher = Batcher(run, max_size=1)
    names = [await batcher.call(lambda: threading.current_thread().name), await batcher.submit(1)]
    assert names[0] == names[1] != threading.current_thread().name


EXITS = """
import asyncio, time
from conductor_plugin.workers.batching import Batcher

def run(batch):
    while batch.wanted(0):
        time.sleep(0.001)

asyncio.run(asyncio.wait_for(Batcher(run, max_size=1).submit(1), 0.2))
"""


def test_no_thread_outlives_the_program() -> None:
    start = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", EXITS], capture_output=True, text=True, timeout=60)
    assert "TimeoutError" in ended.stderr
    assert ended.returncode == 1
    assert time.monotonic() - start < 30
