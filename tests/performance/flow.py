"""The flow `conductor` against hand-written Prefect flows: 5 instant steps in 3 levels, PostgreSQL-backed server.

Bar: at most 1.15x a hand-written flow of the same shape (a plan task and 5 step tasks) with the same
persistence and one artifact; medians of 20 in one process, alternating. The ratio to a bare flow (5 tasks,
no persistence, no artifact) is printed too.
"""

import asyncio
from typing import Any

from prefect import flow, task
from prefect.artifacts import acreate_markdown_artifact
from pydantic import BaseModel

from conductor_plugin.on_prefect.flow import conductor
from tests.performance.timing import alternate, medians
from tests.postgres import postgres
from tests.servers import prefect_server

POOL = {"workers": [{"name": "instant", "kind": "tests.performance.workers:instant"}]}
PLAN = 'model_id=[0,0,0,0,0]\nsubtasks=["a","b","c","d","e"]\naccess_list=[[],[],[0],[0,1],"all"]'
SEES: list[list[int]] = [[], [], [0], [0, 1], [0, 1, 2, 3]]


class Output(BaseModel):
    """A step's result, whole, so that the graph has its edges."""

    index: int
    text: str


async def bare_step(index: int, seen: list[Output]) -> Output:
    """A step's work: nothing."""
    return Output(index=index, text="ok")


async def plan() -> list[list[int]]:
    """The plan's work: nothing."""
    return SEES


bare_task = task(bare_step, name="bare-step")
kept_task = task(bare_step, name="kept-step", persist_result=True, result_serializer="json")
plan_task = task(plan, name="kept-plan", persist_result=True, result_serializer="json")


async def _walk(step: Any) -> Output:
    running: list[asyncio.Task[Output]] = []

    async def one(index: int) -> Output:
        seen = [await running[earlier] for earlier in SEES[index]]
        return await step(index, seen)  # type: ignore[no-any-return]

    async with asyncio.TaskGroup() as group:
        for index in range(len(SEES)):
            running.append(group.create_task(one(index)))
    return running[-1].result()


@flow(name="bare")
async def bare() -> str:
    """Five tasks and nothing else."""
    return (await _walk(bare_task)).text


@flow(name="by-hand", persist_result=True, result_serializer="json")
async def by_hand(question: str) -> str:
    """What a team would write by hand to have what `conductor` keeps: plan, results, artifact."""
    await plan_task()
    answer = await _walk(kept_task)
    await acreate_markdown_artifact(f"# {question}\n\n{answer.text}", key="by-hand")
    return answer.text


async def measure(rounds: int = 20) -> None:
    """Print the figures."""
    times = medians(
        await alternate(
            {
                "conductor": lambda: conductor("q", pool=POOL, plan=PLAN),
                "by hand": lambda: by_hand("q"),
                "bare": bare,
            },
            rounds=rounds,
        )
    )
    for name, seconds in times.items():
        print(f"{name:<10} {seconds * 1e3:6.1f} ms")
    ours = times["conductor"]
    print(f"conductor / by hand {ours / times['by hand']:.2f}, / bare {ours / times['bare']:.2f}")


def main() -> None:
    """Start the servers and measure."""
    with postgres() as url, prefect_server(url) as server, server.use():
        asyncio.run(measure())


if __name__ == "__main__":
    main()
