"""MATH500: 500 competition problems."""

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.benchmarks.reader import BOXED, TEXT, TEXT_OR_NUMBER, Benchmark, Hub, Row, with_rule


def identify(row: Row) -> str | None:
    return row.text("unique_id").removeprefix("test/").removesuffix(".json")


def build(row: Row, id: str, seed: int) -> Question:
    return Question(
        id=id,
        benchmark="math500",
        text=with_rule(row.text("problem"), BOXED),
        gold=row.text("answer"),
        grader="math",
        format_rule=BOXED,
        level=row.text("level"),
        subject=row.text("subject"),
    )


MATH500 = Benchmark(
    fields={"unique_id": TEXT, "problem": TEXT, "answer": TEXT_OR_NUMBER, "subject": TEXT, "level": TEXT_OR_NUMBER},
    identify=identify,
    build=build,
    hub=Hub(repo="HuggingFaceH4/MATH-500", revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be", files=("test.jsonl",)),
)
