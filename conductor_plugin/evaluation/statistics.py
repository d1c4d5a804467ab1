"""What rows say: accuracies with their errors, paired differences, ceilings, shares. Pure functions of rows."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from conductor_plugin.evaluation.rows import Row

SINGLE = "single:"  # how the systems of one worker are named
RESAMPLES, AT_ONCE = 2000, 100  # so many at once, for the memory
# By question and then repeat: whether the answer was right. Rows that failed are not in it.
Marks = Mapping[str, Mapping[int, float]]


@dataclass(frozen=True)
class Accuracy:
    """A share of right answers, with its standard errors: over repeats (None for one), and clustered by question."""

    mean: float
    over_repeats: float | None
    by_question: float | None
    questions: int


@dataclass(frozen=True)
class Difference:
    """A system's accuracy less another's on the same questions, and its 95 % interval by a paired bootstrap."""

    mean: float
    low: float
    high: float


def marks(rows: Iterable[Row]) -> dict[str, dict[int, float]]:
    """Right or not, by question and repeat, of the rows that did not fail."""
    return _marks((row, row.outcome == "right") for row in rows if row.outcome != "failed")


def judged_marks(rows: Iterable[Row]) -> dict[str, dict[int, float]]:
    """The same as a worker judged it, of the rows on which it said yes or no."""
    return _marks((row, row.judgement == "right") for row in rows if row.judgement in ("right", "wrong"))


def _marks(judged: Iterable[tuple[Row, bool]]) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for row, right in judged:
        found[row.question][row.repeat] = float(right)
    return dict(found)


def accuracy(given: Marks) -> Accuracy | None:
    """None where there is nothing to judge. Questions weigh alike, however many of their repeats failed."""
    if not given:
        return None
    means = [statistics.fmean(repeats.values()) for repeats in given.values()]
    by_repeat: dict[int, list[float]] = defaultdict(list)
    for repeats in given.values():
        for repeat, mark in repeats.items():
            by_repeat[repeat].append(mark)
    shares = [statistics.fmean(values) for values in by_repeat.values()]
    return Accuracy(
        mean=statistics.fmean(means),
        over_repeats=_standard_error(shares),
        by_question=_standard_error(means),
        questions=len(means),
    )


def _standard_error(values: Sequence[float]) -> float | None:
    """Of their mean; None for one value. (`statistics.stdev` computes with fractions, which takes seconds here.)"""
    n = len(values)
    if n < 2:
        return None
    mean = math.fsum(values) / n
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)


def difference(ours: Marks, theirs: Marks, seed: int = 0) -> Difference | None:
    """The paired bootstrap over questions that both have; None where there is none.

    Whole questions are drawn, with all their repeats, since repeats of one question are not independent.
    """
    import numpy

    common = sorted(ours.keys() & theirs.keys())
    if not common:
        return None
    gaps = numpy.array([_mean(ours[q]) - _mean(theirs[q]) for q in common])
    random = numpy.random.default_rng(seed)
    drawn = (gaps[random.integers(0, len(gaps), (AT_ONCE, len(gaps)))].mean(1) for _ in range(RESAMPLES // AT_ONCE))
    low, high = numpy.percentile(numpy.concatenate(list(drawn)), [2.5, 97.5])
    return Difference(mean=float(gaps.mean()), low=float(low), high=float(high))


def _mean(repeats: Mapping[int, float]) -> float:
    return statistics.fmean(repeats.values())


def ceiling(singles: Sequence[Marks]) -> float | None:
    """The oracle's accuracy: each question goes to a worker that is right on it in that repeat, if there is one.

    No router over these workers can be better; since it picks the luckiest sample, noise alone lifts it as well.
    """
    best = oracle(singles)
    return statistics.fmean(_mean(repeats) for repeats in best.values()) if best else None


def oracle(singles: Sequence[Marks]) -> dict[str, dict[int, float]]:
    """The marks behind `ceiling`: right where one of these is, in that repeat."""
    best: dict[str, dict[int, float]] = defaultdict(dict)
    for single in singles:
        for question, repeats in single.items():
            for repeat, mark in repeats.items():
                best[question][repeat] = max(mark, best[question].get(repeat, 0.0))
    return dict(best)


@dataclass(frozen=True)
class Means:
    """Means per question of what rows took; None where a row's figure is unknown."""

    calls: float
    steps: float
    prompt_tokens: float | None
    completion_tokens: float | None
    cost_usd: float | None
    wall_s: float
    calls_s: float
    critical_path_s: float


def means(rows: Sequence[Row]) -> Means:
    """The means over rows, of which there must be one."""
    return Means(**{name: mean_of(rows, name) for name in Means.__dataclass_fields__})  # type: ignore[arg-type]


def mean_of(rows: Sequence[Row], figure: str) -> float | None:
    """The mean of one of the rows' figures; None if a row's is unknown."""
    values = list(map(attrgetter(figure), rows))
    return None if None in values else math.fsum(values) / len(values)


def parse_rate(rows: Iterable[Row]) -> float | None:
    """Valid plans per attempt of a planner; None where nobody planned."""
    found = [(row.planner_valid, row.planner_attempts) for row in rows]
    attempts = sum(attempt for _, attempt in found)
    return sum(valid for valid, _ in found) / attempts if attempts else None


def shares(values: Iterable[str]) -> dict[str, float]:
    """Each value's share, the largest first."""
    counts: dict[str, int] = defaultdict(int)
    for value in values:
        counts[value] += 1
    whole = sum(counts.values())
    return {value: count / whole for value, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))}


def by_position(rows: Iterable[Row]) -> list[dict[str, float]]:
    """At each step's position: how often each worker was asked, as shares."""
    columns: dict[int, list[str]] = defaultdict(list)
    for row in rows:
        for position, worker in enumerate(row.workers):
            columns[position].append(worker)
    return [shares(columns[position]) for position in sorted(columns)]


def best_single(marked: Mapping[str, Marks]) -> str | None:
    """The single worker with the highest accuracy; of equals the first."""
    scores = {name: found.mean for name, m in marked.items() if name.startswith(SINGLE) and (found := accuracy(m))}
    return max(scores, key=lambda name: scores[name]) if scores else None


def single_ceiling(marked: Mapping[str, Marks]) -> float | None:
    """The ceiling of all single workers among the systems."""
    return ceiling([found for name, found in marked.items() if name.startswith(SINGLE)])


def per_usd(right: float, cost_usd: float | None) -> float | None:
    """The cost-adjusted accuracy: right answers for a dollar. None where the cost is unknown or nothing."""
    return right / cost_usd if cost_usd else None
