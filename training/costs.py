"""What the price of a call does to plans: `python -m training.costs`, after `make learn`.

The lessons in which a seed learns lengths are run again with other weights of the cost term, from the same model. The
table and `costs.png` have accuracy against calls on held-out questions, of greedy plans.
"""

from collections.abc import Sequence
from pathlib import Path

from conductor_plugin.evaluation.statistics import mean_of
from conductor_plugin.evaluation.store import Store
from conductor_plugin.evaluation.tables import markdown_grid
from training.config import TrainConfig, load_config
from training.curriculum import taught
from training.families import questions
from training.grpo import training_pool
from training.learn import EACH, TextGrader, answered, parser_of, seeded, store_in, system_of, use_threads
from training.tables import share_right

WEIGHTS = (0.0, 0.05, 0.2)
FREE = 2
"""How many lessons come before lengths are learnt."""
JUDGED = 6
"""Held-out questions of each family."""

Point = tuple[float, float, float]


def point(config: TrainConfig, weight: float, home: Path, store: Store) -> Point:
    """(weight, calls a question, share right) of what is learnt with that weight of a call."""
    settings = config.model_copy(update={"reward": config.reward.model_copy(update={"call_weight": weight})})
    start, asked = home / config.lessons[FREE - 1].name / "model", questions("train", EACH["train"])
    model = taught(settings, start, home / f"call-weight-{weight:g}", asked, TextGrader, print, config.lessons[FREE:])
    held_out = questions("held-out", JUDGED)
    system = system_of(f"a call costs {weight:g}", settings, training_pool(settings), model, held_out, temperature=0)
    rows = answered([system], held_out, store)
    return weight, mean_of(rows, "calls") or 0.0, share_right(rows)


def plot(points: Sequence[Point], path: Path) -> None:
    """Accuracy against calls, a point for each weight."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    for weight, calls, right in points:
        axes.scatter(calls, right)
        axes.annotate(f"{weight:g} a call", (calls, right), textcoords="offset points", xytext=(6, 4))
    axes.set_xlabel("calls a question")
    axes.set_ylabel("share of held-out questions right")
    axes.set_ylim(0, 1.05)
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str] | None = None) -> None:
    """`python -m training.costs`."""
    parser = parser_of(__doc__)
    given = parser.parse_args(arguments)
    use_threads(given.threads)
    config = seeded(load_config("two-cores"), given.seed)
    store = store_in(given.folder)
    home = given.folder / f"seed-{given.seed}"
    points = [point(config, weight, home, store) for weight in WEIGHTS]
    rows = [(f"{weight:g}", f"{calls:.2f}", right) for weight, calls, right in points]
    print(markdown_grid(("a call costs", "calls", "right"), rows))
    plot(points, given.folder / "costs.png")


if __name__ == "__main__":
    main()
