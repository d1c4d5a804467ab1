"""AIME25: the 30 problems of 2025, whose answers are integers from 0 to 999."""

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.benchmarks.reader import BOXED, TEXT, TEXT_OR_NUMBER, Benchmark, Hub, Row, digest, with_rule

# Some copies of the set have their own rule for the answer at the end of the problem.
THEIR_RULE = "\nPlease reason step by step, and put your final answer within \\boxed{}."


def identify(row: Row) -> str | None:
    return digest(_problem(row))  # copies number the problems differently or not at all


def build(row: Row, id: str, seed: int) -> Question:
    return Question(
        id=id,
        benchmark="aime25",
        text=with_rule(_problem(row), BOXED),
        gold=row.text("answer"),
        grader="math",
        format_rule=BOXED,
    )


def _problem(row: Row) -> str:
    return row.text("problem").removesuffix(THEIR_RULE).strip()


AIME25 = Benchmark(
    fields={"problem": TEXT, "answer": TEXT_OR_NUMBER},
    identify=identify,
    build=build,
    hub=Hub(repo="math-ai/aime25", revision="563bb8404243c5f09de6ec262f2db674fe5bce9b", files=("test.jsonl",)),
    aliases={"prompt": "problem"},
)
