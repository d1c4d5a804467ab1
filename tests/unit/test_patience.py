"""A timeout that runs out while the event loop is busy throws no answer away that has arrived."""

import asyncio
import time

import pytest

from conductor_plugin.graph import CallStep
from conductor_plugin.patience import Patience
from conductor_plugin.pool import pool_from
from conductor_plugin.step import StepJob, run_step, run_step_with_retries
from tests.upstream import Delay, Hang


def job(upstream, **fields):
    worker = {"name": "a", "kind": "llm", "model": "openai/m", "api_base": upstream.base_url, **fields}
    return StepJob(0, CallStep(worker=0, subtask=""), pool_from({"workers": [worker]}).workers[0], "q")


async def _busy_once_asked(upstream, seconds):
    while not upstream.requests:  # noqa: ASYNC110 - it is asked in another thread
        await asyncio.sleep(0.001)
    time.sleep(seconds)  # noqa: ASYNC251 - a busy loop is the point


async def test_an_answer_that_came_while_the_loop_was_busy_is_not_paid_for_twice(upstream):
    await run_step(job(upstream), ())  # litellm is loaded, the client made
    upstream.clear()
    upstream.script(Delay(0.1))
    busy = asyncio.create_task(_busy_once_asked(upstream, 1.5))
    result = await run_step_with_retries(job(upstream, timeout_seconds=0.5), ())
    await busy
    assert (result.attempts, len(upstream.requests)) == (1, 1)


async def test_a_hang_still_ends(upstream):
    upstream.script(Hang(60))
    await run_step_with_retries(job(upstream, timeout_seconds=0.3, retries=1), ())
    assert len(upstream.requests) == 2
    assert upstream.requests[0].client_left


async def test_it_runs_out():
    with pytest.raises(TimeoutError):
        async with Patience(0.01) as clock:
            await asyncio.sleep(60)
    assert clock.expired()
    async with Patience(0.01) as clock:
        pass
    await asyncio.sleep(0.05)
    assert not clock.expired()


async def test_a_cancellation_from_outside_is_no_timeout():
    async def wait():
        async with Patience(60):
            await asyncio.sleep(60)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
