"""What a benchmark is here: where its rows are, which fields they have, and how a row becomes a Question."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.errors import InputError
from conductor_plugin.models import Frozen

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
TEXT = (str,)
TEXT_OR_NUMBER = (str, int)

BOXED = r"Give the final answer in \boxed{}."
LETTER = 'Answer with the letter alone on the last line, as "Answer: X".'


class Hub(Frozen):
    """Files of one data set on the Hugging Face hub, at one commit.

    The commits were taken from public evaluation projects that pin the same files; RLPR's was found in one
    project alone. MATH500's file has the SHA-256 that is published for its commit.
    """

    repo: str
    revision: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One row as it was read. `where` continues a sentence: "FILE, line 3"."""

    where: str
    fields: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def text(self, name: str) -> str:
        return str(self.fields[name]).strip()

    def bad(self, problem: str) -> InputError:
        return InputError(f"{self.where}: {problem}", code="data_bad_row")


@dataclass(frozen=True)
class Benchmark:
    """One set.

    Attributes:
        fields: The fields that every row must have, with the types that each may be of.
        identify: A row's id without the benchmark's name; None if the row is no part of the set. It is called
            for every row, so that only the rows of a subset are built.
        build: The Question of a row, from the row, its full id and the seed of the option shuffle.
        hub: Where the rows are, None if they come from an installed package.
        aliases: Names that other copies of the set give to a field, and the name that is meant.
        repeats: What a second row of the same id is: an error, dropped, or numbered ("…-2").
    """

    fields: Mapping[str, tuple[type, ...]]
    identify: Callable[[Row], str | None]
    build: Callable[[Row, str, int], Question]
    hub: Hub | None
    aliases: Mapping[str, str] = field(default_factory=dict)
    repeats: Literal["refuse", "drop", "number"] = "refuse"


def digest(*texts: str) -> str:
    """A short name for texts that have none, the same wherever and in whatever order they are read."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def with_rule(question: str, rule: str) -> str:
    """The text of a question: the answer's form is the last line."""
    return f"{question}\n\n{rule}"


def with_options(question: str, options: tuple[str, ...], rule: str) -> str:
    lines = (f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))
    return with_rule(question + "\n\n" + "\n".join(lines), rule)
