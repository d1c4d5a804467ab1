"""Reduce steps: named pure functions over the outputs that a step may see. No worker, no cost."""

import re
from collections import Counter
from collections.abc import Callable, Sequence

from conductor_plugin.context import Seen

_STATED = re.compile(r"\banswer\b[\s*_]*(?:is|:|=)[\s*_:]*(\S.*)", re.IGNORECASE)
_SENTENCE_END = re.compile(r"\.\s")
_WRAPPED = re.compile(r"\\(?:text|mathrm|textbf|mathbf)\{([^{}]*)\}")
_BETWEEN_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def extract_answer(output: str) -> str:
    r"""The short answer that an output states, in a form in which equal answers are equal texts.

    It is what stands in the last `\boxed{…}`, else after the last "answer is" or "answer:", else in the last
    line that is not blank. Case, blanks, dollar signs, emphasis and the commas of thousands do not count.
    """
    stated = _last_boxed(output)
    if stated is None:
        found = _STATED.findall(output)
        lines = [line for line in output.splitlines() if line.strip()]
        stated = _SENTENCE_END.split(found[-1])[0] if found else lines[-1] if lines else ""
    return _plain(stated)


def _last_boxed(text: str) -> str | None:
    r"""The content of the last `\boxed{…}` whose braces close."""
    end = len(text)
    while (start := text.rfind(r"\boxed{", 0, end)) >= 0:
        depth = 0
        for i in range(start + len(r"\boxed"), end):
            depth += {"{": 1, "}": -1}.get(text[i], 0)
            if depth == 0:
                return text[start + len(r"\boxed{") : i]
        end = start
    return None


def _plain(answer: str) -> str:
    for written, plain in ((r"\dfrac", r"\frac"), (r"\%", "%"), (r"\$", "$"), (r"\(", " "), (r"\)", " ")):
        answer = answer.replace(written, plain)
    answer = _BETWEEN_THOUSANDS.sub("", _WRAPPED.sub(r"\1", answer))
    answer = "".join(answer.split()).casefold().lstrip("*_$`\"'").rstrip("*_$`.\"'")
    return answer[1:-1] if re.fullmatch(r"\(\w\)", answer) else answer


def majority(seen: Sequence[Seen], argument: int | None = None) -> str:
    """The earliest of the outputs that state the most frequent answer; ties go to the earliest answer.

    Outputs are compared by the answer that they state (`extract_answer`). One that states none is no vote,
    and "" comes back where there is no vote.
    """
    answers = [extract_answer(step.output) for step in seen]
    votes = Counter(answer for answer in answers if answer)
    winner = max(votes, key=lambda answer: votes[answer], default=None)
    return next((step.output for step, answer in zip(seen, answers, strict=True) if answer == winner), "")


def pick(seen: Sequence[Seen], argument: int | None = None) -> str:
    """The output of step number `argument`. LookupError if it is not visible."""
    for step in seen:
        if step.index == argument:
            return step.output
    raise LookupError(f"pick: step {argument} is not among the visible steps {[step.index for step in seen]}")


REDUCERS: dict[str, Callable[[Sequence[Seen], int | None], str]] = {"majority": majority, "pick": pick}
