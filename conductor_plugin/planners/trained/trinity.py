"""Training TRINITY: separable CMA-ES on the grade of whole runs, which is 0 or 1 (TRINITY, Sakana AI 2025).

Of the original's parameters the linear head is trained; its encoder's singular values are not, since the encoder
here is any frozen one. Population 32, 16 repeats a candidate, up to 60 iterations and sigma 0.03 are the paper's.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from conductor_plugin.graph import Step
from conductor_plugin.planners.base import PlanRequest, Proposal
from conductor_plugin.planners.encoder import Encoder, make_encoder
from conductor_plugin.planners.saved import fingerprints
from conductor_plugin.planners.trained.attempt import Attempt
from conductor_plugin.planners.trained.cmaes import SeparableCMAES
from conductor_plugin.planners.trinity import ROLES, LinearPolicy, features, next_steps
from conductor_plugin.pool import Pool
from conductor_plugin.step import StepResult

SIGMA = 0.03


@dataclass(frozen=True)
class Candidate:
    """A planner with a policy in memory, as training tries it."""

    policy: LinearPolicy
    name: str = "trinity"
    tries: int = 1

    async def propose(self, request: PlanRequest) -> Proposal:
        """The first turn."""
        return Proposal(steps=next_steps(request, (), self.policy))

    async def grow(self, request: PlanRequest, results: Sequence[StepResult]) -> Sequence[Step]:
        """The next turn, or the end."""
        return next_steps(request, results, self.policy)


@dataclass(frozen=True)
class _Remembering:
    """An encoder that encodes no text twice: a population sees the same transcripts over and over."""

    encoder: Encoder
    rows: dict[str, Any]

    def encode(self, texts: Sequence[str]) -> Any:
        """See `Encoder`."""
        import numpy as np

        for text in texts:
            if text not in self.rows:
                self.rows[text] = self.encoder.encode([text])[0]
        return np.stack([self.rows[text] for text in texts])

    def save(self, folder: Path) -> None:
        """See `Encoder`."""
        self.encoder.save(folder)


def new_policy(pool: Pool, texts: Sequence[str], encoder: str = "tfidf", size: int = 64, seed: int = 0) -> LinearPolicy:
    """An untrained policy: a small random head. The encoder `tfidf` is fitted on the texts."""
    import numpy as np

    coder = make_encoder(encoder, texts, size)
    shape = (len(features(coder, "x", ())), len(pool.workers) + len(ROLES))
    return LinearPolicy(coder, fingerprints(pool), SIGMA * np.random.default_rng(seed).standard_normal(shape))


async def train_trinity(
    start: LinearPolicy,
    questions: Sequence[str],
    attempt: Attempt,
    *,
    iterations: int = 60,
    population: int = 32,
    repeats: int = 16,
    seed: int = 0,
) -> LinearPolicy:
    """The policy after evolution from `start`; each iteration tries every candidate on the same drawn questions."""
    draw = Random(seed)
    coder = _Remembering(start.encoder, {})
    search = SeparableCMAES(start.head.ravel(), SIGMA, population, seed)
    for _ in range(iterations):
        drawn = [draw.choice(questions) for _ in range(repeats)]
        planners = [
            Candidate(LinearPolicy(coder, start.workers, head.reshape(start.head.shape))) for head in search.ask()
        ]
        search.tell(await asyncio.gather(*(_score(planner, drawn, attempt) for planner in planners)))
    return LinearPolicy(start.encoder, start.workers, search.mean.reshape(start.head.shape))


async def _score(planner: Candidate, questions: Sequence[str], attempt: Attempt) -> float:
    """The mean grade of the runs that have one."""
    outcomes = await asyncio.gather(*(attempt(question, planner) for question in questions))
    grades = [outcome.solved for outcome in outcomes if outcome.solved is not None]
    return sum(grades) / len(grades) if grades else 0.0
