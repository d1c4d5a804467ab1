"""Rehearsing the cold start while GRPO runs, so that what a lesson is not about stays as it was.

Adam moves a weight by its gradient's direction more than by its size, so that even what no reward speaks of drifts:
after a lesson of one-step plans, two plans of three have one step where they may have three, and second steps ask the
same worker as first ones (training/README.md, runs d13 and s1). Plans by lot, as in the cold start, hold that in place.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Any

import torch

from training.cold_start import TOLD, Drawn, batch_of
from training.fast.logps import shared_logits
from training.lesson import Kept

SPACE = "\u0120"
"""How tokens of bytes write a space."""
LISTED = re.compile(r"model_id = \[((?:\d+(?:, )?)*)\]")
"""The workers that a plan names."""


@dataclass(frozen=True)
class Rehearsal:
    """The loss of plans by lot, of those of their tokens that a lesson is not about, times `weight`.

    A rewarded word has about a tenth of its completion's loss, a rehearsed one all of its own: 1 holds what is kept,
    0.05 slows what pulls at it. `size` is the number of plans an iteration, 8 for each prompt.
    """

    examples: Drawn
    kept: Kept
    weight: float = 1.0
    seed: int = 0
    size: int = 64

    def loss(self, model: Any, tokenizer: Any, iteration: int) -> torch.Tensor:
        """In nats a token, times `weight`; the plans are those of the iteration, also after a resume."""
        source = Random(f"rehearsal/{self.seed}/{iteration}")
        ids, mask, width = batch_of(tokenizer, self.examples, source, self.size)
        logits, which = shared_logits(model, ids, mask, width)
        every = logits.log_softmax(dim=-1)
        plans, own = ids[:, -width:], mask[:, -width:].bool()
        log_probs = every[which, plans[own]]
        first, ends = workers_of(plans, tokenizer)
        chosen = self.chosen(first, ends)[own]
        whole = (log_probs * chosen).sum()
        if self.kept == "length" and (told := tokenizer.get_vocab().get(TOLD)) is not None:
            whole = whole + _named_at_all(every[which[(first & (plans != told))[own]]], told)
        return -self.weight * whole / chosen.sum()

    def chosen(self, first: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """Which tokens are rehearsed, of plans in which `workers_of` has found these."""
        if self.kept == "length":
            return ends
        if self.kept == "all but the first worker":
            return ~first
        begun = first.cumsum(dim=1) > first
        return begun & (ends.flip(1).cumsum(dim=1).flip(1) > 0)


def _named_at_all(log_probs: torch.Tensor, told: int) -> torch.Tensor:
    """The log-probability that plans which name workers name any at all, whichever: 0 where nobody would think of three
    empty lists (they keep an earlier round's answer). `told` ends such a list; tokenizers without it know no such plan.
    """
    return torch.log1p(-log_probs[:, told].exp().clamp(max=1 - 1e-6)).sum()


def workers_of(plans: torch.Tensor, tokenizer: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Where plans [rows, width] name their first worker, or none; and what follows each worker: another, or the end.

    Tokenizers cut plans differently: it is the token with that character.
    """
    first, ends = torch.zeros_like(plans, dtype=torch.bool), torch.zeros_like(plans, dtype=torch.bool)
    for row, ids in enumerate(plans.tolist()):
        pieces = tokenizer.convert_ids_to_tokens(ids)
        starts = list(accumulate(map(len, pieces), initial=0))
        found = LISTED.match("".join(pieces).replace(SPACE, " "))
        if found is None:
            raise ValueError("a rehearsed plan is written as render_plan writes it")
        begin = found.start(1)
        first[row, bisect_right(starts, begin) - 1] = True
        for end in [begin + number.end() for number in re.finditer(r"\d+", found[1])] or [begin]:
            ends[row, bisect_right(starts, end) - 1] = True
    return first, ends
