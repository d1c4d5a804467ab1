"""100 concurrent answers of 5 instant steps on one PostgreSQL-backed server, against hand-written flows.

Bar: 0 failed, throughput at least 0.8x hand-written Prefect flows of the same shape, persistence and
artifact, measured in the same run. The contestants take turns; each is 100 flow runs with 8 in progress at a
time (more at once only makes each of them slower).
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from conductor_plugin.on_prefect.flow import conductor
from tests.performance.flow import PLAN, POOL, by_hand
from tests.postgres import postgres
from tests.servers import prefect_server

RUNS, AT_ONCE, ROUNDS = 100, 8, 3


async def crowd(run: Callable[[], Awaitable[object]]) -> tuple[float, list[float], int]:
    """Runs a second, the seconds of each, and how many failed."""
    slots = asyncio.Semaphore(AT_ONCE)
    seconds: list[float] = []
    failed = 0

    async def one() -> None:
        nonlocal failed
        async with slots:
            started = time.perf_counter()
            try:
                await run()
            except Exception:
                failed += 1
            seconds.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(RUNS)))
    return RUNS / (time.perf_counter() - started), seconds, failed


async def measure() -> None:
    """Print the figures."""
    contestants: dict[str, Callable[[], Awaitable[object]]] = {
        "conductor": lambda: conductor("q", pool=POOL, plan=PLAN),
        "by hand": lambda: by_hand("q"),
    }
    for run in contestants.values():
        await run()
    throughput: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, run in contestants.items():
            rate, seconds, failed = await crowd(run)
            throughput[name].append(rate)
            print(f"{name:<10} {rate:5.2f} runs/s, median {statistics.median(seconds):.2f} s a run, {failed} failed")
    ours, theirs = (statistics.median(throughput[name]) for name in ("conductor", "by hand"))
    print(f"throughput conductor / by hand {ours / theirs:.2f}")


def main() -> None:
    """Start the servers and measure."""
    with postgres() as url, prefect_server(url) as server, server.use():
        asyncio.run(measure())


if __name__ == "__main__":
    main()
