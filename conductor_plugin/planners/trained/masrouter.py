"""Training MasRouter: cross-entropy of the task's kind, REINFORCE on the rest (Yue et al. 2025).

The loss of a question is -log p(mode, roles, workers) x utility, with utility = solved - cost in USD x rate, no
baseline; 0.001 of the autoencoders' losses is added. Adam at 0.01, batches of 16. The number of agents is no
draw, so that the reward does not reach it.
"""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from conductor_plugin.planners.cascade import KINDS, Cascade, Encoded, new_cascade
from conductor_plugin.planners.masrouter import build, profiles
from conductor_plugin.planners.threads import one_thread
from conductor_plugin.planners.trained.attempt import Attempt, FixedSteps, Outcome
from conductor_plugin.pool import Pool

LEARNING_RATE = 0.01
BATCH = 16
VAE_WEIGHT = 0.001


async def train_masrouter(
    pool: Pool,
    questions: Sequence[str],
    attempt: Attempt,
    *,
    tasks: Sequence[str] | None = None,
    cost_rate: float = 100.0,
    epochs: int = 5,
    encoder: str = "tfidf",
    seed: int = 0,
) -> Cascade:
    """A cascade trained on the questions; `tasks` are their kinds (of `masrouter.yaml`), where they are known.

    `cost_rate` is what a USD counts in units of a solved question (the paper: 100 for MATH). An attempt
    without a grade is left out.
    """
    import torch

    cascade = new_cascade(pool, questions, encoder, seed)
    for weight in cascade.weights.values():
        weight.requires_grad_()
    optimiser = torch.optim.Adam(list(cascade.weights.values()), lr=LEARNING_RATE)
    encoded = Encoded(cascade)
    rows = encoded.encode(questions)
    labels = None if tasks is None else torch.tensor([list(profiles().tasks).index(task) for task in tasks])
    draw, noise = Random(seed), torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        order = draw.sample(range(len(questions)), len(questions))
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            with one_thread():
                options = encoded.options()
                drawn = [encoded.decide(rows[i], options, draw) for i in batch]
            outcomes = await asyncio.gather(
                *(
                    attempt(questions[i], FixedSteps(steps=build(decided)))
                    for i, (decided, _) in zip(batch, drawn, strict=True)
                )
            )
            with one_thread():
                loss = _reinforce([log for _, log in drawn], outcomes, cost_rate)
                if labels is not None:
                    scores = torch.stack([encoded.task_scores(rows[i]) for i in batch])
                    loss = loss + torch.nn.functional.cross_entropy(scores, labels[batch])
                optimiser.zero_grad()
                (loss + VAE_WEIGHT * _autoencoders(encoded, rows[batch], noise)).backward()
                optimiser.step()
    return Cascade(
        cascade.encoder,
        cascade.workers,
        cascade.worker_texts,
        {name: weight.detach() for name, weight in cascade.weights.items()},
    )


def _reinforce(logs: Sequence[Any], outcomes: Sequence[Outcome], cost_rate: float) -> Any:
    """The mean of -log-probability x utility over the graded attempts."""
    import torch

    terms = [
        -log * (outcome.solved - outcome.cost_usd * cost_rate)
        for log, outcome in zip(logs, outcomes, strict=True)
        if outcome.solved is not None
    ]
    return torch.stack(terms).mean() if terms else torch.zeros(())


def _autoencoders(encoded: Encoded, questions: Any, noise: Any) -> Any:
    import torch

    roles = torch.cat(list(encoded.roles.values()))
    inputs = dict(zip(KINDS, (questions, encoded.modes, roles, encoded.workers), strict=True))
    return sum(encoded.reconstruction_loss(kind, rows, noise) for kind, rows in inputs.items())
