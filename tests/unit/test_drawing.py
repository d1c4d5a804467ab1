"""Drawings of a graph name every step and every view, in Mermaid and on a terminal."""

import re

import pytest
from hypothesis import given

from conductor_plugin.drawing import mermaid, step_label, terminal
from conductor_plugin.graph import CallStep, ConductorStep, ReduceStep, Step, compile_steps, levels, needed_steps
from tests.unit.strategies import make_pool, step_lists

POOL = make_pool("coder", "maths", "critic", "verifier")
STEPS: list[Step] = [
    CallStep(worker=0),
    CallStep(worker=1),
    CallStep(worker=3, access=(0, 1)),
    CallStep(worker=2),
    ReduceStep(reduce="majority", access=(2,)),
]
MERMAID_NODE = re.compile(r'    s\d+\["[^"\n]+"\]')


@given(step_lists())
def test_mermaid_shows_nodes_edges_and_pruned_steps(steps: list[Step]) -> None:
    graph = compile_steps(steps)
    lines = mermaid(graph, POOL).splitlines()
    assert lines[0].startswith("flowchart ")
    for i in graph.nodes:
        assert f'    s{i}["{i} · {step_label(graph, i, POOL)}"]' in lines
        assert (f"    q --> s{i}" in lines) == (not list(graph.predecessors(i)))
    edges = {tuple(map(int, edge)) for line in lines for edge in re.findall(r"^    s(\d+) --> s(\d+)$", line)}
    assert edges == set(graph.edges)
    dashed = {int(i) for line in lines if line.endswith(" pruned") for i in re.findall(r"s(\d+)", line)}
    assert dashed == set(graph.nodes) - needed_steps(graph)


@given(step_lists())
def test_terminal_shows_steps_levels_views_and_pruned_steps(steps: list[Step]) -> None:
    graph = compile_steps(steps)
    lines = terminal(graph, POOL).splitlines()
    depth = {i: level for level, inside in enumerate(levels(graph)) for i in inside}
    assert len(lines) == max(len(steps), 1)
    for i, line in zip(graph.nodes, lines, strict=False):
        assert line.startswith(f"{'  ' * depth[i]}{i} · {step_label(graph, i, POOL)}")
        views = re.findall(r"\d+", line.partition("<-")[2])
        assert views == [str(j) for j in sorted(graph.predecessors(i))]
        assert ("cannot reach the answer" in line) == (i not in needed_steps(graph))
        assert line == line.rstrip()


def test_terminal_example() -> None:
    assert terminal(compile_steps(STEPS), POOL).splitlines() == [
        "0 · coder",
        "1 · maths",
        "  2 · verifier     <- 0, 1",
        "3 · critic         (cannot reach the answer)",
        "    4 · majority   <- 2",
    ]


def test_labels_with_and_without_a_pool() -> None:
    graph = compile_steps([*STEPS, ConductorStep(access="all")])
    named = ["coder", "maths", "verifier", "critic", "majority", "conductor"]
    blind = ["Model 0", "Model 1", "Model 3", "Model 2", "majority", "conductor"]
    assert [step_label(graph, i, POOL) for i in graph.nodes] == named
    assert [step_label(graph, i) for i in graph.nodes] == blind
    assert all(name in mermaid(graph) and name in terminal(graph) for name in blind)


def test_no_steps() -> None:
    assert "earlier answer" in terminal(compile_steps([]))
    assert mermaid(compile_steps([])).startswith("flowchart")


@pytest.mark.parametrize("name", ['the "best"', "a]b", "x --> y", "`code`", "naïve 模型 🧮", "a · b"])
def test_any_workers_name_leaves_mermaid_well_formed(name: str) -> None:
    nodes = [line for line in mermaid(compile_steps(STEPS[:1]), make_pool(name)).splitlines() if line[4] == "s"]
    assert [bool(MERMAID_NODE.fullmatch(line)) for line in nodes] == [True]
