"""What a run's log looks like: one picture of what it learns and of how it might fail."""

from pathlib import Path
from typing import TYPE_CHECKING

from training.records import read_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Panel by panel: its title, and the figures in it by the label that they get; `*` takes all of that beginning.
PANELS: dict[str, dict[str, str]] = {
    "reward": {"mean": "reward_mean", "deviation": "reward_deviation"},
    "valid plans": {"all": "parse_rate", "of {} steps": "parse_rate/*"},
    "right, of the valid plans": {"": "right_given_valid"},
    "plan length": {"steps": "plan_length", "share of one step": "one_step_share"},
    "who is asked": {"{}": "worker/*"},
    "diversity": {"entropy over workers": "worker_entropy", "different plans a group": "distinct_plans"},
    "groups that score alike": {"": "dead_groups", "rollouts without a reward": "failed_share"},
    "calls an iteration": {"": "calls"},
}


def plot(folder: Path) -> list[Path]:
    """`curves.png` and `curves.svg` in the run's folder, from its log; nothing if it has no step yet."""
    rows = read_lines(folder / "log.jsonl")
    if not rows:
        return []
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 6.5), layout="constrained")
    for axes, (title, lines) in zip(figure.subplots(2, 4).flat, PANELS.items(), strict=True):
        for label, name in lines.items():
            _draw(axes, rows, label, name)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("iteration", fontsize=8)
        axes.set_ylim(bottom=0)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize=7)
    paths = [folder / "curves.png", folder / "curves.svg"]
    # Without a date and random ids, equal logs give equal files.
    with matplotlib.rc_context({"svg.hashsalt": "conductor"}):
        figure.savefig(paths[0], dpi=110, metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def _draw(axes: "Axes", rows: list[dict[str, object]], label: str, name: str) -> None:
    names = [name]
    if name.endswith("*"):
        names = sorted({key for row in rows for key in row if key.startswith(name[:-1])})
    for one in names:
        points = [(row["step"], row[one]) for row in rows if isinstance(row.get(one), int | float)]
        if points:
            shown = label.format(one.partition("/")[2])
            axes.plot(*zip(*points, strict=True), linewidth=1.2, label=shown or None)
