"""Training the compared routers on a benchmark's questions; what the sample store has is not paid for again."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.conduct import conduct
from conductor_plugin.errors import BudgetError, InputError
from conductor_plugin.evaluation.evaluate import Grader, judged
from conductor_plugin.evaluation.sampled import Sampled
from conductor_plugin.evaluation.store import Store
from conductor_plugin.planners.base import Planner
from conductor_plugin.planners.single import SingleWorker
from conductor_plugin.planners.trained.attempt import Outcome
from conductor_plugin.pool import Pool
from conductor_plugin.receipt import Answer

BASELINES = ("smoothie", "routerdc", "masrouter", "trinity")
ITERATED = {"masrouter": "epochs", "trinity": "iterations"}
LABEL_REPEATS = 5  # RouterDC's labels are means over so many samples of each worker
AT_ONCE = 64


class Trials:
    """Runs planners on the questions, with samples from the store, and grades them."""

    def __init__(self, pool: Pool, questions: Sequence[Question], store: Store, grader: Grader) -> None:
        self._pool, self._store, self._grader = pool, store, grader
        self._by_text = {question.text: question for question in questions}
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def attempt(self, text: str, planner: Planner) -> Outcome:
        """One graded run, as training asks for it."""
        answer = await self.run(text, planner, 0)
        return Outcome(solved=await self._solved(text, answer), cost_usd=answer.usage.cost_usd or 0.0)

    async def run(self, text: str, planner: Planner, repeat: int) -> Answer:
        """One run. BudgetError if the budget does not allow it."""
        sampled = Sampled(self._store, repeat)
        async with self._slots:
            answer = await conduct(text, pool=self._pool, planner=planner, engine=sampled.engine())
        if answer.status == "stopped_budget":
            assert answer.error
            raise BudgetError(answer.error.message, code=answer.error.code)
        return answer

    async def _solved(self, text: str, answer: Answer) -> float | None:
        if answer.status != "completed":
            return None if answer.status == "failed" else 0.0
        verdict = await judged(self._by_text[text], answer.answer or "", self._store, self._grader)
        return None if verdict.outcome == "infrastructure" else float(verdict.outcome == "right")

    async def labels(self, repeats: int) -> list[list[float]]:
        """Each worker's mean grade, in a row for each question; 0 where nothing could be graded."""

        async def label(text: str, worker: str) -> float:
            answers = [await self.run(text, SingleWorker(worker=worker), repeat) for repeat in range(repeats)]
            grades = [grade for answer in answers if (grade := await self._solved(text, answer)) is not None]
            return sum(grades) / len(grades) if grades else 0.0

        names = [worker.name for worker in self._pool.workers]
        return [list(row) for row in await self._table(names, label)]

    async def first_answers(self) -> dict[tuple[str, str], str]:
        """Each worker's first answer to each question, by (worker, question)."""

        async def first(text: str, worker: str) -> str:
            return (await self.run(text, SingleWorker(worker=worker), 0)).answer or ""

        names = [worker.name for worker in self._pool.workers]
        rows = await self._table(names, first)
        return {
            (name, text): cell
            for text, row in zip(self._by_text, rows, strict=True)
            for name, cell in zip(names, row, strict=True)
        }

    async def _table(self, names: Sequence[str], cell: Any) -> list[Any]:
        async def row(text: str) -> Any:
            return await asyncio.gather(*(cell(text, name) for name in names))

        return list(await asyncio.gather(*(row(text) for text in self._by_text)))


class _Answers:
    """What Smoothie looks answers up in."""

    def __init__(self, known: dict[tuple[str, str], str]) -> None:
        self._known = known

    def answers(self, worker: str, question: str) -> Sequence[str]:
        return [self._known[worker, question]] if (worker, question) in self._known else []


async def train_baseline(
    name: str,
    pool: Pool,
    questions: Sequence[Question],
    trials: Trials,
    *,
    encoder: str,
    seed: int,
    folder: Path,
    iterations: int | None = None,
) -> None:
    """Train the router of that name and save it; `--planner NAME:FOLDER` uses it.

    `iterations` are MasRouter's passes over the questions, or TRINITY's generations; by default as many as in their
    papers. InputError `bad_option` for another name, or for iterations of a router that has none.
    """
    if iterations is not None and name not in ITERATED:
        raise InputError(f"{name} has no iterations; {' and '.join(ITERATED)} have", code="bad_option")
    rounds: dict[str, Any] = {} if iterations is None else {ITERATED[name]: iterations}
    texts = [question.text for question in questions]
    if name == "smoothie":
        from conductor_plugin.planners.smoothie import SmoothieModel

        model: Any = SmoothieModel.fit(pool, texts, _Answers(await trials.first_answers()), encoder)
    elif name == "routerdc":
        from conductor_plugin.planners.trained.routerdc import new_router, train_routerdc

        scores = await trials.labels(LABEL_REPEATS)
        model = await asyncio.to_thread(
            train_routerdc, new_router(pool, texts, encoder, seed), texts, scores, seed=seed
        )
    elif name == "masrouter":
        from conductor_plugin.planners.trained.masrouter import train_masrouter

        model = await train_masrouter(pool, texts, trials.attempt, encoder=encoder, seed=seed, **rounds)
    elif name == "trinity":
        from conductor_plugin.planners.trained.trinity import new_policy, train_trinity

        start = new_policy(pool, texts, encoder, seed=seed)
        model = await train_trinity(start, texts, trials.attempt, seed=seed, **rounds)
    else:
        raise InputError(f"there is no baseline {name!r} to train; there are {', '.join(BASELINES)}", code="bad_option")
    model.save(folder)
