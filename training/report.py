"""The report of the proof on two cores: the table, the families, the gaps, the curve."""

from collections.abc import Sequence
from pathlib import Path

from conductor_plugin.evaluation.rows import Row
from conductor_plugin.evaluation.statistics import SINGLE
from training.compared import LEARNED
from training.config import TrainConfig
from training.records import read_lines
from training.tables import ORACLE, best, gaps, in_markdown, shapes, shapes_in_markdown, table, worst


def write_report(
    config: TrainConfig, learned: Sequence[Row], baselines: Sequence[Row], folder: Path, seeds: int
) -> str:
    """Write report.md and curve.png to the folder; the report is given back."""
    lines = table([*learned, *baselines])
    shown = [line for line in lines if not line.system.startswith("moa:")]
    mixtures = [best(lines, "moa:"), worst(lines, "moa:")]
    rules = next(line.system for line in lines if line.system.startswith("rules"))
    rivals = [ORACLE, rules, best(lines, SINGLE).system, mixtures[0].system]
    found = gaps([*learned, *baselines], rivals)
    text = "\n\n".join(
        [
            f"### Learnt on two cores, seeds {', '.join(map(str, range(seeds)))}",
            in_markdown([*shown, *mixtures]),
            "The two mixtures are the best and the worst of all orders of the workers, judged on these questions.",
            *(f"{LEARNED} - {g.over}, {g.on}: {g.mean:+.3f} [{g.low:+.3f}, {g.high:+.3f}]" for g in found),
            shapes_in_markdown(shapes(learned)),
        ]
    )
    (folder / "report.md").write_text(text + "\n", encoding="utf-8")
    plot(config, folder, seeds)
    return text


def plot(config: TrainConfig, folder: Path, seeds: int) -> None:
    """curve.png: accuracy and parse rate of the sampled plans, and their length, by iteration, lesson behind lesson."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(2, 1, figsize=(7, 6), sharex=True)
    for seed in range(seeds):
        logs = [folder / f"seed-{seed}" / lesson.name / "log.jsonl" for lesson in config.lessons]
        log = [row for path in logs for row in read_lines(path)]
        steps = range(1, len(log) + 1)
        above.plot(steps, [row["right_given_valid"] for row in log], label=f"right, seed {seed}")
        above.plot(steps, [row["parse_rate"] for row in log], linestyle=":", label=f"valid, seed {seed}")
        below.plot(steps, [row["plan_length"] for row in log], label=f"steps, seed {seed}")
    for axes in (above, below):
        axes.legend(fontsize="small")
    above.set_ylabel("share of sampled plans")
    below.set_xlabel("iteration")
    figure.tight_layout()
    figure.savefig(folder / "curve.png", dpi=110)
    pyplot.close(figure)
