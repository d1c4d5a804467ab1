"""MMLU: multiple choice over 57 subjects, the test split."""

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.benchmarks.reader import LETTER, LETTERS, TEXT, Benchmark, Hub, Row, digest, with_options


def identify(row: Row) -> str | None:
    return f"{row.text('subject')}/{digest(row.text('question'), *map(str, row['choices']))}"


def build(row: Row, id: str, seed: int) -> Question:
    # The options stay in the set's order: some speak of one another ("A and D", "all of the above"), and
    # unlike GPQA's the right one stands in no particular place.
    options, right = tuple(row["choices"]), row["answer"]
    if not 2 <= len(options) <= len(LETTERS) or not all(isinstance(option, str) for option in options):
        raise row.bad(f"the field 'choices' is a list of 2 to {len(LETTERS)} texts")
    if not 0 <= right < len(options):
        raise row.bad(f"the field 'answer' is the place of the right choice, 0 to {len(options) - 1}, not {right}")
    return Question(
        id=id,
        benchmark="mmlu",
        text=with_options(row.text("question"), options, LETTER),
        gold=LETTERS[right],
        grader="choice",
        format_rule=LETTER,
        options=options,
        subject=row.text("subject"),
    )


MMLU = Benchmark(
    fields={"question": TEXT, "subject": TEXT, "choices": (list,), "answer": (int,)},
    identify=identify,
    build=build,
    hub=Hub(
        repo="cais/mmlu",
        revision="c30699e8356da336a370243923dbaf21066bb9fe",
        files=("all/test-00000-of-00001.parquet",),
    ),
    aliases={"type": "subject"},
    repeats="number",  # the set has a few questions twice, and its published scores count both
)
