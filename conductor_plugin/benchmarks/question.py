"""A benchmark's question: what is asked, what is right, and how that is judged."""

from typing import Any, Literal

from pydantic import Field

from conductor_plugin.models import Frozen

GraderName = Literal["math", "choice", "text", "code_io", "code_tests", "reasoning_gym"]


class Question(Frozen):
    """One question of one benchmark.

    Attributes:
        id: Unique over all benchmarks and stable over versions of this package, `math500/…` say.
        benchmark: The benchmark's name.
        text: What is asked, with its options and the rule for the answer's form.
        gold: What is right, in the form that the grader wants: a text for `math`, `choice` (the letter) and
            `text`; for `code_io` the tests' inputs and outputs, for `code_tests` the unit tests. JSON-able.
        grader: Who judges, see `conductor_plugin.grading`; `reasoning_gym` is `benchmarks.reasoning_gym.score`.
        format_rule: The sentence of `text` that says what form the answer has; aggregating steps repeat it.
        options: The texts of a multiple choice question, in the order shown (A, B, …).
        level: The difficulty as the set tells it.
        subject: The topic as the set tells it.
        metadata: For graders and checks, never shown: `reference`, the solution that completes a `code_tests`
            prompt; `entry`, what a reasoning-gym scorer needs. JSON-able.
    """

    id: str
    benchmark: str
    text: str
    gold: Any
    grader: GraderName
    format_rule: str = ""
    options: tuple[str, ...] = ()
    level: str | None = None
    subject: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
