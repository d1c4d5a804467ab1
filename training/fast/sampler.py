"""Sampling that reads each prompt once, keeps keys and values in one place, and lets go of rows that have ended.

On a model of a few million parameters a step of `generate` is mostly Python and copies of the cache; this is not.
Greedy completions are those of `generate` (tests/training/test_fast.py).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from training.trainer import Sample

if TYPE_CHECKING:
    import torch

    from training.questions import Prompt
    from training.trainer import ConductorTrainer


class FastSampler:
    """A `trainer.Sampler` for a small Llama. With `seed`, draws of its own; else torch's."""

    def __init__(self, generator: "torch.Generator | None" = None) -> None:
        self.generator = generator

    def __call__(self, prompts: "list[Prompt]", trainer: "ConductorTrainer") -> Sample:
        """One completion a prompt, at the trainer's temperature."""
        model = trainer.accelerator.unwrap_model(trainer.model)
        encode = trainer.processing_class
        ids = [encode(prompt)["input_ids"] for prompt in prompts]
        completions = sample(
            model,
            ids,
            most=trainer.max_completion_length,
            end=encode.eos_token_id,
            temperature=trainer.temperature,
            generator=self.generator,
        )
        return Sample(ids, completions)


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
    """Rows that grow together. `keys` and `values` are a layer's, [rows, heads, prompt + completion, numbers]."""

    def __init__(
        self, model: Any, prompts: Sequence[Sequence[int]], most: int, generator: "torch.Generator | None"
    ) -> None:
        import torch

        self.model, self.most, self.generator = model, most, generator
        unique = list(dict.fromkeys(tuple(prompt) for prompt in prompts))
        number = {prompt: i for i, prompt in enumerate(unique)}
        rows = torch.tensor([number[tuple(prompt)] for prompt in prompts])
        self.alive = torch.arange(len(prompts))
        self._read(unique, rows)

    def _read(self, unique: "list[tuple[int, ...]]", rows: "torch.Tensor") -> None:
        """The prompts, padded on the left, once each; then a copy of their cache for every row."""
        import torch
        from torch.nn.functional import scaled_dot_product_attention

        from training.fast.llama import causal, forward, positions_of

        self.width = max(len(prompt) for prompt in unique)
        ids = torch.tensor([[0] * (self.width - len(prompt)) + list(prompt) for prompt in unique])
        mask = torch.tensor([[0] * (self.width - len(prompt)) + [1] * len(prompt) for prompt in unique])
        seen = causal(mask)
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []

        def attend(layer: int, query: "torch.Tensor", key: "torch.Tensor", value: "torch.Tensor") -> "torch.Tensor":
            for cache, fresh in ((self.keys, key), (self.values, value)):
                space = fresh.new_empty(len(rows), fresh.shape[1], self.width + self.most, fresh.shape[3])
                space[:, :, : self.width] = fresh[rows]
                cache.append(space)
            return scaled_dot_product_attention(query, key, value, attn_mask=seen)

        hidden = forward(self.model, ids, positions_of(mask), attend)[:, -1]
        self.logits = self.model.lm_head(hidden)[rows]
        self.seen = torch.ones(len(rows), self.width + self.most, dtype=torch.bool)
        self.seen[:, : self.width] = mask.bool()[rows]
        self.length = mask.sum(dim=1)[rows]

    def run(self, end: int, temperature: float) -> list[list[int]]:
        """All completions, in the prompts' order."""
        import torch

        done: list[list[int]] = [[] for _ in self.alive]
        for step in range(self.most):
            tokens = self._pick(temperature)
            for row, token in zip(self.alive.tolist(), tokens.tolist(), strict=True):
                done[row].append(token)
            going = (tokens != end).nonzero()[:, 0]
            if not len(going) or step == self.most - 1:
                break
            if len(going) < len(tokens):
                self._keep(going)
                tokens = tokens[going]
            self._advance(tokens, step)
        assert isinstance(self.logits, torch.Tensor)
        return done

    def _pick(self, temperature: float) -> "torch.Tensor":
        import torch

        if temperature == 0:
            return self.logits.argmax(dim=-1)
        chances = torch.softmax(self.logits.float() / temperature, dim=-1)
        return torch.multinomial(chances, 1, generator=self.generator)[:, 0]

    def _keep(self, rows: "torch.Tensor") -> None:
        self.alive, self.seen, self.length = self.alive[rows], self.seen[rows], self.length[rows]
        self.keys = [key[rows] for key in self.keys]
        self.values = [value[rows] for value in self.values]

    def _advance(self, tokens: "torch.Tensor", step: int) -> None:
        """One more token for every row."""
        from torch.nn.functional import scaled_dot_product_attention

        from training.fast.llama import forward

        at = self.width + step
        seen = self.seen[:, None, None, : at + 1]

        def attend(layer: int, query: "torch.Tensor", key: "torch.Tensor", value: "torch.Tensor") -> "torch.Tensor":
            self.keys[layer][:, :, at] = key[:, :, 0]
            self.values[layer][:, :, at] = value[:, :, 0]
            past = self.keys[layer][:, :, : at + 1], self.values[layer][:, :, : at + 1]
            return scaled_dot_product_attention(query, *past, attn_mask=seen)

        hidden = forward(self.model, tokens[:, None], (self.length + step)[:, None], attend)
        self.logits = self.model.lm_head(hidden[:, 0])
