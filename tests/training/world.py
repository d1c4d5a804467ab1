"""A world of a few thousand parameters: a model, its tokenizer, two workers, and questions that one of them answers."""

import itertools
import json
from pathlib import Path
from random import Random

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.context import WorkerRequest
from conductor_plugin.errors import PermanentError
from conductor_plugin.grading.verdict import Verdict
from conductor_plugin.plan import Plan, render_plan
from training.config import TrainConfig
from training.trainer import Sample

QUESTIONS = {
    f"q{i}": Question(id=f"q{i}", benchmark="made up", text=f"say {i}", gold=str(i), grader="text") for i in range(6)
}


async def echo(request: WorkerRequest, log: str = "") -> str:
    """Answers right: the number in the question. Each call is a line of `log`."""
    _write(log, request)
    return request.question.split()[-1]


async def fool(request: WorkerRequest, log: str = "") -> str:
    """Answers wrong."""
    _write(log, request)
    return "no"


async def lost(request: WorkerRequest) -> str:
    """Cannot be reached."""
    raise PermanentError("nobody is there", code="bad_key")


def _write(log: str, request: WorkerRequest) -> None:
    if log:
        with open(log, "a") as file:
            file.write(json.dumps([request.question, request.subtask, len(request.seen)]) + "\n")


class Exact:
    """Right where the answer is the gold."""

    async def grade(self, question: Question, answer: str) -> Verdict:
        return Verdict(outcome="right" if answer == question.gold else "wrong", extracted=answer)


def pool_file(folder: Path, *, workers: tuple[str, ...] = ("echo", "fool"), log: str = "") -> Path:
    """A pool of those workers of this module."""
    path = folder / "pool.yaml"
    entries = [
        {"name": name, "kind": f"tests.training.world:{name}", "params": {"log": log} if log else {}}
        for name in workers
    ]
    path.write_text(json.dumps({"workers": entries}))
    return path


def config(pool: Path, **changes: object) -> TrainConfig:
    """Two iterations of 2 questions x 4 rollouts."""
    grpo = {"iterations": 2, "questions": 2, "rollouts": 4, "lr": 1e-3, "batch": 4, "max_completion_tokens": 120}
    return TrainConfig.model_validate(
        {
            "model": {"kind": "pretrained", "name": "given"},
            "pool": str(pool),
            "questions": [{"name": "rg:gcd", "limit": 2}],
            "prompt": {"style": "short"},
            "gate": {"refuse": False, "samples": 4},
            "grpo": {**grpo, "save_every": 1, **changes.pop("grpo", {})},  # type: ignore[dict-item]
            **changes,
        }
    )


def save_model(folder: Path) -> Path:
    """A Llama of a few thousand parameters over bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(["<pad>", "<eos>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")
    torch.manual_seed(0)
    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(vocabulary), **size, eos_token_id=1, pad_token_id=0))
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def completion(*ids: int, subtask: str = "") -> str:
    """A plan over those workers, with instructions of their own where `subtask` has one; the last step sees all."""
    access = (((),) * len(ids))[1:] + ("all",) * bool(ids)
    subtasks = tuple(f"{subtask} {i}".strip() if subtask else "" for i in range(len(ids)))
    return render_plan(Plan(model_id=ids, subtasks=subtasks, access_list=access))


class Canned:
    """A sampler that hands out these completions in turn, whatever the model thinks."""

    def __init__(self, *texts: str) -> None:
        self.texts = itertools.cycle(texts)
        self.prompts: list[object] = []

    def __call__(self, prompts, trainer):
        self.prompts += prompts
        tokenizer = trainer.processing_class
        made = [tokenizer(next(self.texts))["input_ids"] + [tokenizer.eos_token_id] for _ in prompts]
        return Sample(tokenizer([p if isinstance(p, str) else str(p) for p in prompts])["input_ids"], made)


class Drawn(Canned):
    """One that draws plans by lot from torch's generator, as a model would."""

    def __init__(self, size: int = 2) -> None:
        super().__init__("")
        self.size = size

    def __call__(self, prompts, trainer):
        import torch

        source = Random(int(torch.randint(0, 2**31, ()).item()))
        made = [
            completion(
                *(source.randrange(self.size) for _ in range(source.randint(1, 3))), subtask=f"s{source.random()}"
            )
            for _ in prompts
        ]
        self.texts = iter(made)
        return super().__call__(prompts, trainer)
