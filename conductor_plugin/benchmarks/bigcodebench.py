"""BigCodeBench-Hard, the variant "complete": 148 programs with many libraries, judged by unit tests."""

from conductor_plugin.benchmarks.code import FIELDS, completion, last_part
from conductor_plugin.benchmarks.question import Question
from conductor_plugin.benchmarks.reader import TEXT, Benchmark, Hub, Row


def build(row: Row, id: str, seed: int) -> Question:
    return completion(row, id, benchmark="bigcodebench-hard", prompt=row["complete_prompt"], style="unittest")


BIGCODEBENCH = Benchmark(
    fields={**FIELDS, "complete_prompt": TEXT},
    identify=last_part,
    build=build,
    hub=Hub(
        repo="bigcode/bigcodebench-hard",
        revision="298d2cc7b96612e15e47313c3603ee124cee0c1f",
        files=("data/v0.1.4-00000-of-00001.parquet",),
    ),
)
