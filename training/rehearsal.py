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
from training.fast.logps import shared_logits

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
        every = shared_logits(model, ids, mask, width).log_softmax(dim=-1)
        plans = ids[:, -width:]
        log_probs = every.gather(-1, plans[:, :, None])[..., 0]
        chosen = self.chosen(plans, tokenizer) & mask[:, -width:].bool()
        whole = (log_probs * chosen).sum()
        if self.kept == "length":
            whole = whole + self._not_kept(every, plans, tokenizer)
        return -self.weight * whole / chosen.sum()

    def chosen(self, plans: torch.Tensor, tokenizer: Any) -> torch.Tensor:
        """Which tokens of plans [rows, width] are rehearsed."""
        _, told, between = tokenizer.convert_tokens_to_ids([NAMED, TOLD, NEXT])
        if self.kept == "length":
            among_workers = (plans == told).cumsum(dim=1) == 0
            return (plans == told) | (among_workers & (plans == between))
        return ~_first_workers(plans, tokenizer)

    @staticmethod
    def _not_kept(every: torch.Tensor, plans: torch.Tensor, tokenizer: Any) -> torch.Tensor:
        """The log-probability that a plan which names workers names any at all, whichever: 0 where nobody would think
        of three empty lists (they keep an earlier round's answer)."""
        told = tokenizer.convert_tokens_to_ids(TOLD)
        places = _first_workers(plans, tokenizer) & (plans != told)
        return torch.log1p(-every[places][:, told].exp().clamp(max=1 - 1e-6)).sum()


def _first_workers(plans: torch.Tensor, tokenizer: Any) -> torch.Tensor:
    """Where the first worker of each plan stands, or the end of an empty list."""
    named = tokenizer.convert_tokens_to_ids(NAMED)
    first = torch.zeros_like(plans, dtype=torch.bool)
    first[:, 1:] = plans[:, :-1] == named
    return first
