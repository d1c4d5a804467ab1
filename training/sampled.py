"""What is sampled for an iteration's rows, and where torch's generators stood then: what the tape keeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Sample:
    """Completions as token ids, of the prompts' token ids; log-probabilities only where the sampler's own differ."""

    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    logprobs: list[list[float]] | None = None


class Sampled:
    """What is sampled for an iteration's rows, filled in as it comes."""

    def __init__(self, size: int, taped: Mapping[str, Any]) -> None:
        self.prompt_ids: list[list[int]] = taped.get("prompt_ids", [[]] * size)
        self.completion_ids: list[list[int]] = taped.get("completion_ids", [[]] * size)
        self.logprobs: list[list[float] | None] = taped.get("logprobs", [None] * size)

    def put(self, places: Sequence[int], sample: Sample) -> None:
        """Fill in these rows."""
        for k, i in enumerate(places):
            self.prompt_ids[i] = list(sample.prompt_ids[k])
            self.completion_ids[i] = list(sample.completion_ids[k])
            self.logprobs[i] = list(sample.logprobs[k]) if sample.logprobs else None

    def as_json(self) -> dict[str, Any]:
        """For the tape; `Sampled(size, …)` reads it."""
        return {"prompt_ids": self.prompt_ids, "completion_ids": self.completion_ids, "logprobs": self.logprobs}


def random_state() -> list[str]:
    """Where torch's generators stand, so that a replayed iteration leaves them as it did when it was sampled.

    Of the GPUs, this process's own: asking for the others would take memory on each of them.
    """
    states = [torch.get_rng_state()]
    if torch.cuda.is_available():
        states.append(torch.cuda.get_rng_state())
    return [state.numpy().tobytes().hex() for state in states]


def set_random_state(states: Sequence[str]) -> None:
    """Have them stand there again."""
    first, *others = (torch.tensor(list(bytes.fromhex(state)), dtype=torch.uint8) for state in states)
    torch.set_rng_state(first)
    for state in others:
        torch.cuda.set_rng_state(state)
