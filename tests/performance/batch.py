"""`conductor answer --batch`: 200 questions of 3 instant steps on Prefect's embedded SQLite default.

Bar: the tasks themselves in under 10 s, and all 800 task runs recorded, every time. `python -m
tests.performance.batch 10` repeats it ten times, each in a new process with a new Prefect home. How fast a machine
is shows a hand-written flow of as many persisted tasks that do nothing, on the same server right after.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

QUESTIONS, STEPS = 200, 3
POOL = {"workers": [{"name": "instant", "kind": "tests.performance.workers:instant"}]}
PLAN = 'model_id=[0,0,0]\nsubtasks=["a","b","c"]\naccess_list=[[],[0],"all"]'


async def once(folder: Path) -> None:
    """One batch in this process: seconds from the first to the last answer, and the recorded task runs."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.objects import StateType

    from conductor_plugin.on_prefect.batch import conductor_batch
    from conductor_plugin.on_prefect.history import whole_history
    from conductor_plugin.options import AnswerOptions

    questions = folder / "questions.jsonl"
    questions.write_text("".join(json.dumps({"question": f"question {i}"}) + "\n" for i in range(QUESTIONS)))
    started = time.perf_counter()
    async with whole_history():
        summary = await conductor_batch(str(questions), str(folder / "answers.jsonl"), POOL, AnswerOptions(plan=PLAN))
    whole = time.perf_counter() - started
    async with get_client() as client:
        runs = []
        while page := await client.read_task_runs(limit=200, offset=len(runs)):
            runs += page
    done = [run for run in runs if run.state_type == StateType.COMPLETED]
    tasks = (max(run.end_time for run in done) - min(run.start_time for run in done)).total_seconds()
    bare = await hand_written()
    print(
        f"{summary.completed} answers, {len(done)} of {QUESTIONS * (STEPS + 1)} task runs recorded, "
        f"tasks {tasks:.1f} s, with server start and drain {whole:.1f} s; "
        f"hand-written {bare:.1f} s, ratio {tasks / bare:.2f}"
    )


async def hand_written() -> float:
    """Seconds for as many tasks of a plain flow: chains of four, results persisted, eight chains at a time."""
    from prefect import flow, task

    from conductor_plugin.on_prefect.history import whole_history

    @task(persist_result=True, result_serializer="json")
    async def nothing(chain: int, number: int, seen: list[str]) -> str:
        return f"{chain} {number}"

    @flow
    async def plain() -> float:
        slots = asyncio.Semaphore(8)

        async def chain(i: int) -> None:
            async with slots:
                seen: list[str] = []
                for number in range(STEPS + 1):
                    seen.append(await nothing(i, number, list(seen)))

        started = time.perf_counter()
        await asyncio.gather(*(chain(i) for i in range(QUESTIONS)))
        return time.perf_counter() - started

    async with whole_history():
        return await plain()


def main() -> None:
    """Run once, or N times as separate processes."""
    if len(sys.argv) > 1:
        for _ in range(int(sys.argv[1])):
            subprocess.run([sys.executable, "-m", "tests.performance.batch"], check=True)
        return
    from conductor_plugin.on_prefect.history import embedded_server

    with tempfile.TemporaryDirectory() as folder, embedded_server():
        asyncio.run(once(Path(folder)))


if __name__ == "__main__":
    if "PREFECT_HOME" not in os.environ or len(sys.argv) == 1:
        os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    with tempfile.TemporaryDirectory() as home:
        os.environ["PREFECT_HOME"] = home
        main()
