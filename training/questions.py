"""What is trained on: questions, split from those that are held out, and the rows that the trainer reads.

A row is one group of rollouts. Its prompt is built by the code that inference uses, for the same `PlanRequest`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from pydantic import ValidationError

from conductor_plugin import benchmarks
from conductor_plugin.benchmarks.question import Question
from conductor_plugin.errors import InputError
from conductor_plugin.labels import cleared_pool, label_of
from conductor_plugin.plan import PlanRules
from conductor_plugin.planners.base import PlanRequest
from conductor_plugin.planners.manifest import PromptSettings
from conductor_plugin.pool import Pool
from conductor_plugin.receipt import RoundView
from conductor_plugin.worker_spec import digest
from training.config import QuestionSet, Rules, Subsets, TrainConfig

Prompt = str | list[dict[str, str]]


@dataclass(frozen=True)
class Split:
    """Questions to learn from, and others, of other texts, to be judged by. Both by id, in order."""

    train: dict[str, Question]
    held_out: dict[str, Question]


def load_questions(sets: Sequence[QuestionSet]) -> Split:
    """The questions of all sets. InputError `questions_overlap` if a text stands on both sides, or twice in training.

    A benchmark that yields a text twice (small generated families do) gives it once. Else as `benchmarks.load`.
    """
    train: dict[str, Question] = {}
    held_out: dict[str, Question] = {}
    seen: set[str] = set()
    for one in sets:
        fresh = [q for q in _unique(_questions(one)) if _plain(q.text) not in seen]
        wanted = one.limit + one.held_out
        if len(fresh) < wanted:
            raise InputError(
                f"the set {one.name or one.file} has {len(fresh)} questions that no other set has; "
                f"{one.limit} to train on and {one.held_out} held out are wanted",
                code="too_few_questions",
            )
        seen |= {_plain(q.text) for q in fresh[:wanted]}
        train |= {q.id: q for q in fresh[: one.limit]}
        held_out |= {q.id: q for q in fresh[one.limit : wanted]}
    if not train:
        raise InputError("no set has a limit, so that there is nothing to train on", code="too_few_questions")
    return Split(train, held_out)


def _questions(one: QuestionSet) -> Iterator[Question]:
    """At least as many as are wanted, where there are as many: repeated texts are made up for."""
    if one.file is not None:
        yield from feedback(Path(one.file))
        return
    assert one.name is not None
    data = Path(one.data) if one.data else None
    wanted = one.limit + one.held_out
    # A generated family repeats itself, and a larger subset begins with the smaller one.
    yield from benchmarks.load(one.name, data=data, limit=2 * wanted + 10, seed=one.seed)


def _unique(questions: Iterator[Question]) -> list[Question]:
    found: dict[str, Question] = {}
    for question in questions:
        found.setdefault(_plain(question.text), question)
    return list(found.values())


def _plain(text: str) -> str:
    """The text, whatever its case and spacing."""
    return " ".join(text.casefold().split())


def feedback(path: Path) -> list[Question]:
    """The questions of a feedback export: JSON lines with `question` and `gold`, optionally `grader` and `label`.

    InputError `feedback_unreadable`, `feedback_bad_row` with the line. `grader` is one of `Question` (default: text).
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"cannot read the feedback export {path}: {reason}", code="feedback_unreadable") from None
    return [_from_feedback(f"{path}, line {i}", line) for i, line in enumerate(lines, start=1) if line.strip()]


def _from_feedback(where: str, line: str) -> Question:
    try:
        row = json.loads(line)
        metadata = {"label": row["label"]} if row.get("label") else {}
        return Question(
            id=f"feedback/{digest(row['question'])}",
            benchmark="feedback",
            text=row["question"],
            gold=row["gold"],
            grader=row.get("grader", "text"),
            metadata=metadata,
        )
    except (ValueError, TypeError, KeyError, AttributeError, ValidationError):
        raise InputError(
            f'{where}: a row of feedback is {{"question": …, "gold": …}}, with a grader and a label if it has them',
            code="feedback_bad_row",
        ) from None


def label_of_question(question: Question) -> str | None:
    """The question's data label, where it has one."""
    label = question.metadata.get("label")
    return None if label is None else str(label)


def pool_of(pool: Pool, question: Question, workers: Sequence[int], *, everybody: bool = False) -> Pool:
    """The workers that are offered: those of the row, without those not cleared for its label, unless `everybody`.

    InputError `label_unknown` if the pool has no such label, LabelError if nobody is cleared for it.
    """
    chosen = pool.of(pool.workers[i] for i in workers)
    label = label_of_question(question)
    if label is not None:
        label_of(pool, label)
    return chosen if label is None or everybody else cleared_pool(chosen, label)


def request_of(
    question: Question, pool: Pool, rules: Rules, earlier: tuple[RoundView, ...] = (), *, answered: bool = False
) -> PlanRequest:
    """What a planner is asked at inference (`conduct`) for this question and pool, after these rounds."""
    return PlanRequest(
        question=question.text,
        pool=pool,
        rules=PlanRules(
            workers=len(pool.workers),
            max_steps=rules.max_steps,
            conductor=rules.max_rounds > 0,
            answered=answered,
        ),
        earlier=earlier,
    )


def prompt_of(request: PlanRequest, settings: PromptSettings) -> Prompt:
    """The prompt, as one text or as the chat that TRL takes."""
    prompt = settings.build(request)
    return prompt if isinstance(prompt, str) else [message.model_dump() for message in prompt]


def rows(config: TrainConfig, pool: Pool, questions: Mapping[str, Question]) -> list[dict[str, Any]]:
    """All rows of the run, iteration by iteration, `config.groups` each; the same for the same config.

    Questions come in a seeded order, all of them before one comes again. A forced second round is a row of its own,
    right behind its first one: `round` 1, and a prompt that is made when the first has run.
    """
    spec = config.grpo
    made: list[dict[str, Any]] = []
    offered = {question.id: _offered(pool, question, config) for question in questions.values()}
    deck = _deck(list(questions.values()), spec.seed)
    for iteration in range(spec.iterations):
        for place in range(spec.questions + config.sampling.spare):
            question = next(deck)
            workers = _subset(offered[question.id], config.subsets, f"{spec.seed}/{iteration}/{place}")
            request = request_of(question, pool.of(pool.workers[i] for i in workers), config.rules)
            prompt = prompt_of(request, config.prompt)
            row = {"prompt": prompt, "question": question.id, "workers": workers, "iteration": iteration, "round": 0}
            forced = _is_forced(place, config)
            made.append({**row, "forced": forced})
            if forced:
                made.append({**row, "forced": True, "round": 1})
    return made


def _is_forced(place: int, config: TrainConfig) -> bool:
    """Forced ones are spread over the iteration, so that processes that share it get as many each."""
    step = config.forced / config.grpo.questions
    return place < config.grpo.questions and int((place + 1) * step) > int(place * step)


def _deck(questions: list[Question], seed: int) -> Iterator[Question]:
    turn = 0
    while True:
        shuffled = list(questions)
        Random(f"{seed}/{turn}").shuffle(shuffled)
        yield from shuffled
        turn += 1


def _offered(pool: Pool, question: Question, config: TrainConfig) -> list[int]:
    """The numbers of the workers that the question may be asked with. LabelError if there is none, as `pool_of`."""
    everyone = range(len(pool.workers))
    left = pool_of(pool, question, everyone, everybody=config.reward.label_violation is not None)
    names = {worker.name for worker in left.workers}
    return [i for i in everyone if pool.workers[i].name in names]


def _subset(offered: Sequence[int], subsets: Subsets | None, draw: str) -> list[int]:
    """Some of them at random, where that is asked for, in the pool's order, as `Pool.subset` keeps it at inference."""
    if subsets is None:
        return list(offered)
    source = Random(f"subset/{draw}")
    count = source.randint(min(subsets.smallest, len(offered)), min(subsets.largest, len(offered)))
    return sorted(source.sample(offered, count))
