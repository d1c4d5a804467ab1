"""Benchmarks: one small reader a set, each yields `Question`s."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from conductor_plugin.benchmarks import humaneval, reasoning_gym, source
from conductor_plugin.benchmarks.aime25 import AIME25
from conductor_plugin.benchmarks.bigcodebench import BIGCODEBENCH
from conductor_plugin.benchmarks.gpqa import GPQA
from conductor_plugin.benchmarks.humaneval import HUMANEVAL
from conductor_plugin.benchmarks.livecodebench import LIVECODEBENCH_V1, LIVECODEBENCH_V6
from conductor_plugin.benchmarks.math500 import MATH500
from conductor_plugin.benchmarks.mmlu import MMLU
from conductor_plugin.benchmarks.question import Question
from conductor_plugin.benchmarks.reader import Benchmark, Row
from conductor_plugin.benchmarks.rlpr import RLPR
from conductor_plugin.benchmarks.subset import subset
from conductor_plugin.errors import InputError

# The families of reasoning-gym, "rg:…", stand beside these: `reasoning_gym.families()` lists them.
BENCHMARKS: dict[str, Benchmark] = {
    "math500": MATH500,
    "mmlu": MMLU,
    "rlpr": RLPR,
    "livecodebench-v1": LIVECODEBENCH_V1,
    "livecodebench-v6": LIVECODEBENCH_V6,
    "gpqa-diamond": GPQA,
    "aime25": AIME25,
    "bigcodebench-hard": BIGCODEBENCH,
    "humaneval": HUMANEVAL,
}

__all__ = ["BENCHMARKS", "Question", "load"]


def load(
    name: str, *, data: Path | None = None, limit: int | None = None, seed: int = 0, revision: str | None = None
) -> list[Question]:
    """The questions of a benchmark, in the seed's order.

    Args:
        name: A key of BENCHMARKS, or "rg:FAMILY".
        data: A local file in the set's format (JSON lines, also gzipped; CSV; parquet where pyarrow is there)
            instead of the hub or the package.
        limit: How many; a smaller subset is the beginning of a larger one. All without it, 100 of "rg:…".
        seed: Orders the questions, and the options of GPQA.
        revision: A commit of the set on the hub other than the one that is pinned here.

    InputError `benchmark_unknown`, `bad_option`, `data_unreadable`, `data_bad_row`; ConductorError
    `benchmark_unavailable` for a set that cannot be downloaded or whose package is not installed.
    """
    if name.startswith(reasoning_gym.PREFIX):
        if data or revision:
            raise InputError(f"the questions of {name} are made, not read", code="bad_option")
        return reasoning_gym.load(name, limit=limit, seed=seed)
    if name not in BENCHMARKS:
        raise InputError(
            f"there is no benchmark {name!r}; there are {', '.join(BENCHMARKS)} and rg:FAMILY", code="benchmark_unknown"
        )
    benchmark = BENCHMARKS[name]
    paths = _paths(benchmark, data, revision)
    chosen = subset([id for id, _ in _identified(name, benchmark, paths)], limit, seed)
    # The rows are read a second time: the tests of LiveCodeBench fill gigabytes, a subset should not.
    wanted = set(chosen)
    built = {id: benchmark.build(row, id, seed) for id, row in _identified(name, benchmark, paths) if id in wanted}
    return [built[id] for id in chosen]


def _paths(benchmark: Benchmark, data: Path | None, revision: str | None) -> list[Path]:
    if revision and (data or not benchmark.hub):
        raise InputError("a revision is for a set that comes from the hub", code="bad_option")
    if data:
        return [data]
    return source.download(benchmark.hub, revision) if benchmark.hub else [humaneval.packaged()]


def _identified(name: str, benchmark: Benchmark, paths: list[Path]) -> Iterator[tuple[str, Row]]:
    """The rows of the set with their full ids, each unique."""
    seen: Counter[str] = Counter()
    for row in source.rows(benchmark, paths):
        own = benchmark.identify(row)
        if own is None:
            continue
        id = f"{name}/{own}"
        seen[id] += 1
        if seen[id] == 1:
            yield id, row
        elif benchmark.repeats == "refuse":
            raise row.bad(f"the question {id} stands twice")
        elif benchmark.repeats == "number":
            yield f"{id}-{seen[id]}", row
