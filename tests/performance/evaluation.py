"""Evaluation beside its workers: its own time a step, its schedule against a perfect one, and the report's time.

Bars: at most 5 ms a step with instant workers; 256 questions x 3 steps with log-normal latencies (median 1 s, sigma
0.6) at a concurrency of 64 within 1.05x of the simulated FIFO schedule of the same latencies; a report of 100,000
rows in under 10 s. The latencies of the second are divided by SPEEDUP, so that it ends in seconds.
"""

import asyncio
import heapq
import random
import tempfile
import time
from pathlib import Path

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.context import WorkerRequest
from conductor_plugin.evaluation.evaluate import System, evaluate, tasks_of
from conductor_plugin.evaluation.report import write_report
from conductor_plugin.evaluation.rows import Row
from conductor_plugin.evaluation.store import Store
from conductor_plugin.grading.verdict import Verdict
from conductor_plugin.planners import make_planner
from conductor_plugin.pool import pool_from

QUESTIONS, STEPS, SLOTS, SPEEDUP = 256, 3, 64, 2.0
PLAN = 'model_id=[0,0,0]\nsubtasks=["a","b","c"]\naccess_list=[[],[0],"all"]'


def latency(question: int, step: int) -> float:
    """Seconds, the same in the run and in the simulation."""
    return random.Random(f"{question} {step}").lognormvariate(0.0, 0.6) / SPEEDUP


async def sleeper(request: WorkerRequest) -> str:
    """Takes the latency of its question and step."""
    await asyncio.sleep(latency(int(request.question), len(request.seen)))
    return "done"


async def instant(request: WorkerRequest) -> str:
    """Takes nothing."""
    return "done"


class Right:
    """Grades nothing: the grading has a script of its own."""

    async def grade(self, question: Question, answer: str) -> Verdict:
        return Verdict(outcome="right")


def questions(count: int) -> list[Question]:
    """Made up."""
    return [Question(id=f"q{i}", benchmark="b", text=str(i), gold="x", grader="text") for i in range(count)]


async def run(worker: str, count: int, folder: str) -> float:
    """Seconds for that many questions of three steps."""
    pool = pool_from({"workers": [{"name": "w", "kind": f"tests.performance.evaluation:{worker}"}]})
    system = System("chain", make_planner(pool, plan=PLAN), pool)
    store = Store(f"sqlite:///{folder}/{worker}.sqlite")
    started = time.perf_counter()
    rows = await evaluate(tasks_of([system], questions(count), 1), store=store, grader=Right(), concurrency=SLOTS)
    assert len(rows) == count
    return time.perf_counter() - started


def simulated() -> float:
    """Seconds of the first-in-first-out schedule: 64 questions at a time, each a chain of three."""
    slots = [0.0] * SLOTS
    for question in range(QUESTIONS):
        start = heapq.heappop(slots)
        heapq.heappush(slots, start + sum(latency(question, step) for step in range(STEPS)))
    return max(slots)


def report(folder: str) -> float:
    """Seconds for the report of 100,000 made-up rows: 10 systems, 2,500 questions, 4 repeats."""
    rng = random.Random(1)
    rows = [
        Row(
            system=system,
            benchmark="b",
            question=f"q{q}",
            repeat=repeat,
            outcome="right" if rng.random() < 0.6 else "wrong",
            calls=3,
            steps=3,
            workers=("a", "b", "c"),
            topology="chain",
            level=str(q % 5),
        )
        for system in (*(f"single:{name}" for name in "abc"), *"defghij")
        for q in range(2500)
        for repeat in range(4)
    ]
    started = time.perf_counter()
    write_report(rows, Path(folder), title="100,000 rows")
    return time.perf_counter() - started


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run("instant", 8, folder))  # imports
        seconds = asyncio.run(run("instant", QUESTIONS, folder))
        print(f"instant workers: {1000 * seconds / QUESTIONS / STEPS:.2f} ms a step")
        perfect, ours = simulated(), asyncio.run(run("sleeper", QUESTIONS, folder))
        print(f"log-normal latencies: {ours:.2f} s, the simulated schedule {perfect:.2f} s: {ours / perfect:.3f}x")
        print(f"report of 100,000 rows: {report(folder):.1f} s")


if __name__ == "__main__":
    main()
