"""The cold start: supervised learning of the format alone.

The plans are drawn by lot - length, workers, access and phrases - whatever the question, so that nothing about routing
is taught. A model that has learnt all there is to learn from them is as good as a plan by lot. The format has limits,
how many workers there are and how many steps a plan may have: these are drawn as well, and stand in the prompt. Beside
the plans it learns to predict the questions themselves.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Protocol

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.errors import InputError
from conductor_plugin.plan import Access, Plan, render_plan
from conductor_plugin.pool import Pool
from training.config import PLANS_A_PROMPT, ColdStart, TrainConfig
from training.models import pretrained
from training.questions import pool_of, prompt_of, request_of
from training.scratch import make_model, make_tokenizer

PHRASES = ("", "Do the next part.", "Go on.", "Continue.")
"""Instructions that fit any question and any worker; the first is the bare question."""
NAMED, TOLD, NEXT = "model_id = [", "]\nsubtasks = [", ", "
"""What begins a plan's workers, what ends them, and what stands between two of them."""
WHOLE = (
    "question: ",
    "\nmodels: ",
    " steps: ",
    "\nplan:\n",
    NAMED,
    TOLD,
    "]\naccess_list = [",
    NEXT,
    "[]",
    '"all"',
    *(f'"{phrase}"' for phrase in PHRASES),
)
"""What prompts and plans repeat, a token each: a plan of two steps has 16 tokens so, instead of 40."""
READING = 1.0
"""Weight of the questions' own tokens in the loss, beside that of the plans'. A model that never had a reason to read
the question takes long to find out that workers depend on it; what they depend on is not told."""
WARM_UP = 0.05


def random_plan(source: Random, workers: int, max_steps: int, instructions: Sequence[str] = PHRASES) -> Plan:
    """A plan by lot: any length from 1, any worker, any of the instructions; each step sees nothing, everything, or the
    step before it.
    """
    length = source.randint(1, max_steps)
    access: list[Access] = [()]
    access += [source.choice(((), "all", (i - 1,))) for i in range(1, length)]
    return Plan(
        model_id=tuple(source.randrange(workers) for _ in range(length)),
        subtasks=tuple(source.choice(instructions) for _ in range(length)),
        access_list=tuple(access),
    )


def cold_start(
    config: TrainConfig,
    pool: Pool,
    questions: Sequence[Question],
    folder: Path,
    *,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> Path:
    """Teach a model the format alone, and save it with its tokenizer to `folder`, which is given back.

    A model from scratch is made first, with a tokenizer of its own; of a pretrained one with an adapter, the adapter
    alone is taught and saved. `on_step` is told the plans' loss, in nats a token. InputError if the configuration has
    no cold start.
    """
    spec = config.cold_start
    if spec is None:
        raise InputError("a cold start needs cold_start in the configuration", code="bad_option")
    source = Random(f"cold start/{spec.seed}")
    examples = Examples(config, pool, questions)
    model, tokenizer, reading = _made(config, examples, source)
    teach(model, tokenizer, examples, source, spec, on_step, reading=reading)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _made(config: TrainConfig, examples: "Examples", source: Random) -> tuple[Any, Any, float]:
    """The model to teach, its tokenizer, and how much it is to learn of the questions themselves.

    One that was pretrained can read.
    """
    size, spec = config.model.scratch, config.cold_start
    if size is None or spec is None:
        return (*pretrained(config), 0.0)
    drawn = [examples.draw(source, 1) for _ in examples.questions]
    texts = [text for prompt, plans in drawn for text in (prompt, *plans)]
    tokenizer = make_tokenizer(texts, size.vocabulary, WHOLE)
    return make_model(size, tokenizer, spec.seed), tokenizer, READING


class Drawn(Protocol):
    """Where a supervised batch comes from."""

    def draw(self, source: Random, plans: int) -> tuple[str, list[str]]:
        """A prompt and so many plans that fit it."""


@dataclass(frozen=True)
class Examples:
    """Prompts with plans that fit them, by lot."""

    config: TrainConfig
    pool: Pool
    questions: Sequence[Question]

    def draw(self, source: Random, plans: int) -> tuple[str, list[str]]:
        """A prompt and so many plans within the limits that it states."""
        question = source.choice(self.questions)
        workers = source.randint(min(2, len(self.pool.workers)), len(self.pool.workers))
        steps = source.randint(1, self.config.rules.max_steps)
        instructions = instructions_for(self.config, question)
        return (
            self.prompt(question, workers, steps),
            [render_plan(random_plan(source, workers, steps, instructions)) for _ in range(plans)],
        )

    def prompt(self, question: Question, workers: int, steps: int) -> str:
        """The prompt of a question, as training and inference build it; InputError if it is not one text."""
        offered = pool_of(self.pool, question, range(workers))
        rules = self.config.rules.model_copy(update={"max_steps": steps})
        prompt = prompt_of(request_of(question, offered, rules), self.config.prompt)
        if not isinstance(prompt, str):
            raise InputError("a cold start has prompts of style short", code="bad_option")
        return prompt


def instructions_for(config: TrainConfig, question: Question) -> Sequence[str]:
    """What the cold start tells workers about a question: any of the phrases, or of the question's sentences."""
    if config.cold_start is None or config.cold_start.instructions == "phrases":
        return PHRASES
    sentences = [part for part in re.split(r"(?<=[.?!])\s+", question.text) if part]
    return (*PHRASES, *sentences)


def teach(
    model: Any,
    tokenizer: Any,
    examples: Drawn,
    source: Random,
    spec: ColdStart,
    on_step: Callable[[int, float], None],
    *,
    reading: float = READING,
) -> None:
    """Supervised learning of the plans, and with the weight `reading` of the prompts, in place."""
    import torch
    from transformers import get_cosine_schedule_with_warmup

    from training.fast.logps import shared_log_probs

    steps = spec.epochs * spec.examples // spec.batch
    optimizer = torch.optim.AdamW(model.parameters(), lr=spec.lr, betas=(0.9, 0.99), weight_decay=0.01)
    schedule = get_cosine_schedule_with_warmup(optimizer, int(WARM_UP * steps), steps)
    model.train()
    for step in range(steps):
        ids, mask, kept = batch_of(tokenizer, examples, source, spec.batch)
        log_probs, _ = shared_log_probs(model, ids, mask, kept, 1.0)
        own = mask[:, -kept:]
        loss = -(log_probs * own).sum() / own.sum()
        whole = loss + reading * _read(model, ids[:, :-kept], mask[:, :-kept]) if reading else loss
        whole.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        on_step(step, loss.item())


def _read(model: Any, ids: Any, mask: Any) -> Any:
    """The loss of predicting the prompts' own tokens; a prompt that comes several times is read once."""
    import torch

    unique = torch.cat([ids, mask], dim=1).unique(dim=0)
    ids, mask = unique.chunk(2, dim=1)
    return model(ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss


def batch_of(tokenizer: Any, examples: Drawn, source: Random, size: int) -> tuple[Any, Any, int]:
    """Token ids [rows, prompt + completion], their mask, and the completions' width."""
    drawn = [examples.draw(source, PLANS_A_PROMPT) for _ in range(size // PLANS_A_PROMPT)]
    asked = [tokenizer(prompt)["input_ids"] for prompt, _ in drawn]
    told = [[tokenizer(plan)["input_ids"] + [tokenizer.eos_token_id] for plan in plans] for _, plans in drawn]
    return padded([(prompt, plan) for prompt, plans in zip(asked, told, strict=True) for plan in plans])


def padded(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> tuple[Any, Any, int]:
    """Rows [prompt padded left | completion padded right] of token ids, their mask, and the completions' width."""
    import torch

    wide, kept = max(len(prompt) for prompt, _ in pairs), max(len(told) for _, told in pairs)
    rows, masks = [], []
    for prompt, told in pairs:
        before, behind = wide - len(prompt), kept - len(told)
        rows.append([0] * before + [*prompt, *told] + [0] * behind)
        masks.append([0] * before + [1] * (len(prompt) + len(told)) + [0] * behind)
    return torch.tensor(rows), torch.tensor(masks), kept
