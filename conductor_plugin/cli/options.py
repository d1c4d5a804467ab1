"""Options that several commands share, and how what they hold is read."""

import math
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from conductor_plugin.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])
LONGEST_QUESTION = 400_000  # bytes; Prefect refuses flow parameters of more than 512 KiB

POOL_HELP = (
    "Pool file (YAML), or the name of a shipped pool (README); for answer also block/NAME of a Prefect block. "
    "Default: the embedded pool."
)


def pool_options(command: F) -> F:
    """--pool, --only, --exclude."""
    for option in reversed(
        [
            click.option("--pool", "pool_file", metavar="FILE|NAME", help=POOL_HELP),
            click.option("--only", multiple=True, metavar="TAG|NAME", help="Use only these workers."),
            click.option("--exclude", multiple=True, metavar="TAG|NAME", help="Leave these workers out."),
        ]
    ):
        command = option(command)
    return command


def planner_options(command: F) -> F:
    """--planner, --plan, --blind, --few-shot, --max-steps, --max-rounds, --label."""
    for option in reversed(
        [
            click.option(
                "--planner",
                metavar="NAME|MODEL",
                help="template:NAME, a litellm model string, or one of the compared systems (README).",
            ),
            click.option("--plan", "plan_file", metavar="FILE|-", help="Run the plan in this completion instead."),
            click.option("--blind", is_flag=True, help="Show a prompted planner ordinals alone."),
            click.option("--few-shot", default="default", metavar="NAME|FILE|none", help="Example plans for a model."),
            click.option(
                "--max-steps",
                default=5,
                show_default=True,
                type=click.IntRange(1, 100),
                help="The most steps of a plan that a model writes.",
            ),
            click.option(
                "--max-rounds",
                default=0,
                show_default=True,
                type=click.IntRange(0, 10),
                help="How often the Conductor may plan again.",
            ),
            click.option("--label", help="The question's data label. Default: the pool's lowest."),
        ]
    ):
        command = option(command)
    return command


class Positive(click.FloatRange):
    """A finite number above 0."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, or click's own error; a range alone lets NaN and infinity through."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout.")


def quiet_prefect() -> None:
    """Before Prefect is imported: no log lines between ours (the server keeps them), no telemetry and its notice."""
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    os.environ.setdefault("DO_NOT_TRACK", "1")
    # `check_prefect_home` says so in a sentence.
    warnings.filterwarnings("ignore", message="Failed to create the Prefect home directory")


def read_question(question: str, plan_file: str | None = None) -> str:
    """The question, from stdin where it is `-`. InputError if it is empty or too long."""
    if question == "-":
        if plan_file == "-":
            raise InputError("only one of the question and --plan can be read from stdin", code="bad_option")
        question = _stdin()
    if not question.strip():
        raise InputError("the question is empty; write it after the command, or - to read stdin", code="empty_question")
    if "\0" in question or any("\ud800" <= c <= "\udfff" for c in question):
        raise InputError("the question holds a NUL or bytes that are not UTF-8 text", code="question_not_text")
    size = len(question.encode())
    if size > LONGEST_QUESTION:
        raise InputError(f"the question has {size} bytes; the limit is {LONGEST_QUESTION}", code="question_too_long")
    return question


def read_completion(plan_file: str | None) -> str | None:
    """The completion that --plan names. InputError if it cannot be read."""
    if plan_file is None:
        return None
    return _stdin() if plan_file == "-" else read_text(plan_file, "plan_unreadable")


def read_text(path: str, code: str) -> str:
    """A text file's content. InputError with that code if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"cannot read {path}: {reason}", code=code) from None


def _stdin() -> str:
    if sys.stdin is None:
        raise InputError("stdin is closed", code="bad_option")
    try:
        return sys.stdin.buffer.read().decode("utf-8").strip("\n")
    except UnicodeDecodeError:
        raise InputError("stdin is not UTF-8 text", code="bad_option") from None
