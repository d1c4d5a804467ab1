"""run_graph with instant workers against the same awaits written by hand: a chain of three steps.

Bar: at most 0.1 ms more. The hand-written chain calls the worker function itself; run_graph goes the whole
way of a pool's worker (request, limits, timeout, retries, receipt).
"""

import asyncio

from conductor_plugin.context import Seen, WorkerRequest
from conductor_plugin.graph import compile_plan
from conductor_plugin.plan import PlanRules, parse_plan
from conductor_plugin.pool import pool_from
from conductor_plugin.run import run_graph
from tests.performance.timing import alternate, medians
from tests.performance.workers import instant

POOL = pool_from({"workers": [{"name": "instant", "kind": "tests.performance.workers:instant"}]})
PLAN = parse_plan('model_id=[0,0,0]\nsubtasks=["a","b","c"]\naccess_list=[[],[0],[0,1]]', PlanRules(workers=1))
LOOPS = 200


async def by_hand() -> None:
    """The chain as one would write it without the library."""
    for _ in range(LOOPS):
        first = await instant(WorkerRequest(question="q", subtask="a"))
        seen = Seen(index=0, subtask="a", output=first)
        second = await instant(WorkerRequest(question="q", subtask="b", seen=(seen,)))
        both = (seen, Seen(index=1, subtask="b", output=second))
        await instant(WorkerRequest(question="q", subtask="c", seen=both))


async def by_run_graph() -> None:
    """The same chain by the executor."""
    graph = compile_plan(PLAN)
    for _ in range(LOOPS):
        receipt = await run_graph(graph, pool=POOL, question="q")
        assert receipt.answer == "ok"


def main() -> None:
    """Print the figures."""
    times = medians(asyncio.run(alternate({"by hand": by_hand, "run_graph": by_run_graph}, rounds=20)))
    hand, graph = (times[name] / LOOPS * 1e6 for name in ("by hand", "run_graph"))
    print(f"chain of 3 instant steps: by hand {hand:.1f} us, run_graph {graph:.1f} us, {graph - hand:.1f} us more")


if __name__ == "__main__":
    main()
