"""Reduce steps: named pure functions over the outputs that a step may see. No worker, no cost."""

from collections import Counter
from collections.abc import Callable, Sequence

from conductor_plugin.context import Seen


def majority(seen: Sequence[Seen], argument: int | None = None) -> str:
    """The most frequent output, compared without surrounding blanks; ties go to the earliest."""
    votes = Counter(step.output.strip() for step in seen)
    winner = max(votes, key=lambda text: votes[text], default="")
    return next((step.output for step in seen if step.output.strip() == winner), "")


def pick(seen: Sequence[Seen], argument: int | None = None) -> str:
    """The output of step number `argument`. LookupError if it is not visible."""
    for step in seen:
        if step.index == argument:
            return step.output
    raise LookupError(f"pick: step {argument} is not among the visible steps {[step.index for step in seen]}")


REDUCERS: dict[str, Callable[[Sequence[Seen], int | None], str]] = {"majority": majority, "pick": pick}
