"""Four specialists of SmolLM2, a pilot: does a small language model learn what no tool here can answer?

`python -m training.specialists`: for each of four families of reasoning-gym, an adapter is taught the answers alone
(supervised, LoRA on the upper layers). Then all of them, and the model as it is, answer test questions of every family.

folder/FAMILY/       the adapter, as PEFT saves it
folder/answers.md    the table: who answers what
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from conductor_plugin.benchmarks import reasoning_gym
from conductor_plugin.context import WorkerRequest, build_messages
from conductor_plugin.evaluation.tables import markdown_grid
from conductor_plugin.grading.text import grade_text
from conductor_plugin.home import published
from conductor_plugin.workers.local import weights
from training.cold_start import padded
from training.learn import use_threads

FAMILIES = ("family_relationships", "syllogism", "aiw", "word_sequence_reversal")
"""Of the families with short questions, four that ask different things; calculator, number and text answer none."""
SEEDS = {"train": 601, "test": 603}
EXAMPLES, TESTED = 480, 25
BATCH, RATE, WARM_UP = 16, 1e-3, 0.1
RANK, UPPER = 16, 12
"""Of the adapter; and how many of the 30 layers have one. Gradients need not go further down."""
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
BARE = "SmolLM2 as it is"
PREFILL, MOST = "Answer:", 24
"""As the worker `smollm2` of the pool begins its turn; tokens of an answer."""

Pair = tuple[str, str]
Say = Callable[[str], None]


def examples_of(family: str) -> list[Pair]:
    """What its specialist is taught: questions, without what benchmarks add about the answer's form, and answers."""
    return _pairs(family, "train", EXAMPLES)


def asked_of(family: str) -> list[Pair]:
    """What all are asked of the family; nothing that was taught is among it."""
    taught = {question for question, _ in examples_of(family)}
    return [pair for pair in _pairs(family, "test", 4 * TESTED) if pair[0] not in taught][:TESTED]


def _pairs(family: str, split: str, count: int) -> list[Pair]:
    made = reasoning_gym.load(f"rg:{family}", limit=count, seed=SEEDS[split])
    return [(question.metadata["entry"]["question"].strip(), question.gold) for question in made]


def teach(family: str, folder: Path, say: Say) -> Path:
    """An adapter that answers the family, saved to the folder."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import get_cosine_schedule_with_warmup

    from training.fast.logps import shared_log_probs

    model, tokenizer = _loaded()
    layers = list(range(model.config.num_hidden_layers - UPPER, model.config.num_hidden_layers))
    torch.manual_seed(0)
    settings = LoraConfig(
        r=RANK, lora_alpha=2 * RANK, target_modules=TARGETS, layers_to_transform=layers, task_type="CAUSAL_LM"
    )
    model = get_peft_model(model, settings).train()
    examples = examples_of(family)
    Random(family).shuffle(examples)
    steps = EXAMPLES // BATCH
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE)
    schedule = get_cosine_schedule_with_warmup(optimizer, int(WARM_UP * steps), steps)
    started = time.monotonic()
    for step in range(steps):
        batch = examples[step * BATCH : (step + 1) * BATCH]
        ids, mask, kept = padded([(_prompt(tokenizer, asked), _answer(tokenizer, told)) for asked, told in batch])
        log_probs, _ = shared_log_probs(model, ids, mask, kept, 1.0)
        loss = -log_probs.sum() / mask[:, -kept:].sum()
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 10 == 0 or step == steps - 1:
            say(f"{family} {step + 1} of {steps}: loss {loss.item():.3f}, {time.monotonic() - started:.0f} s")
    model.save_pretrained(folder)
    return folder


def answers(adapter: Path | None, asked: Sequence[str]) -> list[str]:
    """What SmolLM2 answers, with the adapter or without; greedy."""
    from peft import PeftModel

    from training.fast.sampler import sample

    model, tokenizer = _loaded()
    if adapter:
        model = PeftModel.from_pretrained(model, adapter)
    written = sample(
        model,
        [_prompt(tokenizer, question) for question in asked],
        most=MOST,
        end=tokenizer.eos_token_id,
        temperature=0,
    )
    texts: list[str] = tokenizer.batch_decode(written, skip_special_tokens=True)
    return [text.strip().splitlines()[0] if text.strip() else "" for text in texts]


def measured(adapters: Mapping[str, Path]) -> dict[str, list[float]]:
    """Shares of each family's test questions that are right, of SmolLM2 as it is and with each adapter."""
    tests = {family: asked_of(family) for family in FAMILIES}
    asked = [question for family in FAMILIES for question, _ in tests[family]]
    golds = [gold for family in FAMILIES for _, gold in tests[family]]
    found = {}
    for name, adapter in {BARE: None, **adapters}.items():
        right = [
            grade_text(gold, answer).outcome == "right"
            for gold, answer in zip(golds, answers(adapter, asked), strict=True)
        ]
        found[name] = [sum(right[i : i + TESTED]) / TESTED for i in range(0, len(right), TESTED)]
    return found


def gaps(found: Mapping[str, Sequence[float]]) -> list[float]:
    """For each family, by how much the best one is ahead of the next."""
    columns = [sorted(column, reverse=True) for column in zip(*found.values(), strict=True)]
    return [best - following for best, following, *_ in columns]


def _loaded() -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoModelForCausalLM.from_pretrained(weights()), AutoTokenizer.from_pretrained(weights())


def _prompt(tokenizer: Any, question: str) -> list[int]:
    """The question as the worker is asked it."""
    chat = [message.model_dump() for message in build_messages(WorkerRequest(question=question))]
    text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False) + PREFILL
    ids: list[int] = tokenizer(text)["input_ids"]
    return ids


def _answer(tokenizer: Any, answer: str) -> list[int]:
    return [*tokenizer(f" {answer}")["input_ids"], tokenizer.eos_token_id]


def main(arguments: Sequence[str] | None = None) -> None:
    """`python -m training.specialists`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/specialists"))
    parser.add_argument("--threads", type=int, default=2, help="1 where others use the cores too")
    given = parser.parse_args(arguments)
    use_threads(given.threads)
    given.folder.mkdir(parents=True, exist_ok=True)
    adapters = {family: published(given.folder / family, partial(teach, family, say=_say)) for family in FAMILIES}
    found = measured(adapters)
    rows = [*found.items(), ("the best, ahead of the next by", gaps(found))]
    table = markdown_grid(("who answers", *FAMILIES), [(name, *shares) for name, shares in rows], digits=2)
    (given.folder / "answers.md").write_text(table + "\n", encoding="utf-8")
    _say(table)


def _say(sentence: str) -> None:
    print(sentence, flush=True)


if __name__ == "__main__":
    main()
