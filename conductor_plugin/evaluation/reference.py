"""The paper's tables, as it prints them, for a look beside a report's own. Its averages are recomputed from the rows.

Learning to Orchestrate Agents in Natural Language with the Conductor (arXiv 2512.04388), results: other workers,
other budgets and other questions than a report's, so that nothing there is comparable to the digit.
"""

import statistics

from conductor_plugin.evaluation.tables import Table

BENCHMARKS = ("MATH500", "MMLU", "RLPR", "LiveCodeBench", "AIME25", "BigCodeBench", "GPQA-Diamond")
UNCONSTRAINED: dict[str, tuple[float, ...]] = {
    "Gemma3-27B-it": (39.8, 81.3, 16.67, 13.14, 20.7, 14.86, 38.4),
    "Qwen3-32B": (73.5, 83.5, 31.00, 21.21, 20.0, 30.41, 64.1),
    "Qwen3-32B thinking": (80.7, 84.1, 37.25, 25.86, 72.9, 28.38, 66.8),
    "R1-Distill-Qwen-32B": (82.5, 84.4, 33.50, 26.86, 63.0, 33.07, 58.1),
    "Claude Sonnet 4": (96.0, 91.4, 36.70, 46.54, 74.3, 37.16, 77.7),
    "Gemini 2.5 Pro": (96.0, 92.4, 40.55, 67.24, 78.3, 37.51, 84.8),
    "GPT-5": (99.0, 93.5, 42.20, 82.90, 90.8, 32.75, 82.3),
    "Conductor 7B": (99.4, 94.1, 44.75, 83.93, 93.3, 37.86, 87.5),
}
METHODS: dict[str, tuple[float, int | None, float | None, str]] = {
    "RouterDC": (52.41, 840, 0.00561, "1"),
    "Smoothie (dependent)": (56.48, 9909, 0.03929, "all workers"),
    "Smoothie (independent)": (56.42, None, None, "all workers"),
    "MASRouter": (56.89, 4970, 0.01345, "4-5"),
    "MoA (7 + aggregator)": (62.13, 11203, 0.04855, "8"),
    "best worker alone (Gemini 2.5 Pro)": (64.14, None, None, "1"),
    "best 5x self-reflection (GPT-5)": (64.52, None, None, "5"),
    "best 5x context (Gemini 2.5 Pro)": (67.60, None, None, "1"),
    "Conductor": (72.35, 1820, 0.02384, "3 on average"),
}


def reference_tables() -> list[Table]:
    """The paper's figures, in percent, labelled as the paper's."""
    return [
        Table(
            "The paper's figures: single workers and the Conductor, percent right",
            ("paper", *BENCHMARKS, "mean, recomputed"),
            [(name, *row, statistics.fmean(row)) for name, row in UNCONSTRAINED.items()],
            note="As printed in the paper, with its workers and budgets; not measured here.",
            digits=2,
        ),
        Table(
            "The paper's figures: methods on the same constrained workers",
            ("paper", "percent right", "tokens a question", "USD a question", "calls"),
            [(name, *row) for name, row in METHODS.items()],
            note="As printed in the paper; not measured here.",
            digits=5,
        ),
    ]
