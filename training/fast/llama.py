"""A Llama's forward over tokens that go on from a cache, by the model's own weights. Imports torch.

Shapes: R rows, N new tokens, P cached positions, h heads of k keys, d numbers a head. The forward is written out so
that rows can share a cache, and so that one without gradients can have its weights put together.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import linear
from transformers.models.llama.modeling_llama import rotate_half

Attend = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""(layer, query [R, h, N, d], key and value [R, k, N, d]) of the new tokens -> what they attend to, as the query."""
Part = Callable[[torch.Tensor], torch.Tensor]


class Layer(NamedTuple):
    """A layer's parts, each a function of [R, N, numbers]; `project` gives queries, keys, values in a row."""

    normed: Part
    project: Part
    out: Part
    normed_again: Part
    mlp: Part


def check(model: Any) -> Any:
    """The model itself, in whose layers its adapter is. ValueError if it is no Llama without biases."""
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    config = bare.config
    if config.model_type != "llama" or config.attention_bias or config.mlp_bias:
        raise ValueError("the fast hooks know Llama models without biases; leave them out for this one")
    return bare


def layers_of(model: Any) -> list[Layer]:
    """The layers as they are, for training."""

    def projected(attention: Any) -> Part:
        return lambda x: torch.cat([attention.q_proj(x), attention.k_proj(x), attention.v_proj(x)], dim=-1)

    return [
        Layer(
            layer.input_layernorm,
            projected(layer.self_attn),
            layer.self_attn.o_proj,
            layer.post_attention_layernorm,
            layer.mlp,
        )
        for layer in model.model.layers
    ]


def merged_layers(model: Any) -> list[Layer]:
    """The layers for sampling: an adapter is added to its weights, as a norm's are to those that follow it, and weights
    of one input are one. A copy of all of them, which later steps of training do not change.
    """
    return [_merged(layer) for layer in model.model.layers]


def _merged(layer: Any) -> Layer:
    attention, mlp = layer.self_attn, layer.mlp
    first, second = layer.input_layernorm, layer.post_attention_layernorm
    inputs = torch.cat([weight_of(part) for part in (attention.q_proj, attention.k_proj, attention.v_proj)])
    inputs = inputs * first.weight
    gated = torch.cat([weight_of(mlp.gate_proj), weight_of(mlp.up_proj)]) * second.weight
    out, down = weight_of(attention.o_proj), weight_of(mlp.down_proj)

    def scaled(norm: Any) -> Part:
        return lambda x: x * (x.square().mean(dim=-1, keepdim=True) + norm.variance_epsilon).rsqrt_()

    def fed(x: torch.Tensor) -> torch.Tensor:
        gate, up = linear(x, gated).chunk(2, dim=-1)
        return linear(mlp.act_fn(gate).mul_(up), down)

    return Layer(scaled(first), lambda x: linear(x, inputs), lambda x: linear(x, out), scaled(second), fed)


def weight_of(module: Any) -> torch.Tensor:
    """A linear module's weight [out, in], with the adapter on it where PEFT has put one."""
    if not hasattr(module, "get_delta_weight"):
        return module.weight
    if module.merged or module.disable_adapters:
        raise ValueError("the fast hooks know adapters that are in use and not merged into their model")
    weight: torch.Tensor = module.get_base_layer().weight
    for name in module.active_adapters:
        weight = weight + module.get_delta_weight(name)
    return weight


def forward(
    model: Any, layers: Sequence[Layer], ids: torch.Tensor, positions: torch.Tensor, attend: Attend
) -> torch.Tensor:
    """The last hidden states [R, N, hidden] of new tokens `ids` [R, N] at `positions` [R, N]."""
    inner, numbers = model.model, model.model.layers[0].self_attn.head_dim
    heads, keys = model.config.num_attention_heads, model.config.num_key_value_heads
    hidden = inner.embed_tokens(ids)
    cos, sin = (part[:, None] for part in inner.rotary_emb(hidden, position_ids=positions))
    for number, layer in enumerate(layers):
        parts = layer.project(layer.normed(hidden)).view(*ids.shape, heads + 2 * keys, numbers).transpose(1, 2)
        turned, value = parts.split([heads + keys, keys], dim=1)
        query, key = (turned * cos + rotate_half(turned) * sin).split([heads, keys], dim=1)
        seen = attend(number, query, key, value)
        hidden = hidden + layer.out(seen.transpose(1, 2).reshape(*ids.shape, heads * numbers))
        hidden = hidden + layer.mlp(layer.normed_again(hidden))
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
