"""Tokens a second of the sampler that reads a group's prompt once, against plain `generate`, on the two-core model.

One iteration's worth at temperature 1: 8 prompts of the families, 32 completions each. The weights are random, so that
completions end where their limit is; an end token is drawn once in some hundred. Bar: at least 5x.
"""

import time

import torch

from training.cold_start import WHOLE
from training.config import load_config
from training.families import questions, world_pool
from training.fast.sampler import sample
from training.questions import prompt_of, request_of
from training.scratch import make_model, make_tokenizer

ROUNDS, GROUPS, ROLLOUTS, MOST = 5, 8, 32, 32


def main() -> None:
    """Print medians and their ratio."""
    torch.set_num_threads(1)
    config = load_config("two-cores")
    assert config.model.scratch
    asked = questions("held-out", 1)[:GROUPS]
    texts = [prompt_of(request_of(q, world_pool(), config.rules), config.prompt) for q in asked]
    tokenizer = make_tokenizer(map(str, texts), config.model.scratch.vocabulary, WHOLE)
    model = make_model(config.model.scratch, tokenizer, 0).eval()
    prompts = [tokenizer(text)["input_ids"] for text in texts for _ in range(ROLLOUTS)]
    tokenizer.padding_side = "left"
    batch = tokenizer([text for text in texts for _ in range(ROLLOUTS)], padding=True, return_tensors="pt")

    def plain() -> int:
        with torch.inference_mode():
            ids = model.generate(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                max_new_tokens=MOST,
                do_sample=True,
            )
        made = ids[:, batch["input_ids"].shape[1] :]
        return int((made != tokenizer.pad_token_id).sum())

    def fast() -> int:
        return sum(map(len, sample(model, prompts, most=MOST, end=tokenizer.eos_token_id)))

    speeds: dict[str, list[float]] = {"generate": [], "sample": []}
    for i in range(ROUNDS + 1):
        for name, contestant in (("generate", plain), ("sample", fast)):
            started = time.process_time()
            tokens = contestant()
            if i:
                speeds[name].append(tokens / (time.process_time() - started))
    medians = {name: sorted(values)[len(values) // 2] for name, values in speeds.items()}
    print(", ".join(f"{name} {value:.0f} tokens/s" for name, value in medians.items()), end=": ")
    print(f"{medians['sample'] / medians['generate']:.1f}x")


if __name__ == "__main__":
    main()
