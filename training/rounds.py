"""The cold start of a second round: what it is shown and what it may write, and nothing of when to write which.

A model that has learnt to conduct meets two new things: the line that says the Conductor may be asked again, and what
an earlier round left. Its own plans, drawn from it beforehand, are what it may write in either round, so that it keeps
what it knows; in a second one three empty lists (keep the answer) are drawn as often as another plan, whatever the
answer was.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.evaluation.evaluate import Grader
from conductor_plugin.plan import Plan, render_plan
from conductor_plugin.pool import Pool
from training.cold_start import teach
from training.config import PLANS_A_PROMPT, ColdStart, TrainConfig
from training.paid import PaidCalls
from training.questions import prompt_of, request_of
from training.reward import Outcome, Rewarder, Rollout

KEEP = render_plan(Plan(model_id=(), subtasks=(), access_list=()))
SHOWN = 2
"""Second rounds that are made of a question's first ones."""


@dataclass(frozen=True)
class Asked:
    """A question, the workers that it was asked with (places in the pool), and what the model wrote for it."""

    question: Question
    workers: tuple[int, ...]
    completions: tuple[str, ...]


@dataclass(frozen=True)
class Rounds:
    """Prompts of first and second rounds, each with plans that may follow."""

    prompts: Sequence[tuple[str, Sequence[str]]]

    def draw(self, source: Random, plans: int) -> tuple[str, list[str]]:
        """A prompt and so many of its plans."""
        prompt, known = source.choice(self.prompts)
        return prompt, source.choices(known, k=plans)


def rounds_of(config: TrainConfig, pool: Pool, asked: Sequence[Asked], outcomes: Sequence[Sequence[Outcome]]) -> Rounds:
    """A first round of each question; and `SHOWN` second ones, behind plans of different answers where there are."""
    prompts: list[tuple[str, Sequence[str]]] = []
    for one, found in zip(asked, outcomes, strict=True):
        part = pool.of(pool.workers[i] for i in one.workers)
        own = [text for text, outcome in zip(one.completions, found, strict=True) if outcome.valid]
        views = {outcome.answer: outcome.view for outcome in found if outcome.view}
        if not own:
            continue
        prompts.append((str(prompt_of(request_of(one.question, part, config.rules), config.prompt)), own))
        for view in list(views.values())[:SHOWN]:
            request = request_of(one.question, part, config.rules, (view,), answered=True)
            prompts.append((str(prompt_of(request, config.prompt)), [*own, *[KEEP] * len(own)]))
    return Rounds(prompts)


def run_first(
    config: TrainConfig, pool: Pool, asked: Sequence[Asked], grader: Callable[[], Grader], calls: Path
) -> list[list[Outcome]]:
    """What each completion came to, question by question; answers are kept in the file `calls`."""
    rollouts = [
        Rollout(one.question.id, text, one.workers, -1, i * PLANS_A_PROMPT + k)
        for i, one in enumerate(asked)
        for k, text in enumerate(one.completions)
    ]
    paid = PaidCalls(calls)
    rewarder = Rewarder(config, pool, {one.question.id: one.question for one in asked}, paid=paid, grader=grader)

    async def run() -> list[Outcome]:
        try:
            return await rewarder.score(rollouts)
        finally:
            await rewarder.close()

    try:
        outcomes = iter(asyncio.run(run()))
    finally:
        paid.close()
    return [[next(outcomes) for _ in one.completions] for one in asked]


def cold_rounds(start: Path, folder: Path, rounds: Rounds, spec: ColdStart, say: Callable[[int, float], None]) -> Path:
    """Teach the model in `start` the rounds, and save it to `folder`, which is given back."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(start), AutoTokenizer.from_pretrained(start)
    teach(model, tokenizer, rounds, Random(f"rounds/{spec.seed}"), spec, say, reading=0.0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
