"""Five steps, three of them independent, on workers that sleep 1 s: wall time against the critical path.

Bar: within 0.15 s of the critical path, beyond the flow's own overhead (the same flow with instant workers).
"""

import asyncio
import statistics
import time

from conductor_plugin.conduct import conduct
from conductor_plugin.on_prefect.flow import conductor
from conductor_plugin.planners import make_planner
from conductor_plugin.pool import pool_from
from tests.performance.timing import alternate, medians
from tests.postgres import postgres
from tests.servers import prefect_server

PLAN = 'model_id=[0,0,0,0,0]\nsubtasks=["a","b","c","d","e"]\naccess_list=[[],[],[],[0,1,2],[3]]'
SLEEPERS = {"workers": [{"name": "sleeper", "kind": "tests.performance.workers:sleeper"}]}
INSTANT = {"workers": [{"name": "instant", "kind": "tests.performance.workers:instant"}]}
CRITICAL_PATH_S = 3.0


async def without_prefect() -> float:
    """Seconds of one question on the plain path."""
    pool = pool_from(SLEEPERS)
    started = time.perf_counter()
    await conduct("q", pool=pool, planner=make_planner(pool, plan=PLAN))
    return time.perf_counter() - started


async def measure() -> None:
    """Print the figures."""
    plain = statistics.median([await without_prefect() for _ in range(5)])
    print(f"without Prefect: {plain:.3f} s for a critical path of {CRITICAL_PATH_S:.1f} s")
    times = medians(
        await alternate(
            {
                "sleep": lambda: conductor("q", pool=SLEEPERS, plan=PLAN),
                "instant": lambda: conductor("q", pool=INSTANT, plan=PLAN),
            },
            rounds=8,
        )
    )
    beyond = times["sleep"] - times["instant"] - CRITICAL_PATH_S
    print(f"flow: {times['sleep']:.3f} s, its own overhead {times['instant']:.3f} s, {beyond:+.3f} s beyond both")


def main() -> None:
    """Start the servers and measure."""
    with postgres() as url, prefect_server(url) as server, server.use():
        asyncio.run(measure())


if __name__ == "__main__":
    main()
