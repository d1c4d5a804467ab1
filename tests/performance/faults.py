"""2,000 steps against an upstream that fails 30 % of its calls, in one batch on a PostgreSQL-backed server.

Bar: 0 answers lost, 0 steps paid twice by the upstream's own log, memory flat. The faults are 429 with a
Retry-After, 500, a dropped connection, half of a body and a hang, evenly; which call meets which is a function of
the seed, the question, the step and the attempt, so that every run meets the same ones. The upstream is a
process of its own: its log of all calls must not count as this process's memory. `python -m
tests.performance.faults 10` is a tenth of it.
"""

import asyncio
import gc
import json
import multiprocessing
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.openai_wire import text_of
from tests.postgres import postgres
from tests.servers import prefect_server
from tests.upstream import Drop, Hang, Reply, Status, Text, Truncated, Upstream

QUESTIONS, STEPS, AT_ONCE, SHARE, SEED = 400, 5, 32, 0.3, 1
FAULTS = (Status(429, retry_after=0.2), Status(500), Drop(), Truncated(), Hang(60))
PLAN = (
    'model_id=[0,0,0,0,0]\nsubtasks=["part 0","part 1","part 2","part 3","part 4"]\naccess_list=[[],[],[0],[0,1],"all"]'
)


class Faulty:
    """What the upstream says: an answer, or one of the faults."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[int, int]] = Counter()
        self.failures: Counter[str] = Counter()

    def __call__(self, body: dict[str, Any]) -> Reply:
        call = step_of(body)
        self.calls[call] += 1
        dice = random.Random(f"{SEED} {call} {self.calls[call]}")
        if dice.random() >= SHARE:
            return Text(f"the result of {call} is {dice.random()}")
        fault = dice.choice(FAULTS)
        self.failures[str(fault.status) if isinstance(fault, Status) else type(fault).__name__] += 1
        return fault


def step_of(body: dict[str, Any]) -> tuple[int, int]:
    """Which question and which of its steps a request is."""
    text = text_of(body)
    return int(re.findall(r"question (\d+)", text)[0]), int(re.findall(r"part (\d)", text)[-1])


def serve(pipe: "Connection[Any, Any]") -> None:
    """The upstream's process: tell the address, and at the end what was asked and what was answered whole."""
    faulty = Faulty()
    with Upstream(faulty) as upstream:
        pipe.send(upstream.base_url)
        pipe.recv()
        paid = Counter(step_of(r.body) for r in upstream.requests if isinstance(r.reply, Text) and r.finished_at)
        pipe.send((len(upstream.requests), faulty.failures, paid))


@contextmanager
def faulty_upstream() -> Iterator["Connection[Any, Any]"]:
    """The other end of that process's pipe."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield ours
    finally:
        process.terminate()
        process.join()


def rss_mib() -> float:
    """This process's resident memory, once garbage is collected."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def batch(folder: Path, name: str, numbers: range, pool: dict[str, Any], each: Any) -> list[dict[str, Any]]:
    """Ask the questions of these numbers in one flow run; the lines of the results file."""
    from conductor_plugin.on_prefect.batch import ANSWERED, conductor_batch
    from conductor_plugin.options import AnswerOptions

    questions, results = folder / f"{name}.jsonl", folder / f"{name}.answers.jsonl"
    questions.write_text("".join(json.dumps({"question": f"question {number}"}) + "\n" for number in numbers))
    ANSWERED.set(each)
    await conductor_batch(str(questions), str(results), pool, AnswerOptions(plan=PLAN), concurrency=AT_ONCE)
    return [json.loads(line) for line in results.read_text().splitlines()]


async def measure(folder: Path, upstream: "Connection[Any, Any]", questions: int) -> None:
    """Print the figures."""
    worker = {"name": "a", "kind": "llm", "model": "openai/m", "api_base": upstream.recv(), "timeout_seconds": 2}
    pool = {"workers": [{**worker, "retries": 12}]}
    await batch(folder, "warm-up", range(questions, questions + max(questions // 10, 5)), pool, lambda answer: None)

    memory, answered = [rss_mib()], 0

    def each(answer: object) -> None:
        nonlocal answered
        answered += 1
        if answered % (questions // 4) == 0:
            memory.append(rss_mib())
            print(f"{answered} questions answered, {memory[-1]:.1f} MiB", flush=True)

    started = time.perf_counter()
    lines = await batch(folder, "batch", range(questions), pool, each)
    seconds = time.perf_counter() - started
    upstream.send("enough")
    calls, failures, paid = upstream.recv()
    mine = {call: times for call, times in paid.items() if call[0] < questions}
    failed = sum(failures.values())
    print(f"{calls} calls with the warm-up's, {failed} failed ({failed / calls:.0%}): {dict(sorted(failures.items()))}")
    completed = {line["id"] for line in lines if line["status"] == "completed" and line["answer"]}
    for line in lines:
        if line["status"] != "completed":
            print(f"question {line['id']}: {line['error']}")
    print(f"{questions - len(completed)} of {questions} answers lost")
    print(f"{len(mine)} of {questions * STEPS} steps paid, {sum(n > 1 for n in mine.values())} of them twice or more")
    print(f"{questions * STEPS / seconds:.1f} steps/s, {seconds:.0f} s")
    print("RSS at 0/25/50/75/100 %: " + ", ".join(f"{mib:.1f}" for mib in memory) + " MiB")
    print(f"growth from 25 % to 100 %: {memory[-1] - memory[1]:+.1f} MiB")


def main() -> None:
    """Start the servers and measure."""
    questions = QUESTIONS // int(sys.argv[1]) if len(sys.argv) > 1 else QUESTIONS
    with tempfile.TemporaryDirectory() as folder, faulty_upstream() as upstream, postgres() as url:
        # Before Prefect is imported.
        os.environ |= {"PREFECT_HOME": f"{folder}/prefect", "PREFECT_LOGGING_LEVEL": "CRITICAL", "DO_NOT_TRACK": "1"}
        with prefect_server(url) as server, server.use():
            asyncio.run(measure(Path(folder), upstream, questions))


if __name__ == "__main__":
    main()
