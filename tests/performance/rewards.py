"""Rewards beside their workers: 256 rollouts of 3 steps, as one batch of the paper has.

Bars: under 0.5 s with instant workers; with log-normal latencies (median 1 s, sigma 0.6) at a concurrency of 64 within
1.05x of the simulated FIFO schedule of the same latencies. Those are divided by SPEEDUP, so that it ends in seconds.
"""

import asyncio
import heapq
import random
import tempfile
import time
from pathlib import Path

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.context import WorkerRequest
from conductor_plugin.pool import pool_from
from tests.performance.evaluation import SLOTS, SPEEDUP, STEPS, Right, latency, questions
from training.config import load_config
from training.paid import PaidCalls
from training.reward import Rewarder, Rollout

ROLLOUTS = 256
PLAN = 'model_id=[0,0,0]\nsubtasks=["a {0}","b {0}","c {0}"]\naccess_list=[[],[0],"all"]'


async def sleeper(request: WorkerRequest) -> str:
    """Takes the latency of its rollout and step."""
    await asyncio.sleep(latency(int(request.subtask.split()[1]), len(request.seen)))
    return "done"


async def instant(request: WorkerRequest) -> str:
    """Takes nothing."""
    return "done"


async def run(worker: str, folder: str, iteration: int = 0) -> float:
    """Seconds for a batch: parsed, run, graded, and every call on the disk."""
    pool = pool_from(
        {"workers": [{"name": "w", "kind": f"tests.performance.rewards:{worker}", "max_concurrency": SLOTS}]}
    )
    asked: dict[str, Question] = {q.id: q for q in questions(4)}
    paid = PaidCalls(Path(folder) / f"{worker}.sqlite")
    rewarder = Rewarder(load_config("paper"), pool, asked, paid=paid, grader=Right)
    rollouts = [Rollout(f"q{i // 64}", PLAN.replace("{0}", str(i)), (0,), iteration, i) for i in range(ROLLOUTS)]
    started = time.perf_counter()
    outcomes = await rewarder.score(rollouts)
    seconds = time.perf_counter() - started
    assert [outcome.reward for outcome in outcomes] == [1.0] * ROLLOUTS
    assert paid.made == ROLLOUTS * STEPS
    paid.close()
    return seconds


def simulated() -> float:
    """Seconds of the FIFO schedule: 64 calls at a time, a step asks when the one before it has answered."""
    ready = [(0.0, i, i, 0) for i in range(ROLLOUTS)]  # (when, order of asking, rollout, step)
    order, slots, end = ROLLOUTS, [0.0] * SLOTS, 0.0
    while ready:
        asked, _, rollout, step = heapq.heappop(ready)
        done = max(asked, heapq.heappop(slots)) + latency(rollout, step)
        heapq.heappush(slots, done)
        end = max(end, done)
        if step + 1 < STEPS:
            heapq.heappush(ready, (done, order, rollout, step + 1))
            order += 1
    return end


def main() -> None:
    """Print the figures."""
    random.seed(0)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run("instant", folder, iteration=0))  # imports
        seconds = min(asyncio.run(run("instant", folder, iteration=i)) for i in range(1, 6))
        print(f"instant workers: {seconds:.3f} s for {ROLLOUTS} rollouts of {STEPS} steps (bar 0.5 s)")
        perfect, ours = simulated(), asyncio.run(run("sleeper", folder))
        print(f"log-normal latencies: {ours:.2f} s, the simulated schedule {perfect:.2f} s: {ours / perfect:.3f}x")
        print(f"(latencies divided by {SPEEDUP:g})")


if __name__ == "__main__":
    main()
