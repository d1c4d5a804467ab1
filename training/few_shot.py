"""What a one-step example in the prompt does to the length of plans: `python -m training.few_shot`.

SmolLM2 as it is, the smallest language model here, is asked to conduct the pool of the proof with the whole prompt,
once with the default examples, of which one has a single step, and once with those of several steps alone.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conductor_plugin.evaluation.tables import Cell, markdown_grid
from conductor_plugin.plan import PlanRules
from conductor_plugin.planners.manifest import PromptSettings
from conductor_plugin.workers.local import weights
from training.before import is_valid
from training.config import Rules
from training.families import TRAINED, questions, world_pool
from training.fast.sampler import sample
from training.learn import use_threads
from training.questions import prompt_of, request_of
from training.reward import written_length

SETS = {
    "with one of one step": "default",
    "of several steps alone": str(Path(__file__).parent / "prompts/several-steps.md"),
}
MOST = 192
"""Tokens of a completion."""
TEMPERATURE = 0.7


def completions(model: Any, tokenizer: Any, chat: Any, count: int, generator: Any) -> list[str]:
    """So many samples for one prompt, which is read once."""
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True)["input_ids"]
    made = sample(
        model, [ids] * count, most=MOST, end=tokenizer.eos_token_id, temperature=TEMPERATURE, generator=generator
    )
    texts: list[str] = tokenizer.batch_decode(made, skip_special_tokens=True)
    return texts


HEADER = ("examples", "completions", "valid", "with a list", "mean steps", "1", "2", "3", "4")


def line(name: str, texts: Sequence[str], rules: PlanRules) -> list[Cell]:
    """A row of the table: lengths as written, of all completions that have a list at all."""
    lengths = Counter(length for text in texts if (length := written_length(text)))
    total = lengths.total() or 1
    shares = [lengths[n] / total for n in range(1, 5)]
    mean = sum(length * count for length, count in lengths.items()) / total
    valid = sum(is_valid(text, rules) for text in texts) / len(texts)
    return [name, len(texts), valid, lengths.total(), mean, *shares]


def main(arguments: Sequence[str] | None = None) -> None:
    """`python -m training.few_shot`."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", type=int, default=16, help="of each of 12 questions and each set")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args(arguments)
    use_threads(given.threads)
    model = AutoModelForCausalLM.from_pretrained(weights(), dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(weights())
    pool, asked = world_pool(), questions("held-out", 1, TRAINED)
    rows = []
    for name, few_shot in SETS.items():
        generator, texts = torch.Generator().manual_seed(0), []
        for question in asked:
            request = request_of(question, pool, Rules())
            chat = prompt_of(request, PromptSettings(few_shot=few_shot))
            texts += completions(model, tokenizer, chat, given.samples, generator)
        rows.append(line(name, texts, request.rules))
    print(markdown_grid(HEADER, rows, digits=2))


if __name__ == "__main__":
    main()
