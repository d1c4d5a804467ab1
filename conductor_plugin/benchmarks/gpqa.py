"""GPQA-Diamond: 198 multiple choice questions by experts. Its page asks for consent before a download."""

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.benchmarks.reader import LETTER, LETTERS, TEXT, Benchmark, Hub, Row, digest, with_options
from conductor_plugin.benchmarks.subset import shuffled

# The set's order has the right one first.
ANSWERS = ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def identify(row: Row) -> str | None:
    return digest(row.text("Question"), row.text(ANSWERS[0]))


def build(row: Row, id: str, seed: int) -> Question:
    answers = tuple(row.text(name) for name in ANSWERS)
    order = shuffled(answers, id, seed)
    options = tuple(answers[index] for index in order)
    return Question(
        id=id,
        benchmark="gpqa-diamond",
        text=with_options(row.text("Question"), options, LETTER),
        gold=LETTERS[order.index(0)],
        grader="choice",
        format_rule=LETTER,
        options=options,
    )


GPQA = Benchmark(
    fields={"Question": TEXT, **dict.fromkeys(ANSWERS, TEXT)},
    identify=identify,
    build=build,
    hub=Hub(repo="Idavidrein/gpqa", revision="633f5ee89ab8ad4522a9f850766b73f62147ffdd", files=("gpqa_diamond.csv",)),
)
