"""Log-probabilities of completions whose prompts repeat: every prompt goes through the model once.

A prompt of 90 tokens with 24 completions of 30 is 810 tokens so, instead of 2,880. The figures are those of TRL's
forward (tests/training/test_fast.py); gradients flow through the shared prompt too. Imports torch.
"""

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from training.fast.llama import causal, check, forward, positions_of


def shared_log_probs(
    model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, kept: int, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """A `trainer.LogProbs`: log-probabilities and entropies, [rows, kept] each, of the last `kept` tokens."""
    logits = shared_logits(model, input_ids, attention_mask, kept) / temperature
    log_all = logits.log_softmax(dim=-1)
    entropies = -(log_all.exp() * log_all).sum(dim=-1)
    return log_all.gather(-1, input_ids[:, -kept:, None])[..., 0], entropies


def shared_logits(model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, kept: int) -> torch.Tensor:
    """[rows, kept, vocabulary]: what predicts the last `kept` tokens of rows [prompt | completion]."""
    bare = check(getattr(model, "module", model))
    cut = input_ids.shape[1] - kept
    keys = torch.cat([input_ids[:, :cut], attention_mask[:, :cut]], dim=1)
    unique, group = keys.unique(dim=0, return_inverse=True)
    ids, mask = unique[:, :cut], unique[:, cut:]
    cache: list[tuple[torch.Tensor, torch.Tensor]] = []

    def read(layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        cache.append((key, value))
        return scaled_dot_product_attention(query, key, value, attn_mask=alone)

    alone = causal(mask)
    first = forward(bare, ids, positions_of(mask), read)[:, -1]
    own = attention_mask[:, cut:]
    seen = torch.cat([mask[group].bool()[:, None, None].expand(-1, 1, kept, -1), causal(own)], dim=-1)

    def go_on(layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        before, worth = cache[layer]
        every = torch.cat([before[group], key], dim=2), torch.cat([worth[group], value], dim=2)
        return scaled_dot_product_attention(query, *every, attn_mask=seen)

    positions = mask.sum(dim=1)[group, None] + torch.arange(kept, device=own.device)
    rest = forward(bare, input_ids[:, cut:], positions, go_on)[:, :-1]
    return bare.lm_head(torch.cat([first[group, None], rest], dim=1))
