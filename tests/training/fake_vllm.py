"""A fake of TRL's `VLLMGeneration`, for machines without a GPU: the same interface, no vLLM in it.

It holds a copy of the weights, as vLLM does, which only `sync_weights` renews; it samples from that copy, and tells the
log-probabilities of what it drew, as TRL asks of vLLM: one number a token, in a list of its own.
"""

import copy
import inspect

import torch
from trl.generation.vllm_generation import VLLMGeneration

made = []
"""All of them, the last one last."""


class FakeVLLM:
    """See the module. `calls` has (prompts, num_generations, a number of the weights) of each `generate`."""

    off = 0.0
    """By how much its log-probabilities are higher than the truth."""

    def __init__(self, *args, **options):
        given = inspect.signature(VLLMGeneration.__init__).bind(
            self, *args, **options
        )  # TypeError if TRL's has changed
        self.options = given.arguments
        self.model, self.copy = self.options["model"], None
        self.syncs, self.calls = 0, []
        self.vllm_client = self
        made.append(self)

    def get_server_info(self):
        return {"model_config": {"logprobs_mode": "processed_logprobs"}}

    def sync_weights(self):
        self.copy = copy.deepcopy(self.model).eval()
        self.syncs += 1

    def generate(self, prompts, images, num_generations, profiler=None):
        assert list(inspect.signature(VLLMGeneration.generate).parameters)[1:] == [
            *("prompts", "images", "num_generations", "profiler")
        ]
        assert images is None
        assert self.copy is not None, "nothing was synchronised"
        current = all(map(torch.equal, self.copy.parameters(), self.model.parameters()))
        self.calls.append((prompts, num_generations, current))
        drawn = [self._draw(prompt) for prompt in prompts]
        ids, logprobs = [row for row, _ in drawn], [row for _, row in drawn]
        return prompts, ids, logprobs, [[[token] for token in row] for row in ids]

    @torch.no_grad()
    def _draw(self, prompt):
        ids, logprobs = list(prompt), []
        for _ in range(self.options["max_completion_length"]):
            every = (self.copy(torch.tensor([ids])).logits[0, -1] / self.options["temperature"]).log_softmax(dim=-1)
            token = int(every.exp().multinomial(1))
            ids.append(token)
            logprobs.append([float(every[token]) + self.off])
            if token == self.copy.config.eos_token_id:
                break
        return ids[len(prompt) :], logprobs
