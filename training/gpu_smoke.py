"""Does training work on this machine's GPU, and how long does a step take? `python -m training.gpu_smoke`

Five steps of GRPO in bfloat16 through `training.grpo`, on a model of 0.5B parameters that is made here (nothing is
downloaded), with the embedded pool's exact tools: 64 rollouts a step, sampled by vLLM where it is installed. First the
model is shown plans by lot for a moment, since one of random weights would write none, and no worker would be asked.

It prints the seconds of each step by phase, and the memory. Exit code 2 where there is no GPU. `--size tiny` does the
same with a few thousand parameters on the CPU, for the tests.
"""

import argparse
import importlib.util
import resource
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from conductor_plugin.pool import Pool
from training.config import Scratch, TrainConfig
from training.generation import Colocated

TOOLS = ("calculator", "number", "text")
QUESTIONS = ({"name": "rg:gcd", "limit": 24}, {"name": "rg:chain_sum", "limit": 24})
SIZES: Mapping[str, Scratch] = {
    "full": Scratch(hidden=1280, layers=24, heads=20, vocabulary=640),
    "tiny": Scratch(hidden=32, layers=1, heads=2, vocabulary=400),
}
SHOWN: Mapping[str, int] = {"full": 60, "tiny": 40}  # batches of 32 plans by lot
PHASES = ("generate", "workers", "train")


def settings(model: Path, size: str, steps: int) -> TrainConfig:
    """The run: 4 questions x 16 rollouts a step, and for the tiny model 2 x 4."""
    questions, rollouts = (4, 16) if size == "full" else (2, 4)
    beside = Colocated(vllm="colocate", memory=0.3, context=1024)
    return TrainConfig.model_validate(
        {
            "model": {"kind": "pretrained", "name": str(model)},
            "only": TOOLS,
            "questions": QUESTIONS,
            "prompt": {"style": "short"},
            "gate": {"refuse": False, "samples": rollouts},
            "grpo": {
                "iterations": steps,
                "questions": questions,
                "rollouts": rollouts,
                "lr": 1e-5,
                "max_completion_tokens": 96,
                "bf16": True,
                "batch": 8,
                "save_every": steps + 1,  # its checkpoint would be 6 GB
            },
            "guard": {"failed_share": None},
            "generation": beside if size == "full" and importlib.util.find_spec("vllm") else None,
        }
    )


def make(folder: Path, size: str, config: TrainConfig, pool: Pool) -> int:
    """Model and tokenizer, shown plans by lot, in the folder; how many parameters it has."""
    import torch

    from training.cold_start import WHOLE, Examples, batch_of
    from training.questions import load_questions
    from training.scratch import make_model, make_tokenizer

    source = Random("gpu smoke")
    examples = Examples(config, pool, list(load_questions(config.questions).train.values()))
    drawn = [examples.draw(source, 1) for _ in range(64)]
    texts = [text for prompt, plans in drawn for text in (prompt, *plans)]
    tokenizer = make_tokenizer(texts, SIZES[size].vocabulary, WHOLE)
    device = "cuda" if torch.cuda.is_available() and size == "full" else "cpu"
    model = make_model(SIZES[size], tokenizer, seed=0).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4 if size == "full" else 1e-2)
    for _ in range(SHOWN[size]):
        rows, seen, kept = batch_of(tokenizer, examples, source, 32)
        ids, mask = rows.to(device), seen.to(device)
        labels = ids.masked_fill(mask == 0, -100)
        labels[:, :-kept] = -100
        with torch.autocast(device, torch.bfloat16):
            loss = model(ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def phases(figures: Mapping[str, float]) -> dict[str, float]:
    """Seconds of a step by phase. `train` is what is neither sampling nor waiting for workers and graders: scoring,
    backward passes, the optimiser, and the way of the weights to vLLM."""
    spent = {phase: figures[f"seconds/{phase}"] for phase in PHASES[:2]}
    return {**spent, "train": figures["seconds/step"] - sum(spent.values())}


def memory() -> str:
    """The most memory that was used, in GB."""
    import torch

    if not torch.cuda.is_available():
        return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9:.2f} GB of this process"
    free, whole = torch.cuda.mem_get_info()
    allocated = torch.cuda.max_memory_allocated() / 1e9
    return (
        f"{allocated:.1f} GB by torch; in use at the end, with vLLM: {(whole - free) / 1e9:.1f} of {whole / 1e9:.0f} GB"
    )


def smoke(folder: Path, size: str, steps: int) -> None:
    """Make the model, train it, and print what it took."""
    import torch

    from training.grpo import train, training_pool

    config = settings(folder / "start", size, steps)
    count = make(folder / "start", size, config, training_pool(config))
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "the CPU"
    sampler = "vLLM beside the trainer" if config.generation else "the model itself"
    print(f"{count / 1e9:.6f}B parameters on {where}, bfloat16, sampled by {sampler}")
    print("step  " + "  ".join(f"{phase:>8}" for phase in PHASES) + "  reward  parse rate")

    def told(step: int, figures: Mapping[str, float]) -> None:
        spent = "  ".join(f"{seconds:>7.2f}s" for seconds in phases(figures).values())
        print(f"{step:>4}  {spent}  {figures['reward_mean']:>6.3f}  {figures['parse_rate']:.3f}", flush=True)

    train(config, folder / "run", on_step=told)
    print(f"peak memory: {memory()}")


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module. The exit code."""
    parser = argparse.ArgumentParser(prog="python -m training.gpu_smoke", description=__doc__.partition("\n")[0])
    parser.add_argument("--size", choices=sorted(SIZES), default="full")
    parser.add_argument("--steps", type=_count, default=5)
    options: Any = parser.parse_args(arguments)
    if options.size == "full" and not _has_gpu():
        print("there is no GPU here that torch can use; --size tiny does the same on the CPU", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="conductor-gpu-smoke-") as folder:
        smoke(Path(folder), options.size, options.steps)
    return 0


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no count of at least 1")
    return int(text)


def _has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())


if __name__ == "__main__":
    sys.exit(main())
