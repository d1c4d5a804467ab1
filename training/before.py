"""Before the first iteration: can the model write plans at all, and which questions can teach it something?"""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.errors import InputError, PlanError
from conductor_plugin.plan import PlanRules, parse_plan
from training.guard import counts_by_length
from training.questions import pool_of, prompt_of, request_of
from training.reward import Rollout, written_length

if TYPE_CHECKING:
    from training.trainer import ConductorTrainer

FEWEST = 10
"""Completions of a length that say something about it; fewer are told, and refuse nothing."""


def open_gate(trainer: "ConductorTrainer", on_note: Callable[[str], None]) -> None:
    """Sample, and count valid plans by length. InputError `parse_rate_low` below the bar, or a note where it may be.

    Refuses before anything is paid: no plan is run.
    """
    gate = trainer.config.gate
    _on_its_gpu(trainer)
    questions = list(trainer.rewarder.questions.values())
    groups = min(math.ceil(gate.samples / trainer.num_generations), len(questions))
    texts = _sample(trainer, questions[:groups], trainer.num_generations)
    workers = len(trainer.rewarder.pool.workers)
    counts = parse_rates(texts, PlanRules(workers=workers, max_steps=trainer.config.rules.max_steps))
    low = {
        length: valid / count
        for length, (valid, count) in counts.items()
        if count >= min(FEWEST, len(texts)) and valid / count < gate.parse_rate
    }
    rate = sum(valid for valid, _ in counts.values()) / len(texts)
    told = ", ".join(f"{length} steps: {valid} of {count}" for length, (valid, count) in counts.items())
    if not low and rate >= gate.parse_rate:
        on_note(f"{rate:.3f} of {len(texts)} sampled plans are valid ({told})")
        return
    sentence = f"only {rate:.3f} of {len(texts)} sampled plans are valid, the bar is {gate.parse_rate:g} ({told})"
    if gate.refuse:
        raise InputError(f"{sentence}; train the cold start longer, or set gate.refuse: false", code="parse_rate_low")
    on_note(f"{sentence}; the first thing that is learnt is the format")


def _on_its_gpu(trainer: "ConductorTrainer") -> None:
    """DeepSpeed moves a whole model to its GPU when training starts; what is sampled before needs it there, too."""
    plugin = trainer.accelerator.state.deepspeed_plugin
    if plugin is not None and plugin.zero_stage < 3:  # a model in shares (ZeRO-3) is made there
        trainer.model.to(trainer.accelerator.device)


def parse_rates(texts: Sequence[str], rules: PlanRules) -> dict[int, tuple[int, int]]:
    """For each length that completions meant to have: how many are valid plans, and how many there are."""
    return counts_by_length((written_length(text), is_valid(text, rules)) for text in texts)


def is_valid(text: str, rules: PlanRules) -> bool:
    """Whether the completion holds a valid plan."""
    try:
        parse_plan(text, rules)
    except PlanError:
        return False
    return True


def screened(trainer: "ConductorTrainer", folder: Path) -> dict[str, Question]:
    """The questions whose rollouts differ; which they are is kept in the folder, for the next start.

    `sampling.screen` rollouts each are sampled from the model that starts and run. A question is left out if all its
    valid plans are right, or all wrong: none of them would have an advantage. InputError `nothing_to_learn` if none
    is left; BudgetError.
    """
    config, questions = trainer.config, trainer.rewarder.questions
    if config.sampling.screen is None:
        return dict(questions)
    path = folder / "screened.json"
    if not path.exists():
        path.write_text(json.dumps(_screen(trainer, config.sampling.screen)), encoding="utf-8")
    kept: list[str] = json.loads(path.read_text(encoding="utf-8"))
    if not kept:
        raise InputError(
            "the rollouts of every question score alike, so that there is nothing to learn; use other questions, or "
            "a pool whose workers differ",
            code="nothing_to_learn",
        )
    return {id: questions[id] for id in kept}


def _screen(trainer: "ConductorTrainer", repeats: int) -> list[str]:
    questions = trainer.rewarder.questions
    everyone = tuple(range(len(trainer.rewarder.pool.workers)))
    texts = _sample(trainer, list(questions.values()), repeats)
    owners = [id for id in questions for _ in range(repeats)]
    # Iteration -1: before the first, with calls of their own.
    rollouts = [Rollout(id, text, everyone, -1, i) for i, (id, text) in enumerate(zip(owners, texts, strict=True))]
    outcomes = trainer.begin(trainer.rewarder.score(rollouts)).result()
    judged: dict[str, set[bool]] = {id: set() for id in questions}
    for id, outcome in zip(owners, outcomes, strict=True):
        if outcome.right is not None:
            judged[id].add(outcome.right)
    return [id for id, verdicts in judged.items() if len(verdicts) > 1]


def _sample(trainer: "ConductorTrainer", questions: Sequence[Question], repeats: int) -> list[str]:
    """So many completions of each question, with the whole pool; in one go for each iteration's worth."""
    config, pool = trainer.config, trainer.rewarder.pool
    at_once = max(config.grpo.questions * config.grpo.rollouts // repeats, 1)
    everyone = range(len(pool.workers))
    texts: list[str] = []
    for start in range(0, len(questions), at_once):
        chunk = [q for q in questions[start : start + at_once] for _ in range(repeats)]
        prompts = [prompt_of(request_of(q, pool_of(pool, q, everyone), config.rules), config.prompt) for q in chunk]
        texts += trainer.texts(trainer.sampler(prompts, trainer).completion_ids)
    return texts
