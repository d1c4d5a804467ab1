"""A Llama's forward over tokens that go on from a cache, by the model's own weights. Imports torch.

Shapes: R rows, N new tokens, P cached positions, h heads, d numbers a head. Every module of the model is used as it
is; only attention is written out, so that the cache can be shared by rows.
"""

from collections.abc import Callable
from typing import Any

import torch
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb, repeat_kv

Attend = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""(layer, query, key, value) of the new tokens, each [R, h, N, d] -> what they attend to, of the same shape."""


def check(model: Any) -> Any:
    """The model itself, with its adapter in its layers where it has one. ValueError if it is no Llama."""
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    if bare.config.model_type != "llama":
        raise ValueError("the fast hooks know Llama models; leave them out for this one")
    return bare


def forward(model: Any, ids: torch.Tensor, positions: torch.Tensor, attend: Attend) -> torch.Tensor:
    """The last hidden states [R, N, hidden] of new tokens `ids` [R, N] at `positions` [R, N]."""
    inner = model.model
    hidden = inner.embed_tokens(ids)
    rotation = inner.rotary_emb(hidden, position_ids=positions)
    for number, layer in enumerate(inner.layers):
        x = layer.input_layernorm(hidden)
        attention = layer.self_attn
        shape = (*x.shape[:-1], -1, attention.head_dim)
        query, key, value = (
            project(x).view(shape).transpose(1, 2) for project in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        query, key = apply_rotary_pos_emb(query, key, *rotation)
        shared = attention.num_key_value_groups  # heads that share a key
        seen = attend(number, query, repeat_kv(key, shared), repeat_kv(value, shared))
        hidden = hidden + attention.o_proj(seen.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))
        hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
    return inner.norm(hidden)


def positions_of(mask: torch.Tensor) -> torch.Tensor:
    """Positions of tokens that are padded on the left: each row's first token has 0."""
    return (mask.cumsum(dim=1) - 1).clamp(min=0)


def causal(mask: torch.Tensor) -> torch.Tensor:
    """[R, 1, N, N]: who may be seen, for a mask [R, N] of tokens. A padding sees itself: a row of nothing is nan."""
    size = mask.shape[1]
    below = torch.ones(size, size, dtype=torch.bool, device=mask.device).tril()
    itself = torch.eye(size, dtype=torch.bool, device=mask.device)
    return ((below & mask[:, None, :].bool()) | itself)[:, None]
