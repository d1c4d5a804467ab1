"""Shared by the measuring scripts: alternating runs, medians and minima."""

import statistics
import time
from collections.abc import Awaitable, Callable


def best_of(function: Callable[[], object], *, repeats: int = 7, number: int = 2000) -> float:
    """Seconds a call: the best mean over `repeats` loops of `number` calls."""
    means = []
    for _ in range(repeats):
        started = time.perf_counter()
        for _ in range(number):
            function()
        means.append((time.perf_counter() - started) / number)
    return min(means)


async def alternate(
    contestants: dict[str, Callable[[], Awaitable[object]]], *, rounds: int, warm_up: int = 2
) -> dict[str, list[float]]:
    """Seconds of each run; the contestants take turns, so that a noisy moment hits all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for i in range(rounds + warm_up):
        for name, run in contestants.items():
            started = time.perf_counter()
            await run()
            if i >= warm_up:
                times[name].append(time.perf_counter() - started)
    return times


def medians(times: dict[str, list[float]]) -> dict[str, float]:
    """The median of each contestant, in seconds."""
    return {name: statistics.median(values) for name, values in times.items()}
