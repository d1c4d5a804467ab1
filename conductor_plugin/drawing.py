"""Drawings of a graph: Mermaid for artifacts and READMEs, plain text for terminals."""

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from conductor_plugin.graph import needed_steps

if TYPE_CHECKING:
    import networkx

    from conductor_plugin.pool import Pool


def step_label(graph: "networkx.DiGraph[int]", step: int, pool: "Pool | None" = None) -> str:
    """Who does a step: the worker's name (`Model 2` without a pool), a reducer's name, or `conductor`."""
    node = graph.nodes[step]["step"]
    if node.kind == "call":
        return pool.workers[node.worker].name if pool else f"Model {node.worker}"
    return str(node.reduce) if node.kind == "reduce" else "conductor"


def mermaid(graph: "networkx.DiGraph[int]", pool: "Pool | None" = None) -> str:
    """A Mermaid flowchart; steps that cannot reach the answer are dashed."""
    needed = needed_steps(graph)
    lines = ["flowchart LR", '    q(["question"])']
    for i in graph.nodes:
        lines.append(f'    s{i}["{i} · {_mermaid_text(step_label(graph, i, pool))}"]')
    for i in graph.nodes:
        if not list(graph.predecessors(i)):
            lines.append(f"    q --> s{i}")
    lines += [f"    s{a} --> s{b}" for a, b in graph.edges]
    if dead := [f"s{i}" for i in graph.nodes if i not in needed]:
        lines += ["    classDef pruned stroke-dasharray: 4 4", f"    class {','.join(dead)} pruned"]
    return "\n".join(lines)


def _mermaid_text(text: str) -> str:
    return " ".join(text.replace("#", "#35;").replace('"', "#quot;").split())


def terminal(graph: "networkx.DiGraph[int]", pool: "Pool | None" = None) -> str:
    """The graph as `draw` shows it."""
    needed = needed_steps(graph)
    return draw(
        [step_label(graph, i, pool) for i in graph.nodes],
        [sorted(graph.predecessors(i)) for i in graph.nodes],
        {i for i in graph.nodes if i not in needed},
    )


def draw(labels: Sequence[str], sees: Sequence[Sequence[int]], dead: Container[int] = ()) -> str:
    """One line a step in step order, indented by level, with the steps that it sees.

    0 · coder
    1 · maths
      2 · verifier   <- 0, 1
    """
    depth: list[int] = []
    for earlier in sees:
        depth.append(1 + max((depth[i] for i in earlier), default=-1))
    names = [f"{'  ' * depth[i]}{i} · {label}" for i, label in enumerate(labels)]
    width = max(map(len, names), default=0)
    lines = []
    for i, name in enumerate(names):
        note = f"   <- {', '.join(str(j) for j in sees[i])}" if sees[i] else ""
        lines.append(f"{name:<{width}}{note}{'   (cannot reach the answer)' if i in dead else ''}".rstrip())
    return "\n".join(lines) or "(no steps: the earlier answer is kept)"
