"""Tokens a second of the sampler that reads what a group shares once, against plain `generate`, on the two-core model.

One iteration's worth at temperature 1: 8 prompts of the families, 32 completions each. Of the shipped cold start, which
is where GRPO begins; of random weights, whose completions share nothing but the prompt and end where their limit is;
and of models in folders that are named: `python -m tests.performance.sampling runs/two-cores/seed-0/all/model`. Bar: at
least 5x.
"""

import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from training import learn
from training.config import load_config
from training.families import questions, world_pool
from training.fast.sampler import sample
from training.questions import prompt_of, request_of
from training.scratch import make_model

ROUNDS, GROUPS, ROLLOUTS = 5, 8, 32
COLD_START = Path(learn.__file__).parent / "shipped" / "cold-start"


def main() -> None:
    """Print medians and their ratio, a line a model."""
    torch.set_num_threads(1)
    config = load_config("two-cores")
    assert config.model.scratch
    tokenizer = AutoTokenizer.from_pretrained(COLD_START)
    compare("random weights", make_model(config.model.scratch, tokenizer, 0), tokenizer, 32)
    for folder in (COLD_START, *map(Path, sys.argv[1:])):
        model = AutoModelForCausalLM.from_pretrained(folder)
        compare(str(folder), model, AutoTokenizer.from_pretrained(folder), config.grpo.max_completion_tokens)


def compare(name: str, model: Any, tokenizer: Any, most: int) -> None:
    """Both in turn, after a round that is not counted."""
    config, asked = load_config("two-cores"), questions("held-out", 1)[:GROUPS]
    texts = [
        prompt_of(request_of(q, world_pool(), config.rules), config.prompt) for q in asked for _ in range(ROLLOUTS)
    ]
    tokenizer.padding_side = "left"
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    prompts = [tokenizer(text)["input_ids"] for text in texts]
    model.eval()

    def plain() -> int:
        with torch.inference_mode():
            ids = model.generate(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                max_new_tokens=most,
                do_sample=True,
            )
        made = ids[:, batch["input_ids"].shape[1] :]
        return int((made != tokenizer.pad_token_id).sum())

    def fast() -> int:
        return sum(map(len, sample(model, prompts, most=most, end=tokenizer.eos_token_id)))

    speeds: dict[str, list[float]] = {"generate": [], "sample": []}
    for i in range(ROUNDS + 1):
        for contestant, run in (("generate", plain), ("sample", fast)):
            started = time.process_time()
            tokens = run()
            if i:
                speeds[contestant].append(tokens / (time.process_time() - started))
    medians = {contestant: sorted(values)[len(values) // 2] for contestant, values in speeds.items()}
    shown = ", ".join(f"{contestant} {value:.0f} tokens/s" for contestant, value in medians.items())
    print(f"{name}: {shown}: {medians['sample'] / medians['generate']:.1f}x", flush=True)


if __name__ == "__main__":
    main()
