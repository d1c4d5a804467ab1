"""Rehearsing the cold start while GRPO runs, so that what a stage is not about stays as it was.

Adam moves a weight by its gradient's direction more than by its size, so that even what no reward speaks of drifts:
after a stage of one-step plans, two plans of three have one step where they may have three, and second steps ask the
same worker as first ones (training/README.md, runs d13 and s1). Plans by lot, as in the cold start, hold that in place.
"""

from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import torch

from training.cold_start import NAMED, NEXT, TOLD, Drawn, batch_of
from training.fast.logps import shared_log_probs

Kept = Literal["length", "all but the first worker"]
SIZE = 64
"""Plans an iteration, of 8 prompts."""


@dataclass(frozen=True)
class Rehearsal:
    """The loss of plans by lot, of those of their tokens that a stage is not about, times `weight`.

    A rewarded word has about a tenth of its completion's loss, a rehearsed one all of its own: 1 holds what is kept,
    0.05 slows what pulls at it.
    """

    examples: Drawn
    kept: Kept
    weight: float = 1.0
    seed: int = 0

    def loss(self, model: Any, tokenizer: Any, iteration: int) -> torch.Tensor:
        """In nats a token, times `weight`; the plans are those of the iteration, also after a resume."""
        source = Random(f"rehearsal/{self.seed}/{iteration}")
        ids, mask, width = batch_of(tokenizer, self.examples, source, SIZE)
        log_probs, _ = shared_log_probs(model, ids, mask, width, 1.0)
        chosen = self.chosen(ids[:, -width:], tokenizer) & mask[:, -width:].bool()
        return -self.weight * (log_probs * chosen).sum() / chosen.sum()

    def chosen(self, plans: torch.Tensor, tokenizer: Any) -> torch.Tensor:
        """Which tokens of plans [rows, width] are rehearsed."""
        named, told, between = tokenizer.convert_tokens_to_ids([NAMED, TOLD, NEXT])
        if self.kept == "length":
            among_workers = (plans == told).cumsum(dim=1) == 0
            return (plans == told) | (among_workers & (plans == between))
        first = torch.zeros_like(plans, dtype=torch.bool)
        first[:, 1:] = plans[:, :-1] == named
        return ~first
