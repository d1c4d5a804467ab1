"""The flow `conductor-evaluate`: systems on a benchmark's questions, and the report that compares them."""

import asyncio
import base64
import os
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.artifacts import acreate_image_artifact, acreate_markdown_artifact
from prefect.utilities.annotations import quote as hidden

from conductor_plugin import benchmarks as sets
from conductor_plugin.benchmarks.question import Question
from conductor_plugin.errors import InputError
from conductor_plugin.evaluation.evaluate import System, Task, evaluate, tasks_of
from conductor_plugin.evaluation.judge import can_judge, judge_of
from conductor_plugin.evaluation.ledger import Ledger
from conductor_plugin.evaluation.references import References, only_gradeable
from conductor_plugin.evaluation.report import write_report
from conductor_plugin.evaluation.rows import Row
from conductor_plugin.evaluation.sampled import MOST_REPEATS
from conductor_plugin.evaluation.store import Store
from conductor_plugin.evaluation.systems import make_systems
from conductor_plugin.grading.graders import Graders
from conductor_plugin.models import Frozen
from conductor_plugin.on_prefect.blocks import resolve_pool
from conductor_plugin.options import Positive
from conductor_plugin.planners.single import SingleWorker
from conductor_plugin.pool import Pool
from conductor_plugin.pricing import check_priced
from conductor_plugin.receipt import total
from conductor_plugin.worker_spec import digest

# The store's URL, with its password: no flow parameter, since those are shown.
STORE_URL = "CONDUCTOR_STORE"
ARTIFACT_KEY = "conductor-evaluation"
_LARGEST_ARTIFACT = 400_000  # characters

# Who hears of the number of rows, and of each row, in this process (the CLI's progress bar).
PROGRESS: ContextVar[Callable[[int | Row], None] | None] = ContextVar("progress", default=None)


class EvaluationSummary(Frozen):
    """What an evaluation came to, and where its report lies."""

    rows: int
    right: int
    failed: int
    cost_usd: float | None
    report: str
    judge_usd: float | None = 0.0


@flow(name="conductor-evaluate", persist_result=True, result_serializer="json")
async def conductor_evaluate(
    benchmarks: Sequence[str],
    systems: Sequence[str] = ("all",),
    pool: str | dict[str, Any] | None = None,
    data: str | None = None,
    only: Sequence[str] = (),
    exclude: Sequence[str] = (),
    repeats: int = 1,
    limit: int | None = None,
    seed: int = 0,
    blind: bool = False,
    judge: str | None = None,
    concurrency: int = 64,
    budget_usd: Positive | None = None,
    retry_failed: bool = False,
    folder: str = "evaluation",
) -> EvaluationSummary:
    """Answer and grade every question with every system; stored samples, verdicts and rows are not made again.

    Args:
        benchmarks: Names, `math500` or `rg:gcd` say; `conductor evaluate --help` has them.
        systems: Names as `--planner` takes them, `planner` for the pool's own, or `all`.
        pool: As for the flow `conductor`.
        data: A local file with the questions of the one benchmark that is named.
        only: Names or tags of the workers to use. Default: all.
        exclude: Names or tags of the workers to leave out.
        repeats: How often each question is answered, with samples of its own each time.
        limit: How many questions of each benchmark. Default: all.
        seed: Which questions, and in which order their options stand.
        blind: Show a prompted planner ordinals alone.
        judge: A worker of the pool (also one that is left out) that says beside the grader's rules whether a short
            answer is right; it alone is shown what is right.
        concurrency: How many answers are in progress at a time.
        budget_usd: A hard cap over this run and all that resume it.
        retry_failed: Make rows anew that failed for their infrastructure.
        folder: Where the report is written.
    """
    whole = await resolve_pool(pool)
    members = whole.subset(tuple(only), tuple(exclude))
    referee = judge_of(whole, judge) if judge else None
    store = Store(os.environ.get(STORE_URL))
    try:
        prepared = prepare_tasks(members, benchmarks, systems, data, repeats, limit, seed, blind, referee)
        budget = None
        if budget_usd is not None:
            for system in {task.system.name: task.system for task in prepared}.values():
                check_priced(system.pool, system.planner)
            given = [list(benchmarks), list(systems), members.fingerprint, data, repeats, limit, seed, blind]
            if referee:
                check_priced(referee, SingleWorker(worker=referee.workers[0].name))
                given.append(referee.fingerprint)
            budget = Ledger(budget_usd, store, digest(given))
        running: Any = run_references
        # `hidden`: Prefect looks for other tasks' results in a task's inputs, through all the questions.
        tasks, references = await running(hidden(prepared), hidden(store))
        answering: Any = answer_all
        rows = await answering(hidden(tasks), hidden(store), concurrency, hidden(budget), retry_failed)
    finally:
        store.close()
    reporting: Any = report_all
    await reporting(hidden(rows), hidden(references), folder)
    return EvaluationSummary(
        rows=len(rows),
        right=sum(row.outcome == "right" for row in rows),
        failed=sum(row.outcome == "failed" for row in rows),
        cost_usd=total([row.cost_usd for row in rows]),
        report=str(Path(folder) / "report.md"),
        judge_usd=total([row.judge_usd for row in rows]),
    )


def prepare_tasks(
    pool: Pool,
    benchmarks: Sequence[str],
    systems: Sequence[str],
    data: str | None,
    repeats: int,
    limit: int | None,
    seed: int,
    blind: bool,
    judge: Pool | None = None,
) -> list[Task]:
    """The rows to make. InputError for whatever can be seen to be wrong before anything is paid for."""
    if data and len(benchmarks) != 1:
        raise InputError("data is a file of one benchmark; name that one alone", code="bad_option")
    if not 1 <= repeats <= MOST_REPEATS:
        raise InputError(f"repeats is at least 1 and at most {MOST_REPEATS}, not {repeats}", code="bad_option")
    pool.check_keys()
    chosen: list[System] = make_systems(pool, systems, blind=blind)
    questions: list[Question] = []
    for name in benchmarks:
        questions += sets.load(name, data=Path(data) if data else None, limit=limit, seed=seed)
    if judge:
        judge.check_keys()
        if not any(map(can_judge, questions)):
            raise InputError(
                f"{', '.join(benchmarks)}: no question has a short answer in words or figures, so that the judge has "
                "nothing to do; leave it out",
                code="bad_option",
            )
    return tasks_of(chosen, questions, repeats, judge)


@task(name="run references", persist_result=False)
async def run_references(tasks: Sequence[Task], store: Store) -> tuple[list[Task], list[References]]:
    """Before anybody is asked: which questions of code benchmarks can be graded here."""
    return await only_gradeable(tasks, store, os.cpu_count() or 1)


@task(name="answer and grade", persist_result=False)
async def answer_all(
    tasks: Sequence[Task], store: Store, concurrency: int, budget: Ledger | None, retry_failed: bool
) -> list[Row]:
    """The rows; what is finished is in the store at once, so that a retry of the run goes on from there."""
    tell = PROGRESS.get() or (lambda progress: None)
    tell(len(tasks))
    async with Graders(processes=os.cpu_count() or 1) as graders:
        return await evaluate(
            tasks,
            store=store,
            grader=graders,
            concurrency=concurrency,
            budget=budget,
            retry_failed=retry_failed,
            on_row=tell,
        )


@task(name="report", persist_result=False)
async def report_all(rows: Sequence[Row], references: Sequence[References], folder: str) -> None:
    """Write the report, and show its text and its plots in Prefect."""
    benchmarks = ", ".join(dict.fromkeys(row.benchmark for row in rows))
    written = await asyncio.to_thread(
        write_report, rows, Path(folder), title=f"Evaluation: {benchmarks}", references=references
    )
    text = (Path(folder) / "report.md").read_text(encoding="utf-8")
    await acreate_markdown_artifact(
        text[:_LARGEST_ARTIFACT], key=ARTIFACT_KEY, description="The report of an evaluation"
    )
    for path in written:
        if path.suffix == ".png":
            image = base64.b64encode(path.read_bytes()).decode()
            await acreate_image_artifact(f"data:image/png;base64,{image}", key=f"{ARTIFACT_KEY}-{path.stem}")
