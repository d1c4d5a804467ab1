"""Log-probabilities of completions whose prompts repeat: every prompt goes through the model once, padding never.

A prompt of 90 tokens with 24 completions of 30 is 810 tokens so, instead of 2,880; and where the longest of 32
completions has three times their mean, two of three places would be padding. The figures are those of TRL's forward
(tests/training/test_fast.py); gradients flow through the shared prompt too. Imports torch.
"""

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from training.fast.llama import causal, check, forward, positions_of


def shared_log_probs(
    model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, kept: int, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """A `trainer.LogProbs`: log-probabilities and entropies, [rows, kept] each, of the last `kept` tokens; 0 where
    there is padding.
    """
    own = attention_mask[:, -kept:].bool()
    log_all = (shared_logits(model, input_ids, attention_mask, kept) / temperature).log_softmax(dim=-1)
    entropies = -(log_all.exp() * log_all).sum(dim=-1)
    log_probs = log_all.gather(-1, input_ids[:, -kept:][own][:, None])[:, 0]
    return _placed(log_probs, own), _placed(entropies, own)


def shared_logits(model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, kept: int) -> torch.Tensor:
    """[tokens, vocabulary]: what predicts each token that is no padding among the last `kept` of rows
    [prompt | completion], row by row.
    """
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
    own = attention_mask[:, cut:].bool()
    going = own[:, 1:]  # the tokens before these predict them; the last one of a row predicts nothing
    seen = torch.cat([mask[group].bool()[:, None, None].expand(-1, 1, kept - 1, -1), causal(going)], dim=-1)

    def go_on(layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        before, worth = cache[layer]
        query, key, value = (_placed(x[0].transpose(0, 1), going).transpose(1, 2) for x in (query, key, value))
        every = torch.cat([before[group], key], dim=2), torch.cat([worth[group], value], dim=2)
        found = scaled_dot_product_attention(query, *every, attn_mask=seen)
        return found.transpose(1, 2)[going].transpose(0, 1)[None]

    positions = mask.sum(dim=1)[group, None] + torch.arange(kept - 1, device=own.device)
    rest = forward(bare, input_ids[:, cut:-1][going][None], positions[going][None], go_on)[0]
    hidden = torch.cat([first[group, None], _placed(rest, going)], dim=1)
    return bare.lm_head(hidden[own])


def _placed(values: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    """[rows, width, ...]: the values [tokens, ...] at the places [rows, width] that are true, 0 elsewhere."""
    placed = values.new_zeros((*where.shape, *values.shape[1:]))
    placed[where] = values
    return placed
