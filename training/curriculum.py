"""What is learnt in which order, as the configuration's `lessons` say. Each lesson is a run of GRPO, see `grpo`.

Those of two-cores.yaml: who, then in what turn, then how long. All at once, a plan's length settles before the plan
depends on the question at all, on one step for every question or on three (training/README.md, runs d1 to d10). So
length is kept out of it until the end: first plans may have one step, then plans of one length are compared with each
other alone (`advantage`), and only then is everything open. What the first two lessons are not about is rehearsed as
the cold start had it (`rehearsal`); the third rehearses lengths a little, so that they come to depend on the question
before one of them has won.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.errors import ConductorError
from conductor_plugin.evaluation.evaluate import Grader
from training.cold_start import Drawn, Examples
from training.config import PLANS_A_PROMPT, TrainConfig
from training.fast.logps import shared_log_probs
from training.fast.sampler import FastSampler
from training.grpo import Finished, train, training_pool
from training.lesson import Lesson
from training.rehearsal import Rehearsal

Say = Callable[[str], None]


class Unfinished(ConductorError):
    """A lesson was paused, by the guard or the budget."""


def taught(
    config: TrainConfig,
    start: Path,
    home: Path,
    asked: Sequence[Question],
    grader: Callable[[], Grader],
    say: Say,
    lessons: Sequence[Lesson] = (),
    examples: Drawn | None = None,
) -> Path:
    """The model after all lessons, by default the configuration's, each a run in `home` from where the last one ended.

    What is rehearsed are the `examples`, by default plans by lot as in the cold start.
    ConductorError `paused` or `stopped_budget` where a lesson was; the same call goes on from there.
    """
    examples = examples or Examples(config, training_pool(config), asked)
    for lesson in lessons or config.lessons:
        chosen = [question for question in asked if lesson.subject in (None, question.subject)]
        settings = configured(config, lesson)
        rehearsal = _rehearsal(settings, lesson, examples)
        done = train_once(settings, start, home / lesson.name, chosen, grader, say, rehearsal)
        say(f"{lesson.name}: {done.status} after {done.step} iterations {done.reason}")
        if done.status != "finished":
            raise Unfinished(f"the lesson {lesson.name} ended early: {done.reason}", code=done.status)
        start = home / lesson.name / "model"
    return start


def _rehearsal(config: TrainConfig, lesson: Lesson, examples: Drawn) -> Rehearsal | None:
    """What a lesson rehearses, with a quarter as many plans as it has rollouts."""
    if not lesson.kept:
        return None
    plans = config.grpo.questions * config.grpo.rollouts // 4
    size = max(1, plans // PLANS_A_PROMPT) * PLANS_A_PROMPT
    return Rehearsal(examples, lesson.kept, lesson.weight, config.grpo.seed, size)


def model_of(config: TrainConfig, home: Path) -> Path:
    """What the last of the configuration's lessons in `home` has learnt."""
    return home / config.lessons[-1].name / "model"


def configured(config: TrainConfig, lesson: Lesson) -> TrainConfig:
    """The configuration of a lesson, which other lessons may join without making it another one."""
    iterations = max(1, round(lesson.share * config.grpo.iterations))
    by_length = iterations if lesson.by_length else 0
    grpo: dict[str, Any] = {"iterations": iterations, "by_length": by_length, "schedule": lesson.schedule}
    if lesson.lr:
        grpo["lr"] = lesson.lr
    rollouts = lesson.rollouts or config.grpo.rollouts
    questions = lesson.questions or config.grpo.questions * config.grpo.rollouts // rollouts
    grpo |= {"questions": questions, "rollouts": rollouts}
    return config.model_copy(
        update={
            "grpo": config.grpo.model_copy(update=grpo),
            "rules": config.rules.model_copy(update={"max_steps": lesson.max_steps or config.rules.max_steps}),
            "gate": config.gate.model_copy(update={"refuse": config.gate.refuse and lesson.first}),
            "lessons": (lesson.model_copy(update={"share": 1.0}),),
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
