"""Log-probabilities of completions whose beginnings repeat: every prompt goes through the model once, every beginning
of a completion once, padding never.

A prompt of 90 tokens with 24 completions of 30 is at most 810 tokens so, instead of 2,880, and once a model has made up
its mind, not many more than 120. The figures are those of TRL's forward (tests/training/test_fast.py); gradients flow
through all that is shared. Imports torch.
"""

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from training.fast.llama import causal, check, forward, layers_of, positions_of


def shared_log_probs(
    model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, kept: int, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """A `trainer.LogProbs`: log-probabilities and entropies, [rows, kept] each, of the last `kept` tokens; 0 where
    there is padding.
    """
    own = attention_mask[:, -kept:].bool()
    logits, which = shared_logits(model, input_ids, attention_mask, kept)
    log_all = (logits / temperature).log_softmax(dim=-1)
    entropies = -(log_all.exp() * log_all).sum(dim=-1)
    log_probs = log_all[which, input_ids[:, -kept:][own]]
    return _placed(log_probs, own), _placed(entropies[which], own)


def shared_logits(
    model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, kept: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """What every distinct beginning among rows [prompt | completion] predicts, [N, vocabulary]; and which of them
    predicts each token that is no padding among the last `kept`, [tokens], row by row.
    """
    bare = check(getattr(model, "module", model))
    cut = input_ids.shape[1] - kept
    keys = torch.cat([input_ids[:, :cut], attention_mask[:, :cut]], dim=1)
    unique, group = keys.unique(dim=0, return_inverse=True)
    ids, mask = unique[:, :cut], unique[:, cut:]
    cache: list[tuple[torch.Tensor, torch.Tensor]] = []

    def read(layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        cache.append((key, value))
        return scaled_dot_product_attention(query, key, value, attn_mask=alone, enable_gqa=True)

    alone = causal(mask)
    layers = layers_of(bare)
    first = forward(bare, layers, ids, positions_of(mask), read)[:, -1]
    own = attention_mask[:, cut:].bool()
    going = own[:, 1:]  # the tokens before these predict them; the last one of a row predicts nothing
    seen = torch.cat([mask[group].bool()[:, None, None].expand(-1, 1, kept - 1, -1), causal(going)], dim=-1)
    node, some = _beginnings(input_ids[:, cut:-1], group, going)

    def go_on(layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        before, worth = cache[layer]
        query, key, value = (_placed(x[0].transpose(0, 1)[node], going).transpose(1, 2) for x in (query, key, value))
        every = torch.cat([before[group], key], dim=2), torch.cat([worth[group], value], dim=2)
        found = scaled_dot_product_attention(query, *every, attn_mask=seen, enable_gqa=True)
        return found.transpose(1, 2)[going][some].transpose(0, 1)[None]

    positions = mask.sum(dim=1)[group, None] + torch.arange(kept - 1, device=own.device)
    rest = forward(bare, layers, input_ids[:, cut:-1][going][some][None], positions[going][some][None], go_on)[0]
    which = torch.cat([group[:, None], _placed(node + len(first), going)], dim=1)[own]
    return bare.lm_head(torch.cat([first, rest])), which


def _beginnings(tokens: torch.Tensor, group: torch.Tensor, going: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Which beginning each of the tokens [rows, width] that are `going` ends, numbered from 0, row by row; and for each
    beginning a place of it in that order. Rows of one `group` that have the same tokens so far have the same beginning.
    """
    at, found, ends = group, 0, [group]
    for column in tokens.T:
        _, at = (at * (int(tokens.max()) + 1) + column).unique(return_inverse=True)
        ends.append(at + found)
        found += int(at.max()) + 1
    distinct, node = torch.stack(ends, dim=1)[:, 1:][going].unique(return_inverse=True)
    some = torch.empty_like(distinct)
    some[node] = torch.arange(len(node), device=node.device)
    return node, some


def _placed(values: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    """[rows, width, ...]: the values [tokens, ...] at the places [rows, width] that are true, 0 elsewhere."""
    placed = values.new_zeros((*where.shape, *values.shape[1:]))
    placed[where] = values
    return placed
