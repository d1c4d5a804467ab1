"""The report's plots, as PNG and SVG. Without dates and random ids, so that the same rows give the same bytes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conductor_plugin.evaluation.rows import Row
from conductor_plugin.evaluation.statistics import SINGLE, accuracy, by_position, marks, mean_of

Systems = Mapping[str, Sequence[Row]]


def write_plots(groups: Mapping[str, Systems], folder: Path) -> list[Path]:
    """Accuracy against cost and calls for each benchmark, steps per benchmark, and workers by step position."""
    import matplotlib

    matplotlib.use("agg")
    written = []
    with matplotlib.rc_context({"svg.hashsalt": "conductor", "figure.figsize": (7, 4.5), "figure.autolayout": True}):
        for benchmark, systems in groups.items():
            name = _file_name(benchmark)
            written += _save(_against(benchmark, systems, "cost_usd", "USD a question"), folder / f"{name}-cost")
            written += _save(_against(benchmark, systems, "calls", "calls a question"), folder / f"{name}-calls")
            if heat := _workers(benchmark, systems):
                written += _save(heat, folder / f"{name}-workers")
        written += _save(_steps(groups), folder / "steps")
    return written


def _against(benchmark: str, systems: Systems, what: str, label: str) -> Any:
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots()
    for system, rows in systems.items():
        found, value = accuracy(marks(rows)), mean_of(rows, what)
        if found is None or value is None:
            continue
        error = found.by_question or 0.0
        axes.errorbar(value, found.mean, yerr=error, fmt="s" if system.startswith(SINGLE) else "o", capsize=3)
        axes.annotate(system, (value, found.mean), textcoords="offset points", xytext=(5, 4), fontsize=7)
    axes.set(title=f"{benchmark}: accuracy (bars: standard error by question)", xlabel=label, ylabel="accuracy")
    return figure


def _steps(groups: Mapping[str, Systems]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots()
    systems = list(dict.fromkeys(system for found in groups.values() for system in found))
    for i, (benchmark, found) in enumerate(groups.items()):
        heights = [(mean_of(found[system], "steps") or 0.0) if system in found else 0.0 for system in systems]
        places = [place + i / (len(groups) + 1) for place in range(len(systems))]
        axes.bar(places, heights, width=1 / (len(groups) + 1), label=benchmark)
    axes.set_xticks(range(len(systems)), systems, rotation=60, ha="right", fontsize=7)
    axes.set(title="steps a question", ylabel="steps")
    axes.legend(fontsize=7)
    return figure


def _workers(benchmark: str, systems: Systems) -> Any:
    """How often each worker is asked at each position, over all systems that are more than one worker."""
    from matplotlib.figure import Figure

    rows = [row for system, found in systems.items() if not system.startswith(SINGLE) for row in found]
    positions = by_position(rows)
    names = sorted({name for share in positions for name in share})
    if not names:
        return None
    figure = Figure()
    axes = figure.subplots()
    image = axes.imshow(
        [[share.get(name, 0.0) for share in positions] for name in names], vmin=0, vmax=1, aspect="auto"
    )
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set(title=f"{benchmark}: workers by step position (shares)", xlabel="step")
    figure.colorbar(image)
    return figure


def _save(figure: Any, path: Path) -> list[Path]:
    png, svg = path.with_suffix(".png"), path.with_suffix(".svg")
    figure.savefig(png, metadata={"Software": None})
    figure.savefig(svg, metadata={"Date": None})
    return [png, svg]


def _file_name(benchmark: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in benchmark.lower())
