"""What the sets whose answer completes a Python function have in common: BigCodeBench and HumanEval."""

from typing import Literal

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.benchmarks.reader import TEXT, Row, with_rule

RULE = "Give the complete program, with its imports and the function `{}`, in one ```python block."
FIELDS = {"task_id": TEXT, "test": TEXT, "canonical_solution": TEXT, "entry_point": TEXT}


def completion(row: Row, id: str, *, benchmark: str, prompt: str, style: Literal["check", "unittest"]) -> Question:
    """The question "complete this code". The reference solution is in the metadata and is never shown."""
    entry_point = row.text("entry_point")
    rule = RULE.format(entry_point)
    return Question(
        id=id,
        benchmark=benchmark,
        text=with_rule(f"Complete this Python program.\n\n```python\n{prompt.strip()}\n```", rule),
        gold={"test": row["test"], "entry_point": entry_point, "prompt": prompt, "style": style},
        grader="code_tests",
        format_rule=rule,
        metadata={"reference": row["canonical_solution"]},
    )


def last_part(row: Row) -> str:
    return row.text("task_id").rpartition("/")[2]
