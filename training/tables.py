"""The table of the proof on two cores: rows of all systems in, figures and Markdown out. Pure functions."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from conductor_plugin.evaluation.rows import Row
from conductor_plugin.evaluation.statistics import SINGLE, accuracy, ceiling, difference, marks, means, oracle
from conductor_plugin.evaluation.tables import markdown_grid
from conductor_plugin.models import Frozen
from training.compared import LEARNED
from training.families import FAMILIES

ORACLE = "oracle one-step router"
PREFIX = "two-cores:"


class Line(Frozen):
    """A system's accuracies on families trained on and never seen, and what a question takes; shares are of 1."""

    system: str
    trained: float
    single: float
    chained: float
    unseen: float
    calls: float
    tokens: float | None


class Shape(Frozen):
    """What a family's plans are like: mean steps that ran, the commonest (workers, topology), its share, accuracy."""

    family: str
    steps: float
    commonest: str
    share: float
    accuracy: float


class Gap(Frozen):
    """The learned system less another on the same questions, and the 95 % interval of a paired bootstrap."""

    over: str
    on: str
    mean: float
    low: float
    high: float


def table(rows: Iterable[Row]) -> list[Line]:
    """A line a system, in the rows' order; the oracle, made of the single workers, behind them."""
    by_system = _by_system(rows)
    lines = [_line(system, own) for system, own in by_system.items()]
    singles = _singles(by_system)
    if not singles:
        return lines
    parts = {name: ceiling([marks(filter(wanted, own)) for own in singles]) or 0.0 for name, wanted in _PARTS.items()}
    return [*lines, Line(system=ORACLE, calls=1.0, tokens=None, **parts)]


def shapes(rows: Sequence[Row], system: str = LEARNED) -> list[Shape]:
    """A line a family, of one system's rows."""
    found = []
    for family in FAMILIES:
        own = [row for row in rows if row.system == system and row.benchmark == PREFIX + family.name]
        if own:
            plans = [f"{' '.join(row.workers)} ({row.topology})" for row in own]
            commonest = max(sorted(set(plans)), key=plans.count)
            found.append(
                Shape(
                    family=family.name,
                    steps=statistics.fmean(row.steps for row in own),
                    commonest=commonest,
                    share=plans.count(commonest) / len(plans),
                    accuracy=share_right(own),
                )
            )
    return found


def gaps(rows: Sequence[Row], others: Sequence[str]) -> list[Gap]:
    """How far the learned system is ahead of these, on families trained on and on unseen ones.

    Rows of several seeds are repeats of one question: the bootstrap draws whole questions.
    """
    found = []
    for on in ("trained", "unseen"):
        chosen = [row for row in rows if _PARTS[on](row)]
        ours = marks(row for row in chosen if row.system == LEARNED)
        for other in others:
            theirs = marks(row for row in chosen if row.system == other)
            if other == ORACLE:
                theirs = oracle([marks(own) for own in _singles(_by_system(chosen))])
            if gap := difference(ours, theirs):
                found.append(Gap(over=other, on=on, mean=gap.mean, low=gap.low, high=gap.high))
    return found


def best(lines: Sequence[Line], prefix: str) -> Line:
    """The line of the highest accuracy on trained families among systems whose names begin so."""
    return max((line for line in lines if line.system.startswith(prefix)), key=lambda line: line.trained)


def worst(lines: Sequence[Line], prefix: str) -> Line:
    """The line of the lowest."""
    return min((line for line in lines if line.system.startswith(prefix)), key=lambda line: line.trained)


def in_markdown(lines: Sequence[Line]) -> str:
    """The lines as a table."""
    header = ("system", "trained families", "single", "chained", "unseen families", "calls", "tokens")
    rows = [
        (
            line.system,
            line.trained,
            line.single,
            line.chained,
            line.unseen,
            f"{line.calls:.2f}",
            None if line.tokens is None else round(line.tokens),
        )
        for line in lines
    ]
    return markdown_grid(header, rows)


def shapes_in_markdown(found: Sequence[Shape]) -> str:
    """The families as a table."""
    header = ("family", "accuracy", "steps", "commonest plan", "its share")
    return markdown_grid(header, [(s.family, s.accuracy, s.steps, s.commonest, s.share) for s in found], digits=2)


_FAMILY = {PREFIX + family.name: family for family in FAMILIES}
_PARTS: Mapping[str, Callable[[Row], bool]] = {
    "trained": lambda row: _FAMILY[row.benchmark].trained,
    "single": lambda row: _FAMILY[row.benchmark].trained and not _FAMILY[row.benchmark].chained,
    "chained": lambda row: _FAMILY[row.benchmark].trained and _FAMILY[row.benchmark].chained,
    "unseen": lambda row: not _FAMILY[row.benchmark].trained,
}


def _line(system: str, rows: Sequence[Row]) -> Line:
    taken = means(rows)
    tokens = None
    if taken.prompt_tokens is not None and taken.completion_tokens is not None:
        tokens = taken.prompt_tokens + taken.completion_tokens
    parts = {name: share_right(list(filter(wanted, rows))) for name, wanted in _PARTS.items()}
    return Line(system=system, calls=taken.calls, tokens=tokens, **parts)


def share_right(rows: Iterable[Row]) -> float:
    """The rows' accuracy; 0 where there is nothing to judge."""
    found = accuracy(marks(rows))
    return found.mean if found else 0.0


def _by_system(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.system].append(row)
    return found


def _singles(by_system: Mapping[str, list[Row]]) -> list[list[Row]]:
    """The rows of each single worker."""
    return [own for system, own in by_system.items() if system.startswith(SINGLE)]
