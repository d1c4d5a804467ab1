"""What a training run may take before anything is spent: calls, tokens, USD and hours, as ranges.

A Conductor's plans cannot be known before it writes them. `low`: one call a rollout, of the cheapest worker. `likely`:
three steps, the paper's average, each of any worker alike and each seeing those before it, like the calls that were
recorded. `high`: as many steps as the rules allow, of the dearest worker, each with all its retries.
"""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.calls import Typical
from conductor_plugin.graph import CallStep, compile_steps
from conductor_plugin.models import Frozen
from conductor_plugin.pool import Pool
from conductor_plugin.quote import Quote, Range, quote, range_lines
from training.config import TrainConfig
from training.records import read_lines

LIKELY_STEPS = 3
ASKED = 8
"""Questions that stand for all of them, spread over their lengths."""
SLOTS = 64
"""Calls at a time of a worker whose pool entry has no `max_concurrency`, for the hours alone."""


class TrainingQuote(Frozen):
    """Of the iterations that are left. `hours` is the whole run's where steps are recorded, else the workers' alone."""

    iterations: int
    rollouts: int
    calls: Range
    prompt_tokens: Range
    completion_tokens: Range
    cost_usd: Range
    hours: Range
    unknown: tuple[str, ...] = ()


def quote_training(
    config: TrainConfig, pool: Pool, questions: Sequence[Question], typical: Mapping[str, Typical], folder: Path
) -> TrainingQuote:
    """The figures of the run in `folder`, which may not be there yet. Equal calls are paid once, so it may be less."""
    log = read_lines(folder / "log.jsonl")
    left = max(config.grpo.iterations - len(log), 0)
    screening = 0 if log or not config.sampling.screen else config.sampling.screen * len(questions)
    rollouts = left * config.groups * config.grpo.rollouts + screening
    asked = sorted(questions, key=lambda question: len(question.text))[:: max(len(questions) // ASKED, 1)]
    steps = {"low": 1, "likely": min(LIKELY_STEPS, config.rules.max_steps), "high": config.rules.max_steps}
    offers = {
        bound: [[_offer(pool, question, i, count, typical) for question in asked] for i in range(len(pool.workers))]
        for bound, count in steps.items()
    }
    ranges = {
        name: Range(**{bound: _of_all(offers[bound], name, bound, rollouts) for bound in steps})
        for name in ("calls", "prompt_tokens", "completion_tokens", "cost_usd")
    }
    hours, missing = _hours(log, left, _worker_hours(pool, typical, rollouts, steps))
    told = [sentence for by_worker in offers["high"] for offer in by_worker for sentence in offer.unknown]
    return TrainingQuote(
        iterations=left, rollouts=rollouts, hours=hours, unknown=tuple(dict.fromkeys([*told, *missing])), **ranges
    )


def quote_lines(offer: TrainingQuote) -> list[str]:
    """The quote for people."""
    values = [
        "unknown" if value is None else f"{value:,.2f}"
        for value in (offer.hours.low, offer.hours.likely, offer.hours.high)
    ]
    return [
        f"{offer.iterations} iterations to make, {offer.rollouts:,} rollouts",
        *range_lines(offer),
        f"{'hours':<10} " + " ".join(f"{value:>12}" for value in values),
        *(f"note: {sentence}" for sentence in offer.unknown),
    ]


def _offer(pool: Pool, question: Question, worker: int, count: int, typical: Mapping[str, Typical]) -> Quote:
    steps = [CallStep(worker=worker, access="all") for _ in range(count)]
    return quote(compile_steps(steps), pool=pool, question=question.text, typical=typical)


def _of_all(offers: Sequence[Sequence[Quote]], name: str, bound: str, rollouts: int) -> float | None:
    """So many rollouts of the cheapest worker, of all alike, or of the dearest; the mean over the questions."""
    means: list[float] = []
    for by_question in offers:
        values = [getattr(getattr(offer, name), bound) for offer in by_question]
        if None in values:
            return None
        means.append(statistics.fmean(values))
    if bound == "likely":
        return rollouts * statistics.fmean(means)
    return rollouts * (min(means) if bound == "low" else max(means))


def _worker_hours(pool: Pool, typical: Mapping[str, Typical], rollouts: int, steps: Mapping[str, int]) -> Range:
    """The workers' time, if they alone took any: all calls over all slots. None without a recorded call of each."""
    known = [typical[worker.name].latency_s for worker in pool.workers if worker.name in typical]
    if len(known) < len(pool.workers):
        return Range(low=None, likely=None, high=None)
    slots = sum(worker.max_concurrency or SLOTS for worker in pool.workers) / len(pool.workers)
    seconds = {"low": min(known), "likely": statistics.fmean(known), "high": max(known)}
    return Range(**{bound: rollouts * steps[bound] * seconds[bound] / slots / 3600 for bound in steps})


def _hours(log: Sequence[Mapping[str, Any]], left: int, workers: Range) -> tuple[Range, list[str]]:
    """From the steps that this run has made, if there are any; else what the workers take, and a note."""
    took = [float(row["step_time"]) for row in log if isinstance(row.get("step_time"), int | float)]
    if took:
        seconds = {"low": min(took), "likely": statistics.median(took), "high": max(took)}
        return Range(**{bound: left * value / 3600 for bound, value in seconds.items()}), []
    note = "hours are the workers' alone: how long sampling and updating take is known after this run's first iteration"
    return workers, [note]
