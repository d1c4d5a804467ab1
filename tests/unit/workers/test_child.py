"""The helper process: killed when it takes too long or nobody waits any more, and usable again at once."""

import asyncio
import gc
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from conductor_plugin.errors import TransientError
from conductor_plugin.workers.tools import child
from conductor_plugin.workers.tools.child import ask

ROOT = Path(__file__).parents[3]
HARD = str((10**39 + 3) * (10**49 + 9))
EASY = ("factors", "12")


@pytest.fixture(autouse=True)
def own_pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[child._Pool]:
    """Children of this test alone, so that it may count and kill them."""
    pool = child._Pool()
    monkeypatch.setattr(child, "_pool", pool)
    yield pool
    pool.threads.shutdown(cancel_futures=True)
    pool.stop()


def pids(pool: child._Pool) -> list[int]:
    return [kid._process.pid for kid in pool.children if kid._process is not None]


def is_alive(pid: int) -> bool:
    """Whether the process exists, a zombie included."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def gone(pid: int, seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while is_alive(pid):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True


async def test_results_and_refusals() -> None:
    assert await ask(*EASY) == "2^2 3^1"
    assert await ask("simplify", ["sqrt", ["num", "8", "1"]]) == "2*sqrt(2)"
    assert await ask("no such operation") is None
    assert await ask("factors") is None
    assert await ask("factors", "twelve") is None
    assert await ask("simplify", ["system", "ls"]) is None
    assert await ask("simplify", ["inv", ["num", "0", "1"]]) is None
    assert await ask("simplify", "x" * 500_000) is None


async def test_one_child_serves_a_lone_caller(own_pool: child._Pool) -> None:
    for _ in range(20):
        assert await ask(*EASY) == "2^2 3^1"
    assert len(pids(own_pool)) == 1


async def test_two_children_serve_many_callers(own_pool: child._Pool) -> None:
    results = await asyncio.gather(*(ask("factors", str(n)) for n in range(2, 60)))
    assert results[:3] == ["2^1", "3^1", "2^2"]
    assert None not in results
    assert len(pids(own_pool)) == 2


async def test_a_job_that_takes_too_long_is_given_up(own_pool: child._Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await ask(*EASY)
    [pid] = pids(own_pool)
    monkeypatch.setattr(child, "JOB_SECONDS", 0.3)
    before = time.perf_counter()
    assert await ask("factors", HARD) is None
    assert time.perf_counter() - before < 3
    assert await gone(pid)
    assert await ask(*EASY) == "2^2 3^1"


async def test_a_child_that_is_stopped_is_given_up(own_pool: child._Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await ask(*EASY)
    [pid] = pids(own_pool)
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(child, "JOB_SECONDS", 0.1)
    assert await ask(*EASY) is None
    assert await gone(pid)
    monkeypatch.setattr(child, "JOB_SECONDS", 5.0)
    assert await ask(*EASY) == "2^2 3^1"


async def test_a_child_that_was_killed_is_replaced(own_pool: child._Pool) -> None:
    assert await ask(*EASY)
    [pid] = pids(own_pool)
    os.kill(pid, signal.SIGKILL)
    await asyncio.sleep(0.1)
    assert await ask(*EASY) == "2^2 3^1"
    assert pids(own_pool) != [pid]


async def test_memory_is_bounded(own_pool: child._Pool) -> None:
    assert await ask(*EASY)
    [pid] = pids(own_pool)
    assert resource.prlimit(pid, resource.RLIMIT_AS) == (child.MEMORY_BYTES, child.MEMORY_BYTES)
    resource.prlimit(pid, resource.RLIMIT_AS, (2**20, 2**20))  # as if it had taken all of it
    assert await ask("expand", ["^", ["+", "x", "y", "z"], ["num", "150", "1"]]) is None
    assert await ask(*EASY) == "2^2 3^1"
    assert pids(own_pool) != [pid]


async def test_cancelling_kills_the_job(own_pool: child._Pool) -> None:
    assert await ask(*EASY)
    [pid] = pids(own_pool)
    task = asyncio.create_task(ask("factors", HARD))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await gone(pid)
    assert await ask(*EASY) == "2^2 3^1"


async def test_cancelling_while_the_child_starts(own_pool: child._Pool) -> None:
    for delay in (0.0, 0.01, 0.05, 0.1):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ask("factors", HARD), delay)
    assert await ask(*EASY) == "2^2 3^1"


async def test_cancelling_one_caller_leaves_the_others_alone(own_pool: child._Pool) -> None:
    assert await ask(*EASY)
    cancelled = [asyncio.create_task(ask("factors", HARD)) for _ in range(6)]
    await asyncio.sleep(0.05)
    others = [asyncio.create_task(ask("factors", str(n))) for n in range(100, 120)]
    for task in cancelled:
        task.cancel()
    assert None not in await asyncio.gather(*others)
    assert all(task.cancelled() for task in cancelled)


def test_many_event_loops_one_after_the_other(own_pool: child._Pool) -> None:
    for _ in range(5):
        assert asyncio.run(ask(*EASY)) == "2^2 3^1"
    assert len(pids(own_pool)) == 1


def test_event_loops_in_many_threads() -> None:
    results: list[str | None] = []
    threads = [threading.Thread(target=lambda: results.append(asyncio.run(ask(*EASY)))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["2^2 3^1"] * 6


def test_a_loop_that_ends_with_a_job_in_flight() -> None:
    async def leave() -> None:
        task = asyncio.create_task(ask("factors", HARD))
        await asyncio.sleep(0.1)
        assert not task.done()

    before = time.perf_counter()
    asyncio.run(leave())
    assert asyncio.run(ask(*EASY)) == "2^2 3^1"
    assert time.perf_counter() - before < 4


async def test_a_child_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child.sys, "executable", "/nonexistent/python")
    with pytest.raises(TransientError, match="cannot be started"):
        await ask(*EASY)
    monkeypatch.setattr(child.sys, "executable", "/bin/false")
    with pytest.raises(TransientError, match="did not start"):
        await ask(*EASY)
    monkeypatch.undo()


def test_the_child_is_given_no_secrets(own_pool: child._Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert asyncio.run(ask(*EASY))
    [pid] = pids(own_pool)
    assert b"sk-secret" not in Path(f"/proc/{pid}/environ").read_bytes()


async def test_nothing_is_left_open(own_pool: child._Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "JOB_SECONDS", 0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        assert await ask("factors", HARD) is None
        before = len(os.listdir("/proc/self/fd"))
        assert await ask("factors", HARD) is None
        assert len(os.listdir("/proc/self/fd")) <= before
        gc.collect()


def python(code: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)


START = """
import asyncio, sys
from conductor_plugin.workers.tools import child
print(asyncio.run(child.ask("factors", "12")))
print(child._pool.children[-1]._process.pid, flush=True)
"""


async def test_no_process_outlives_the_interpreter() -> None:
    process = python(START)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert output.splitlines()[0] == "2^2 3^1"
    assert await gone(int(output.splitlines()[1]))


async def test_no_process_outlives_a_killed_parent() -> None:
    process = python(START + "import time; time.sleep(60)")
    assert process.stdout is not None
    process.stdout.readline()
    pid = int(process.stdout.readline())
    process.kill()
    process.communicate()
    assert await gone(pid)


async def test_a_computation_ends_although_its_parent_was_killed() -> None:
    process = python(START + f'asyncio.run(child.ask("factors", "{HARD}"))')
    assert process.stdout is not None
    process.stdout.readline()
    pid = int(process.stdout.readline())
    await asyncio.sleep(0.5)
    process.kill()
    process.communicate()
    assert await gone(pid, 10)


def test_a_forked_process_has_children_of_its_own() -> None:
    fork = """
import os
pid = os.fork()
print(asyncio.run(child.ask("factors", "18")), flush=True)
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
print(asyncio.run(child.ask("factors", "20")), flush=True)
"""
    output, _ = python(START + fork).communicate(timeout=60)
    assert output.splitlines()[2:] == ["2^1 3^2", "2^1 3^2", "2^2 5^1"]


def test_the_tools_are_light_and_never_load_sympy() -> None:
    code = """
import asyncio, sys
from conductor_plugin.context import WorkerRequest
from conductor_plugin.worker_spec import WorkerSpec
from conductor_plugin.workers import call_worker
async def ask(kind, question):
    return (await call_worker(WorkerSpec(name=kind, kind=kind), WorkerRequest(question=question))).output
for kind, question in [("calculator", "Solve x = 1 + 1"), ("number", "Factor 12"), ("text", "Reverse hello")]:
    print(asyncio.run(ask(kind, question)))
print([name for name in ("sympy", "litellm", "torch", "prefect", "networkx") if name in sys.modules])
"""
    output, _ = python(code).communicate(timeout=60)
    assert output.splitlines() == ["x = 2", "2^2 * 3", "olleh", "[]"]
