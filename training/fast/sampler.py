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


FULL = 0.75
"""Of all places, the share that has to be in use; below it, ranks are closed."""


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
    """Rows that grow together: G prompts with K places each. A place whose row has ended goes on unheard until enough
    of them are free to close ranks.

    A layer's cache is the prompts' keys and values [G, heads, prompt, numbers], once for each prompt, and the
    completions' [G * K, heads, completion, numbers].
    """

    def __init__(
        self, model: Any, prompts: Sequence[Sequence[int]], most: int, generator: "torch.Generator | None"
    ) -> None:
        import torch

        self.model, self.most, self.generator = model, most, generator
        owners: dict[tuple[int, ...], list[int]] = {}
        for row, prompt in enumerate(prompts):
            owners.setdefault(tuple(prompt), []).append(row)
        self.rows = _places(list(owners.values()))
        self.count = len(prompts)
        first = self._read(list(owners))
        groups, places = self.rows.shape
        self.logits = first[:, None].expand(-1, places, -1).flatten(0, 1)
        self.own: list[tuple[torch.Tensor, torch.Tensor]] = []
        for keys, _ in self.read:
            shape = (groups * places, keys.shape[1], most, keys.shape[3])
            self.own.append((keys.new_empty(shape), keys.new_empty(shape)))

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
            return scaled_dot_product_attention(query, key, value, attn_mask=seen)

        logits: torch.Tensor = self.model.lm_head(forward(self.model, ids, positions_of(mask), attend)[:, -1])
        self.unseen = ~mask.bool()[:, None, None]
        self.length = mask.sum(dim=1)
        return logits

    def run(self, end: int, temperature: float) -> list[list[int]]:
        """All completions, in the prompts' order."""
        done: list[list[int]] = [[] for _ in range(self.count)]
        for step in range(self.most):
            tokens = self._pick(temperature)
            rows = self.rows.flatten()
            for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
                if row >= 0:
                    done[row].append(token)
            rows[tokens == end] = -1
            self.rows = rows.view(self.rows.shape)
            alive = int((rows >= 0).sum())
            if not alive or step == self.most - 1:
                break
            if alive < FULL * len(rows):
                tokens = tokens[self._close_ranks(step)]
            self._advance(tokens, step)
        return done

    def _pick(self, temperature: float) -> "torch.Tensor":
        import torch

        if temperature == 0:
            return self.logits.argmax(dim=-1)
        # `multinomial` draws a number for every token of the vocabulary; one a row is enough.
        heaped = torch.softmax(self.logits.float() / temperature, dim=-1).cumsum(dim=-1)
        drawn = torch.rand(len(heaped), 1, generator=self.generator) * heaped[:, -1:]
        return torch.searchsorted(heaped, drawn, right=True)[:, 0].clamp(max=heaped.shape[1] - 1)

    def _close_ranks(self, step: int) -> "torch.Tensor":
        """Fewer places, for the rows that go on after `step` cached tokens; which old places the new ones were."""
        import torch

        places = self.rows.shape[1]
        going = [[i for i, row in enumerate(group) if row >= 0] for group in self.rows.tolist()]
        groups = torch.tensor([g for g, alive in enumerate(going) if alive])
        kept = _places([alive for alive in going if alive])
        old = (groups[:, None] * places + kept.clamp(min=0)).flatten()
        self.rows = torch.where(kept >= 0, self.rows.flatten()[old].view(kept.shape), -1)
        self.read = [(keys[groups], values[groups]) for keys, values in self.read]
        self.own = [(_moved(keys, old, step), _moved(values, old, step)) for keys, values in self.own]
        self.unseen, self.length = self.unseen[groups], self.length[groups]
        return old

    def _advance(self, tokens: "torch.Tensor", step: int) -> None:
        """One more token in every place."""
        import torch

        from training.fast.llama import forward

        groups, places = self.rows.shape

        def attend(layer: int, query: "torch.Tensor", key: "torch.Tensor", value: "torch.Tensor") -> "torch.Tensor":
            (read_keys, read_values), (keys, values) = self.read[layer], self.own[layer]
            keys[:, :, step], values[:, :, step] = key[:, :, 0], value[:, :, 0]
            keys, values = keys[:, :, : step + 1], values[:, :, : step + 1]
            query = query / query.shape[-1] ** 0.5  # [G * K, heads, 1, numbers]
            heads, numbers = query.shape[1], query.shape[3]
            shared = query.view(groups, places, heads, numbers).transpose(1, 2)
            before = (shared @ read_keys.transpose(-1, -2)).masked_fill(self.unseen, -torch.inf)
            since = (query @ keys.transpose(-1, -2)).view(groups, places, heads, -1).transpose(1, 2)
            weights = torch.cat([before, since], dim=-1).softmax(dim=-1)
            width = before.shape[-1]
            late = weights[..., width:].transpose(1, 2).reshape(groups * places, heads, 1, -1)
            found = (weights[..., :width] @ read_values).transpose(1, 2).reshape(query.shape)
            return found + late @ values

        positions = (self.length + step)[:, None].expand(-1, places).reshape(-1, 1)
        hidden = forward(self.model, tokens[:, None], positions, attend)
        self.logits = self.model.lm_head(hidden[:, 0])


def _moved(cache: "torch.Tensor", rows: "torch.Tensor", used: int) -> "torch.Tensor":
    """Those rows of a cache, of which so many columns are used."""
    moved = cache.new_empty((len(rows), *cache.shape[1:]))
    moved[:, :, :used] = cache[rows, :, :used]
    return moved


def _places(groups: Sequence[Sequence[int]]) -> "torch.Tensor":
    """[groups, places]: the groups' members, and -1 where a group has fewer than the largest."""
    import torch

    most = max(len(group) for group in groups)
    return torch.tensor([[*group, *[-1] * (most - len(group))] for group in groups])
