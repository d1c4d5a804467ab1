"""The planners `smoothie:FOLDER` and `smoothie-independent:FOLDER` (Guha et al. 2024): who is nearest to all?

Every worker answers, and the one with the least estimated error is selected; no labels are needed. With D the
mean squared distances between the workers' embedded answers, worker i's error is estimated as the mean of
(D_ij + D_ik - D_jk) / 2 over the pairs (j, k) of the others. The least error is the medoid: with r_i = sum_j D_ij and
S = sum of D over all pairs it is r_i / (n - 1) - (S - r_i) / ((n - 1)(n - 2)), which grows with r_i. Estimates can be
negative, so that the published weight, inverse to the error, must not be maximised instead.

Independent: one D over a data set selects one worker for all questions. Dependent: D over the question's k
nearest questions, itself included.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from conductor_plugin.errors import InputError
from conductor_plugin.graph import CallStep, ReduceStep, Step
from conductor_plugin.models import Frozen
from conductor_plugin.planners.base import PlanRequest, Proposal
from conductor_plugin.planners.encoder import Encoder, load_encoder, make_encoder
from conductor_plugin.planners.saved import Saved, check_pool, fingerprints, folder_of, read_model, write_model
from conductor_plugin.pool import Pool
from conductor_plugin.step import StepResult

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

NEIGHBOURS = 20  # the paper does not say; the method's tutorial uses 20


class Samples(Protocol):
    """Where answers are looked up that workers gave before."""

    def answers(self, worker: str, question: str) -> Sequence[str]:
        """The answers of the worker of that name to the question, the first sample first; [] if there are none."""
        ...


def distances(answers: "Array") -> "Array":
    """Squared distances between workers: from (workers, size) embeddings of one answer each to (workers, workers)."""
    difference = answers[:, None, :] - answers[None, :, :]
    squared: Array = (difference**2).sum(-1)
    return squared


def estimated_errors(between: "Array") -> "Array":
    """Each worker's estimated error from the distances between three workers or more, in the closed form."""
    n = len(between)
    rows = between.sum(1)
    pairs = rows.sum() / 2
    errors: Array = rows / (n - 1) - (pairs - rows) / ((n - 1) * (n - 2))
    return errors


def least_error(between: "Array") -> int:
    """The worker with the least estimated error (the earliest of equals)."""
    return int(estimated_errors(between).argmin())


@dataclass(frozen=True)
class SmoothieModel:
    """What Smoothie remembers of a data set: the questions' embeddings and each one's distances between workers."""

    encoder: Encoder
    workers: tuple[str, ...]
    questions: "Array"
    between: "Array"

    @staticmethod
    def fit(pool: Pool, questions: Sequence[str], samples: Samples, encoder: str = "tfidf") -> "SmoothieModel":
        """Estimate from each worker's first answer to each question. InputError if one is missing."""
        import numpy as np

        if len(pool.workers) < 3:
            raise InputError("Smoothie compares each worker with pairs of others: 3 at least", code="too_few_workers")
        answers = [[_first(samples, worker.name, question) for worker in pool.workers] for question in questions]
        coder = make_encoder(encoder, [*questions, *(answer for row in answers for answer in row)])
        between = np.stack([distances(coder.encode(row)) for row in answers])
        return SmoothieModel(coder, fingerprints(pool), coder.encode(questions), between)

    def independent(self) -> int:
        """The worker for all questions."""
        return least_error(self.between.mean(0))

    def dependent(self, question: str, answers: Sequence[str]) -> int:
        """The worker for one question, whose answers are given: over itself and the nearest other questions."""
        import numpy as np

        # The question itself, if it is remembered, is the nearest one; its answers are those at hand.
        [embedded] = self.encoder.encode([question])
        away = ((self.questions - embedded) ** 2).sum(1)
        nearest = [i for i in np.argsort(away, kind="stable") if away[i] > 1e-12][: NEIGHBOURS - 1]
        own = distances(self.encoder.encode(answers))
        return least_error(np.concatenate([own[None], self.between[nearest]]).mean(0))

    def save(self, folder: Path) -> None:
        """Save it for `load`."""
        write_model(
            folder,
            "smoothie",
            {"workers": self.workers},
            {"questions": self.questions, "between": self.between},
        )
        self.encoder.save(folder / "encoder")

    @staticmethod
    def load(folder: Path) -> "SmoothieModel":
        """What `save` wrote. InputError `planner_unreadable` if it is not there."""
        facts, arrays = read_model(folder, "smoothie")
        coder = load_encoder(folder / "encoder")
        return SmoothieModel(coder, tuple(facts["workers"]), arrays["questions"], arrays["between"])


def _first(samples: Samples, worker: str, question: str) -> str:
    for answer in samples.answers(worker, question):
        return answer
    raise InputError(f"there is no sample of {worker} for the question {question[:60]!r}", code="no_sample")


@cache
def _loaded(saved: Saved) -> SmoothieModel:
    return SmoothieModel.load(folder_of(saved))


class SmoothieIndependent(Frozen):
    """All workers answer; the one that the data set selected is returned."""

    model: Saved
    name: str = "smoothie-independent"
    tries: int = 1

    async def propose(self, request: PlanRequest) -> Proposal:
        """All calls and the selection."""
        model = _loaded(self.model)
        check_pool(model.workers, request.pool, self.name)
        calls = everyone(request.pool)
        return Proposal(steps=(*calls, ReduceStep(reduce="pick", argument=model.independent())))


class SmoothieDependent(Frozen):
    """All workers answer; their answers and those to the nearest questions select one (a growing plan)."""

    model: Saved
    name: str = "smoothie"
    tries: int = 1

    async def propose(self, request: PlanRequest) -> Proposal:
        """All calls; the selection needs their outputs."""
        check_pool(_loaded(self.model).workers, request.pool, self.name)
        return Proposal(steps=everyone(request.pool))

    async def grow(self, request: PlanRequest, results: Sequence[StepResult]) -> Sequence[Step]:
        """The selection, once everybody has answered."""
        if len(results) > len(request.pool.workers):
            return ()
        chosen = _loaded(self.model).dependent(request.question, [result.reply.output for result in results])
        return (ReduceStep(reduce="pick", argument=chosen),)


def everyone(pool: Pool) -> tuple[CallStep, ...]:
    """Every worker, asked the bare question."""
    return tuple(CallStep(worker=i) for i in range(len(pool.workers)))
