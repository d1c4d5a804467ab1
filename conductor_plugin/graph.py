"""The graph: a plan compiled to a `networkx.DiGraph`, a node a step and an edge for each allowed view.

A plan's steps are calls of workers. Graphs hold two kinds more: a reduce step, a pure function over what it
may see, and the Conductor step that ends a round which asks to be planned again. The step limit is the
plan parser's business; a graph may have any length.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from conductor_plugin.models import Frozen
from conductor_plugin.plan import Access, Plan

if TYPE_CHECKING:
    import networkx


class CallStep(Frozen):
    """Ask worker number `worker` of the pool. `sample` tells equal calls apart that are made on purpose.

    `caps` is how many times its own output cap (and time) the worker gets for this call.
    """

    kind: Literal["call"] = "call"
    worker: Annotated[int, Field(ge=0)]
    subtask: str = ""
    access: Access = ()
    sample: int = 0
    caps: Annotated[int, Field(ge=1)] = 1


class ReduceStep(Frozen):
    """Apply the function `reduce` (a name in `conductor_plugin.reduce.REDUCERS`) to the outputs it may see."""

    kind: Literal["reduce"] = "reduce"
    reduce: str
    argument: int | None = None
    access: Access = "all"

    @model_validator(mode="after")
    def _known(self) -> "ReduceStep":
        from conductor_plugin.reduce import REDUCERS

        if self.reduce not in REDUCERS:
            raise ValueError(f"no reducer is named {self.reduce!r}; there are {', '.join(REDUCERS)}")
        return self


class ConductorStep(Frozen):
    """End the round and plan again; the next planner is shown the outputs that `access` allows."""

    kind: Literal["conductor"] = "conductor"
    access: Access = ()


Step = CallStep | ReduceStep | ConductorStep


def plan_steps(plan: Plan, workers: int | None = None) -> tuple[Step, ...]:
    """A plan's steps. An id equal to `workers`, the pool's size, is the Conductor itself."""
    return tuple(
        ConductorStep(access=access) if worker == workers else CallStep(worker=worker, subtask=subtask, access=access)
        for worker, subtask, access in zip(plan.model_id, plan.subtasks, plan.access_list, strict=True)
    )


def compile_plan(plan: Plan, workers: int | None = None) -> "networkx.DiGraph[int]":
    """Compile the three lists; see `compile_steps`."""
    return compile_steps(plan_steps(plan, workers))


def compile_steps(steps: Sequence[Step]) -> "networkx.DiGraph[int]":
    """A graph with nodes 0..n-1, each with its `step`; an edge i -> j where step j may see step i.

    ValueError if a step names one that is not earlier, or if a Conductor step is not the last.
    """
    import networkx

    graph: networkx.DiGraph[int] = networkx.DiGraph()
    for i, step in enumerate(steps):
        graph.add_node(i, step=step)
        for earlier in range(i) if step.access == "all" else sorted(step.access):
            if not 0 <= earlier < i:
                raise ValueError(f"step {i} cannot see step {earlier}, which is not earlier")
            graph.add_edge(earlier, i)
        if step.kind == "conductor" and i < len(steps) - 1:
            raise ValueError(f"step {i} is the Conductor, which may only be the last step")
    return graph


def answer_step(graph: "networkx.DiGraph[int]") -> int | None:
    """The step whose output is the answer: the last one, or the one before a final Conductor step."""
    last = len(graph) - 1
    if last >= 0 and graph.nodes[last]["step"].kind == "conductor":
        last -= 1
    return last if last >= 0 else None


def needed_steps(graph: "networkx.DiGraph[int]") -> frozenset[int]:
    """The steps that can influence the answer, or what the Conductor is shown of it; the rest is prunable."""
    needed = {i for i in (len(graph) - 1, answer_step(graph)) if i is not None and i >= 0}
    for i in range(len(graph) - 1, -1, -1):
        if i in needed:
            needed.update(graph.predecessors(i))
    return frozenset(needed)


def topological_order(graph: "networkx.DiGraph[int]") -> list[int]:
    """Step numbers, every step after all that it sees; since access points backwards, simply 0..n-1."""
    return sorted(graph.nodes)


def levels(graph: "networkx.DiGraph[int]") -> list[list[int]]:
    """Steps by the length of the longest chain behind them: level 0 sees nothing."""
    depth: dict[int, int] = {}
    for i in topological_order(graph):
        depth[i] = 1 + max((depth[p] for p in graph.predecessors(i)), default=-1)
    return [[i for i in depth if depth[i] == level] for level in range(1 + max(depth.values(), default=-1))]


def critical_path(graph: "networkx.DiGraph[int]", durations: Mapping[int, float]) -> tuple[float, list[int]]:
    """The chain of steps with the largest sum of `durations` (seconds; a missing one is 0), and that sum.

    No schedule can be faster: it is the run's time with unlimited workers.
    """
    finish: dict[int, float] = {}
    behind: dict[int, int] = {}
    end = -1
    for i in topological_order(graph):
        wait = 0.0
        for earlier in graph.predecessors(i):
            if i not in behind or finish[earlier] > wait:
                wait, behind[i] = finish[earlier], earlier
        finish[i] = wait + durations.get(i, 0.0)
        end = i if end < 0 or finish[i] > finish[end] else end
    path = [end] if end >= 0 else []
    while path and path[-1] in behind:
        path.append(behind[path[-1]])
    return finish.get(end, 0.0), path[::-1]
