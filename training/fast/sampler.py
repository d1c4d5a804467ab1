"""Sampling that reads each prompt once, keeps keys and values in one place, and lets go of rows that have ended.

On a model of a few million parameters a step of `generate` is mostly Python and copies of the cache; this is not.
Greedy completions are those of `generate` (tests/training/test_fast.py).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from training.sampled import Sample

if TYPE_CHECKING:
    import torch

    from training.questions import Prompt
    from training.trainer import ConductorTrainer


FULL = 0.9
"""Of all nodes, the share that has to be in use; below it, they are made fewer."""


class FastSampler:
    """A `trainer.Sampler` for a small Llama. With `seed`, draws of its own; else torch's."""

    def __init__(self, generator: "torch.Generator | None" = None) -> None:
        self.generator = generator

    def __call__(self, prompts: "list[Prompt]", trainer: "ConductorTrainer") -> Sample:
        """One completion a prompt, at the trainer's temperature."""
        model = trainer.accelerator.unwrap_model(trainer.model)
        encode = trainer.processing_class
        known = {prompt: encode(prompt)["input_ids"] for prompt in dict.fromkeys(map(_text, prompts))}
        ids = [known[_text(prompt)] for prompt in prompts]
        completions = sample(
            model,
            ids,
            most=trainer.max_completion_length,
            end=encode.eos_token_id,
            temperature=trainer.temperature,
            generator=self.generator,
        )
        return Sample(ids, completions)


def _text(prompt: "Prompt") -> str:
    if not isinstance(prompt, str):
        raise ValueError("the fast sampler reads prompts of one text, as the style short makes them")
    return prompt


def sample(
    model: Any,
    prompts: Sequence[Sequence[int]],
    *,
    most: int,
    end: int,
    temperature: float = 1.0,
    generator: "torch.Generator | None" = None,
) -> list[list[int]]:
    """One completion for each prompt (token ids), equal ones read once; up to `most` tokens, `end` included.

    Temperature 0 is greedy.
    """
    import torch

    from training.fast.llama import check

    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            return _Batch(check(model), prompts, most, generator).run(end, temperature)
    finally:
        model.train(was_training)


class _Batch:
    """Rows that grow together, as leaves of a tree: rows that have written the same so far are one node, which goes
    through the model once.

    A layer's cache is the prompts' keys and values [G, keys, prompt, numbers], once for each prompt, and the nodes' own
    ones [completion, N, keys, numbers]. Nodes stand in the order of their prompts. One that no row is at goes on
    unheard until there are many of them.
    """

    def __init__(
        self, model: Any, prompts: Sequence[Sequence[int]], most: int, generator: "torch.Generator | None"
    ) -> None:
        import torch

        from training.fast.llama import merged_layers

        self.layers = merged_layers(model)
        self.model, self.most, self.generator = model, most, generator
        known = {prompt: group for group, prompt in enumerate(dict.fromkeys(map(tuple, prompts)))}
        self.rows = torch.arange(len(prompts))
        self.node = torch.tensor([known[tuple(prompt)] for prompt in prompts])  # where each of the rows is
        self.group = torch.arange(len(known))  # which prompt each node goes on from
        self.logits = self._read(list(known))
        self.own = [(keys[:, :, 0][None], values[:, :, 0][None]) for keys, values in self.read]

    def _read(self, prompts: "list[tuple[int, ...]]") -> "torch.Tensor":
        """Every prompt once, padded on the left: what may come next, [G, vocabulary]."""
        import torch
        from torch.nn.functional import scaled_dot_product_attention

        from training.fast.llama import causal, forward, positions_of

        width = max(len(prompt) for prompt in prompts)
        ids = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        seen = causal(mask)
        self.read: list[tuple[torch.Tensor, torch.Tensor]] = []

        def attend(layer: int, query: "torch.Tensor", key: "torch.Tensor", value: "torch.Tensor") -> "torch.Tensor":
            self.read.append((key, value))
            return scaled_dot_product_attention(query, key, value, attn_mask=seen, enable_gqa=True)

        logits: torch.Tensor = self.model.lm_head(
            forward(self.model, self.layers, ids, positions_of(mask), attend)[:, -1]
        )
        self.unseen = ~mask.bool()[:, None, None]
        self.length = mask.sum(dim=1)
        return logits

    def run(self, end: int, temperature: float) -> list[list[int]]:
        """All completions, in the prompts' order."""
        done: list[list[int]] = [[] for _ in self.rows]
        for step in range(self.most):
            tokens = self._pick(temperature)
            for row, token in zip(self.rows.tolist(), tokens.tolist(), strict=True):
                done[row].append(token)
            going = tokens != end
            if step == self.most - 1 or not going.any():
                break
            self.rows, self.node = self.rows[going], self.node[going]
            self._advance(self._branch(tokens[going], step), step)
        return done

    def _pick(self, temperature: float) -> "torch.Tensor":
        """A token for each row."""
        import torch

        if temperature == 0:
            return self.logits.argmax(dim=-1)[self.node]
        # `multinomial` draws a number for every token of the vocabulary; one a row is enough.
        heaped = torch.softmax(self.logits.float() / temperature, dim=-1).cumsum(dim=-1)[self.node]
        drawn = torch.rand(len(heaped), 1, generator=self.generator) * heaped[:, -1:]
        return torch.searchsorted(heaped, drawn, right=True)[:, 0].clamp(max=heaped.shape[1] - 1)

    def _branch(self, tokens: "torch.Tensor", step: int) -> "torch.Tensor":
        """The rows go on by these tokens: the token that leads to each node, after `step` cached ones."""
        vocabulary = self.logits.shape[1]
        ways, at = (self.node * vocabulary + tokens).unique(return_inverse=True)
        before, chosen = ways // vocabulary, ways % vocabulary
        apart = bool((before[1:] == before[:-1]).any())
        if step and not apart and len(before) >= FULL * len(self.group):
            self.node = before[at]
            return chosen.new_zeros(len(self.group)).index_copy(0, before, chosen)
        self.node = at
        self._regroup(before, step)
        return chosen

    def _regroup(self, before: "torch.Tensor", step: int) -> None:
        """One node for each of the nodes `before`, some of which go on in several ways and some in none."""
        import torch

        groups, self.group = self.group[before].unique(return_inverse=True)
        if len(groups) < len(self.length):
            self.read = [(keys[groups], values[groups]) for keys, values in self.read]
            self.unseen, self.length = self.unseen[groups], self.length[groups]
        self.own = [(self._room(keys, before, step), self._room(values, before, step)) for keys, values in self.own]
        counts = torch.bincount(self.group)
        self.places = int(counts.max())
        rank = torch.arange(len(self.group)) - (counts.cumsum(dim=0) - counts)[self.group]
        self.place = self.group * self.places + rank

    def _room(self, cached: "torch.Tensor", before: "torch.Tensor", step: int) -> "torch.Tensor":
        """What nodes had cached, for those that go on from them, with room for all tokens to come."""
        import torch

        room = cached.new_empty((self.most, len(before), *cached.shape[2:]))
        torch.index_select(cached[:step], 1, before, out=room[:step])
        return room

    def _advance(self, tokens: "torch.Tensor", step: int) -> None:
        """One more token at every node."""
        import torch

        from training.fast.llama import forward

        def attend(layer: int, query: "torch.Tensor", key: "torch.Tensor", value: "torch.Tensor") -> "torch.Tensor":
            (read_keys, read_values), own = self.read[layer], self.own[layer]
            own[0][step], own[1][step] = key[:, :, 0], value[:, :, 0]
            keys, values = (cached[: step + 1].permute(1, 2, 0, 3) for cached in own)
            # [N, keys, heads of a key, numbers]
            query = query.reshape(len(query), keys.shape[1], -1, query.shape[-1]) / query.shape[-1] ** 0.5
            before = (self._by_prompt(query) @ read_keys.transpose(-1, -2)).masked_fill_(self.unseen, -torch.inf)
            since = query @ keys.transpose(-1, -2)
            weights = torch.cat([self._by_node(before), since], dim=-1).softmax(dim=-1)
            early, late = weights.split([before.shape[-1], since.shape[-1]], dim=-1)
            found = self._by_node(self._by_prompt(early) @ read_values) + late @ values
            return found.view(len(query), -1, 1, found.shape[-1])

        positions = (self.length[self.group] + step)[:, None]
        hidden = forward(self.model, self.layers, tokens[:, None], positions, attend)
        self.logits = self.model.lm_head(hidden[:, 0])

    def _by_prompt(self, nodes: "torch.Tensor") -> "torch.Tensor":
        """[N, keys, heads, numbers] as [G, keys, places * heads, numbers], zero where a prompt has fewer nodes."""
        groups = len(self.length)
        placed = nodes.new_zeros((groups * self.places, *nodes.shape[1:])).index_copy_(0, self.place, nodes)
        return placed.unflatten(0, (groups, self.places)).transpose(1, 2).flatten(2, 3)

    def _by_node(self, placed: "torch.Tensor") -> "torch.Tensor":
        """`_by_prompt` undone."""
        return placed.unflatten(2, (self.places, -1)).transpose(1, 2).flatten(0, 1).index_select(0, self.place)
