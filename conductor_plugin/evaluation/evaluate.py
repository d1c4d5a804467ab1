"""Run systems on questions: each pair once a repeat, so many at a time, every result kept as soon as it is there."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.budget import BUDGET, Budget
from conductor_plugin.conduct import conduct
from conductor_plugin.errors import BudgetError
from conductor_plugin.evaluation.judge import Judged, ask_judge, can_judge
from conductor_plugin.evaluation.rows import Row, make_row
from conductor_plugin.evaluation.sampled import Sampled, settings_of
from conductor_plugin.evaluation.store import Store
from conductor_plugin.grading.verdict import Verdict
from conductor_plugin.planners.base import Planner
from conductor_plugin.pool import Pool
from conductor_plugin.worker_spec import digest

# What of a result is decided by this package's own code; a change of it makes results anew, from the same samples.
VERSION = 2


@dataclass(frozen=True)
class System:
    """A way to answer: a planner on a pool."""

    name: str
    planner: Planner
    pool: Pool
    max_rounds: int = 0
    max_steps: int = 5


class Grader(Protocol):
    """Judges an answer, see `conductor_plugin.grading`."""

    async def grade(self, question: Question, answer: str) -> Verdict: ...


@dataclass(frozen=True)
class Task:
    """One row to make; `judge` is the pool of the worker that is asked for a second judgement, of itself alone."""

    system: System
    question: Question
    repeat: int
    judge: Pool | None = None

    @property
    def planner(self) -> Planner:
        """The system's, as this repeat asks it: one that draws lots by a seed and the question draws new ones."""
        planner: Any = self.system.planner
        if hasattr(planner, "seed"):
            planner = planner.model_copy(update={"seed": planner.seed + self.repeat})
        return cast(Planner, planner)

    @property
    def key(self) -> str:
        """What decides the row."""
        pool = [[worker.name, worker.key, list(worker.fallbacks)] for worker in self.system.pool.workers]
        limits = [self.system.max_rounds, self.system.max_steps]
        return digest(
            [
                VERSION,
                self.system.name,
                settings_of(self.system.planner),
                pool,
                limits,
                self.question.model_dump(),
                self.repeat,
                *([self.judge.workers[0].key] if self.judge else []),
            ],
            64,
        )


def tasks_of(
    systems: Sequence[System], questions: Sequence[Question], repeats: int, judge: Pool | None = None
) -> list[Task]:
    """All rows to make: question by question, so that systems share samples while they are fresh."""
    return [
        Task(s, q, repeat, judge if can_judge(q) else None)
        for repeat in range(repeats)
        for q in questions
        for s in systems
    ]


async def evaluate(
    tasks: Sequence[Task],
    *,
    store: Store,
    grader: Grader,
    concurrency: int = 64,
    budget: Budget | None = None,
    retry_failed: bool = False,
    on_row: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """The rows of the tasks, in their order; those that the store has are taken from it.

    BudgetError if the budget stops it; what was finished until then is in the store, and the next call goes on.
    `retry_failed` makes rows anew that failed for their infrastructure, from the samples that there are.
    """
    there = await asyncio.to_thread(_stored, tasks, store, retry_failed)
    rows: dict[int, Row] = {}
    queue = iter(enumerate(tasks))
    token = BUDGET.set(budget)

    async def work() -> None:
        for i, task in queue:
            found = there.get(task.key)
            rows[i] = Row.model_validate(found) if found else await _row(task, store, grader)
            on_row(rows[i])

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(tasks))):
                group.create_task(work())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        BUDGET.reset(token)
    return [rows[i] for i in range(len(tasks))]


def missing_tasks(tasks: Sequence[Task], store: Store, *, retry_failed: bool = False) -> list[Task]:
    """Those whose rows are still to be made."""
    there = _stored(tasks, store, retry_failed)
    return [task for task in tasks if task.key not in there]


def _stored(tasks: Sequence[Task], store: Store, retry_failed: bool) -> dict[str, dict[str, Any]]:
    there = store.get_many("result", [task.key for task in tasks])
    return {
        key: row
        for key, row in there.items()
        if not (retry_failed and "failed" in (row["outcome"], row.get("judgement")))
    }


async def _row(task: Task, store: Store, grader: Grader) -> Row:
    system, question = task.system, task.question
    sampled = Sampled(store, task.repeat)
    answer = await conduct(
        question.text,
        pool=system.pool,
        planner=task.planner,
        max_steps=system.max_steps,
        max_rounds=system.max_rounds,
        engine=sampled.engine(),
    )
    if answer.status == "stopped_budget":
        assert answer.error
        raise BudgetError(answer.error.message, code=answer.error.code)
    verdict = await judged(question, answer.answer or "", store, grader) if answer.status == "completed" else None
    row = make_row(system.name, question, task.repeat, answer, verdict, sampled)
    if task.judge and row.outcome != "failed":
        said = Judged(judgement="wrong")  # where there is no answer, there is nothing to ask
        if answer.status == "completed":
            said = await ask_judge(task.judge, question, answer.answer or "", store)
        row = row.model_copy(update={"judgement": said.judgement, "judge_usd": said.cost_usd})
    await store.areplace("result", task.key, row.model_dump(mode="json"), question=digest(question.id))
    return row


async def judged(question: Question, text: str, store: Store, grader: Grader) -> Verdict:
    """The stored verdict on the very same answer, or a new one, which is kept unless nobody could judge."""
    key = digest([VERSION, question.model_dump(mode="json"), text], 64)
    if (found := await store.aget("verdict", key)) is not None:
        return Verdict.model_validate(found)
    verdict = await grader.grade(question, text)
    if verdict.outcome != "infrastructure":
        await store.aput("verdict", key, verdict.model_dump(mode="json"), question=digest(question.id))
    return verdict
