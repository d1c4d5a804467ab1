"""Plain advice from a report's rows: where orchestration beats the best single worker, by how much, at what price."""

from collections.abc import Mapping, Sequence

from conductor_plugin.evaluation.rows import Row
from conductor_plugin.evaluation.statistics import (
    SINGLE,
    accuracy,
    best_single,
    difference,
    marks,
    mean_of,
    single_ceiling,
)


def advice(groups: Mapping[str, Mapping[str, Sequence[Row]]]) -> list[str]:
    """One sentence for each benchmark's best system, and what could be had at most."""
    return [sentence for benchmark, systems in groups.items() for sentence in _of(benchmark, systems)]


def _of(benchmark: str, systems: Mapping[str, Sequence[Row]]) -> list[str]:
    marked = {system: marks(rows) for system, rows in systems.items()}
    scores = {system: found.mean for system, m in marked.items() if (found := accuracy(m))}
    best, top = best_single(marked), single_ceiling(marked)
    others = [system for system in scores if not system.startswith(SINGLE)]
    if best is None:
        return [f"{benchmark}: no single worker was run, so that nothing says what orchestration adds."]
    sentences = []
    if others:
        chosen = max(others, key=lambda system: scores[system])
        gap = difference(marked[chosen], marked[best])
        if gap:
            price = _price(systems[chosen], systems[best])
            span = f"{100 * gap.mean:+.1f} points, 95 % interval {100 * gap.low:+.1f} to {100 * gap.high:+.1f}"
            how = "beats" if gap.low > 0 else "is worse than" if gap.high < 0 else "cannot be told from"
            name = best.removeprefix(SINGLE)
            sentences.append(f"{benchmark}: {chosen}, the best of the others, {how} {name} alone ({span}), {price}.")
    if top is not None:
        sentences.append(
            f"{benchmark}: the best worker alone is right on {100 * scores[best]:.1f} %, some worker on "
            f"{100 * top:.1f} %: no choice of one worker a question can add more than "
            f"{100 * (top - scores[best]):.1f} points."
        )
    return sentences


def _price(ours: Sequence[Row], theirs: Sequence[Row]) -> str:
    mine, other = (mean_of(rows, "calls") or 0.0 for rows in (ours, theirs))
    cost, price = mean_of(ours, "cost_usd"), mean_of(theirs, "cost_usd")
    calls = f"with {mine:.1f} calls a question against {other:.1f}"
    if cost is None or price is None:
        return f"{calls}; what it costs is unknown"
    if price == 0:
        return f"{calls}, for {cost:.5f} USD against nothing" if cost else f"{calls}, both for nothing"
    return f"{calls}, for {cost / price:.1f} times the money"
