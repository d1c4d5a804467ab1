"""What is learnt in which order: who, then in what turn, then how long. Each stage is a run of GRPO, see `grpo`.

All at once, a plan's length settles before the plan depends on the question at all, on one step for every question or
on three (training/README.md, runs d1 to d10). So length is kept out of it until the end: first plans may have one step,
then plans of one length are compared with each other alone (`advantage`), and only then is everything open. What the
first two stages are not about is rehearsed as the cold start had it (`rehearsal`); the third rehearses lengths a
little, so that they come to depend on the question before one of them has won.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.errors import ConductorError
from conductor_plugin.evaluation.evaluate import Grader
from training.cold_start import Drawn, Examples
from training.config import PLANS_A_PROMPT, TrainConfig
from training.fast.logps import shared_log_probs
from training.fast.sampler import FastSampler
from training.grpo import Finished, train, training_pool
from training.rehearsal import Kept, Rehearsal

Say = Callable[[str], None]


@dataclass(frozen=True)
class Stage:
    """A share of the iterations, on questions of one subject (None: all).

    `max_steps` is less than the configuration's where it is given; with `by_length` plans of one length are compared;
    what is `kept` of the cold start is rehearsed with this `weight`. With `rollouts` a question, an iteration has as
    many completions as it would have, of more or fewer questions. Only the `first` has to write valid plans of every
    length: later on, lengths that nobody needs are forgotten.
    """

    name: str
    share: float
    subject: str | None = None
    max_steps: int | None = None
    by_length: bool = False
    schedule: Literal["constant", "cosine"] = "constant"
    first: bool = False
    kept: Kept | None = None
    weight: float = 1.0
    rollouts: int | None = None


STAGES = (
    Stage("one-step", 0.16, subject="single", max_steps=1, first=True, kept="all but the first worker"),
    Stage("chained", 0.3, subject="chained", by_length=True, kept="length"),
    Stage("lengths", 0.34, kept="length", weight=0.05, rollouts=16),
    Stage("all", 0.2, schedule="cosine", rollouts=16),
)


class Unfinished(ConductorError):
    """A stage was paused, by the guard or the budget."""


def taught(
    config: TrainConfig,
    start: Path,
    home: Path,
    asked: Sequence[Question],
    grader: Callable[[], Grader],
    say: Say,
    stages: Sequence[Stage] = STAGES,
    examples: Drawn | None = None,
) -> Path:
    """The model after all stages, each a run in `home` that starts where the one before ended.

    What is rehearsed are the `examples`, by default plans by lot as in the cold start.
    ConductorError `paused` or `stopped_budget` where a stage was; the same call goes on from there.
    """
    examples = examples or Examples(config, training_pool(config), asked)
    for stage in stages:
        chosen = [question for question in asked if stage.subject in (None, question.subject)]
        rehearsal = _rehearsal(config, stage, examples)
        done = train_once(configured(config, stage), start, home / stage.name, chosen, grader, say, rehearsal)
        say(f"{stage.name}: {done.status} after {done.step} iterations {done.reason}")
        if done.status != "finished":
            raise Unfinished(f"the stage {stage.name} ended early: {done.reason}", code=done.status)
        start = home / stage.name / "model"
    return start


def _rehearsal(config: TrainConfig, stage: Stage, examples: Drawn) -> Rehearsal | None:
    """What a stage rehearses, with a quarter as many plans as it has rollouts."""
    if not stage.kept:
        return None
    plans = config.grpo.questions * config.grpo.rollouts // 4
    size = max(1, plans // PLANS_A_PROMPT) * PLANS_A_PROMPT
    return Rehearsal(examples, stage.kept, stage.weight, config.grpo.seed, size)


def model_of(home: Path) -> Path:
    """What the last stage of the runs in `home` has learnt."""
    return home / STAGES[-1].name / "model"


def configured(config: TrainConfig, stage: Stage) -> TrainConfig:
    """The configuration of a stage."""
    iterations = max(1, round(stage.share * config.grpo.iterations))
    by_length = iterations if stage.by_length else 0
    grpo: dict[str, Any] = {"iterations": iterations, "by_length": by_length, "schedule": stage.schedule}
    if stage.rollouts:
        questions = config.grpo.questions * config.grpo.rollouts // stage.rollouts
        grpo |= {"questions": questions, "rollouts": stage.rollouts}
    return config.model_copy(
        update={
            "grpo": config.grpo.model_copy(update=grpo),
            "rules": config.rules.model_copy(update={"max_steps": stage.max_steps or config.rules.max_steps}),
            "gate": config.gate.model_copy(update={"refuse": config.gate.refuse and stage.first}),
        }
    )


def train_once(
    config: TrainConfig,
    start: Path,
    folder: Path,
    asked: Sequence[Question],
    grader: Callable[[], Grader],
    say: Say,
    rehearsal: Rehearsal | None = None,
) -> Finished:
    """One run of GRPO on these questions, with the faster sampler and log-probabilities."""
    return train(
        config,
        folder,
        start=start,
        questions={question.id: question for question in asked},
        grader=grader,
        sampler=FastSampler(),
        log_probs=shared_log_probs,
        rehearsal=rehearsal,
        on_step=_reporter(say),
        on_note=say,
    )


def _reporter(say: Say) -> Callable[[int, Mapping[str, float]], None]:
    started = time.monotonic()

    def told(step: int, figures: Mapping[str, float]) -> None:
        if step % 5 == 0 or step == 1:
            names = ("reward_mean", "parse_rate", "right_given_valid", "one_step_share", "plan_length", "dead_groups")
            shown = " ".join(f"{name} {figures[name]:.3f}" for name in names)
            workers = " ".join(f"{name} {share:.2f}" for name, share in figures.items() if name.startswith("worker/"))
            say(f"GRPO {step}: {shown} {workers}, {time.monotonic() - started:.0f} s")

    return told
