r"""Whether two final answers of mathematics mean the same. Runs in a worker process, see `processes`.

What `shape` and `values` understand is decided here, exactly; math-verify is asked about the rest (integrals, sums,
sets of points …). It is not asked first because of what it takes for equal: 1/2004! and 1/2006!, 5 cm and 5 m, 52_8
and 52_9.
"""

import re

from conductor_plugin.grading.extract import final_answer
from conductor_plugin.grading.formula import Unreadable, read
from conductor_plugin.grading.shape import Shape, shape
from conductor_plugin.grading.tidy import bare, tidy
from conductor_plugin.grading.values import OutOfReach, same_value
from conductor_plugin.grading.verdict import Verdict

MAX_ANSWER = 5000


def grade_math(gold: str, answer: str) -> Verdict:
    """The last box, "answer is" or bare line of the answer against the gold. Raises nothing on purpose."""
    extracted = final_answer(answer)
    if extracted is None:
        return Verdict(outcome="unparsed", detail="no final answer was found")
    if len(extracted) > MAX_ANSWER:
        return Verdict(outcome="wrong", extracted=extracted[:MAX_ANSWER], detail="the final answer is too long")
    return Verdict(outcome="right" if equal(gold, extracted) else "wrong", extracted=extracted)


def equal(gold: str, answer: str) -> bool:
    """Whether the answer means what the gold does; not symmetric: a gold unit may be left out of an answer."""
    # Spaces between letters and digits are kept: "1 2" is not "12".
    if re.sub(r"(?<!\w) | (?!\w)", "", tidy(gold)) == re.sub(r"(?<!\w) | (?!\w)", "", tidy(answer)):
        return True
    one, other = shape(gold), shape(answer)
    try:
        return _same(one, other)
    except OutOfReach:
        return False  # nor can math-verify: it would only take all of the time that there is
    except Unreadable:
        return _ask_math_verify(gold, answer)


def _same(gold: Shape, answer: Shape) -> bool:
    if gold.unit and answer.unit and gold.unit != answer.unit:
        return False
    if "words" in (gold.kind, answer.kind):
        return _words(gold) == _words(answer) != ""
    if "assignment" in (gold.kind, answer.kind):
        return _same_assignment(gold, answer)
    if "interval" in (gold.kind, answer.kind):
        gold, answer = _opened(gold), _opened(answer)
    # What is listed in the order of a tuple may lack its brackets.
    if gold.kind == "tuple" and answer.kind == "list":
        return _same_parts(gold, answer)
    if gold.kind == "list" and answer.kind == "list":
        return _same_list(gold, answer)
    if gold.kind != answer.kind:
        return _one_column(gold, answer)
    if gold.kind in ("tuple", "matrix", "interval"):
        return gold.mark == answer.mark and _same_parts(gold, answer)
    if gold.kind == "equation":
        return same_value(gold.text, answer.text, factor=True)
    if gold.kind == "relation":
        return gold.mark == answer.mark and same_value(gold.text, answer.text)
    return gold.kind == "empty" or _same_value(gold, answer)


def _words(answer: Shape) -> str:
    return bare(answer.text)


def _same_value(gold: Shape, answer: Shape) -> bool:
    if gold.mark or answer.mark:
        # Digits in a base. The base may be left out where the question names it; another one is another number.
        same_base = gold.mark == answer.mark or not answer.mark
        return bool(gold.mark) and same_base and gold.text == answer.text.upper().lstrip("0")
    if same_value(gold.text, answer.text):
        return True
    # "What percentage …": 10% is 10 or 0.1, and 10 is 10%, but 10 is not 0.1.
    if gold.percent and not answer.percent:
        return same_value(f"({gold.text})/100", answer.text)
    return answer.percent and not gold.percent and same_value(gold.text, f"({answer.text})/100")


def _same_assignment(gold: Shape, answer: Shape) -> bool:
    if gold.kind == answer.kind == "assignment":
        return gold.text == answer.text and _same(gold.parts[0], answer.parts[0])
    one, other = (gold, answer) if gold.kind == "assignment" else (answer, gold)
    if other.kind == "equation":
        return same_value(f"({one.text})-({one.mark})", other.text, factor=True)
    return _same(gold.parts[0], answer) if one is gold else _same(gold, answer.parts[0])


def _same_parts(gold: Shape, answer: Shape) -> bool:
    return len(gold.parts) == len(answer.parts) and all(map(_same, gold.parts, answer.parts))


def _same_list(gold: Shape, answer: Shape) -> bool:
    """In any order; each answer counts for one element."""
    left = list(answer.parts)
    if len(left) != len(gold.parts):
        return False
    for part in gold.parts:
        match = next((n for n, other in enumerate(left) if _same(part, other)), None)
        if match is None:
            return False
        del left[match]
    return True


def _opened(answer: Shape) -> Shape:
    """(a, b) is a point, and next to an interval an open one."""
    if answer.kind == "tuple" and len(answer.parts) == 2:
        return Shape("interval", parts=answer.parts, mark="()")
    return answer


def _one_column(gold: Shape, answer: Shape) -> bool:
    """A column of numbers may be written as a tuple; a list of one element without its braces."""
    if {gold.kind, answer.kind} == {"matrix", "tuple"}:
        columns, point = (gold, answer) if gold.kind == "matrix" else (answer, gold)
        flat = tuple(part for row in columns.parts for part in row.parts)
        single = len(columns.parts) == 1 or all(len(row.parts) == 1 for row in columns.parts)
        return single and _same_parts(Shape("tuple", parts=flat), point)
    if {gold.kind, answer.kind} == {"list", "value"}:
        listed, single_value = (gold, answer) if gold.kind == "list" else (answer, gold)
        return len(listed.parts) == 1 and _same(listed.parts[0], single_value)
    return False


def _ask_math_verify(gold: str, answer: str) -> bool:
    if not (_is_latex(gold) and _is_latex(answer)):
        return False
    from math_verify import parse, verify

    # Its own alarms are off: a worker process has one limit, over everything that it does for an answer.
    parsed = [parse(rf"\boxed{{{tidy(text)}}}", parsing_timeout=None) for text in (gold, answer)]
    if not all(parsed):
        return False
    # A bare string means that it could not read the formula, and then that it reads alike is no news.
    readable = [[item for item in items if not isinstance(item, str)] for items in parsed]
    return all(readable) and bool(verify(*readable, timeout_seconds=None))


def _is_latex(text: str) -> bool:
    """Whether it may be a formula that another grammar reads: over other texts math-verify takes seconds."""
    if not text.isascii() or any(text.count(opening) != text.count(closing) for opening, closing in ("{}", "()", "[]")):
        return False
    try:
        read(tidy(text))
    except Unreadable:
        return bool(re.search(r"\\[A-Za-z]{2,}", text))
    return True
