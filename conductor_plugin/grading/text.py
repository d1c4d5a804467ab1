"""Exact and numeric text: short free answers, a number with a unit or a few words (RLPR)."""

import re
from decimal import Decimal, InvalidOperation

from conductor_plugin.grading.extract import final_answer
from conductor_plugin.grading.math import MAX_ANSWER, equal
from conductor_plugin.grading.tidy import bare, quantity, tidy
from conductor_plugin.grading.verdict import Verdict

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:\s*(?:\*|\\times|\\cdot|x)\s*10\s*\^?\s*\{?\s*([-+]?\d+)\s*\}?)?")
_ARTICLES = re.compile(r"\b(?:the|a|an)\b")
_LEADING = re.compile(r"^(?:approximately|about|roughly|around|equal to|\\approx|≈|~)\s*", re.IGNORECASE)


def grade_text(gold: str, answer: str) -> Verdict:
    """The final answer against the gold: as numbers with units where both are, else as words, else as formulas.

    A decimal gold is right when the answer, rounded to as many places, is the same; a whole number only itself.
    """
    extracted = final_answer(answer)
    if extracted is None:
        return Verdict(outcome="unparsed", detail="no final answer was found")
    if len(extracted) > MAX_ANSWER:
        return Verdict(outcome="wrong", extracted=extracted[:MAX_ANSWER], detail="the final answer is too long")
    right = _same_words(gold, extracted) or _same_number(gold, extracted) or _same_formula(gold, extracted)
    return Verdict(outcome="right" if right else "wrong", extracted=extracted)


def _same_words(gold: str, answer: str) -> bool:
    return bool(_words(gold)) and _words(gold) == _words(answer)


def _words(text: str) -> str:
    """Signs and points stay: -5 is not 5, and 1.5 is not 15."""
    kept = re.sub(r"[^\w.+\-*/^%=<>\\{}()]|\.(?!\d)|_", " ", bare(tidy(text)))
    return " ".join(_ARTICLES.sub(" ", kept).split())


def _same_number(gold: str, answer: str) -> bool:
    one, other = (quantity(tidy(_LEADING.sub("", text.strip()))) for text in (gold, answer))
    left, right = _decimal(one.text), _decimal(other.text)
    if left is None or right is None or (one.unit and other.unit and one.unit != other.unit):
        return False
    if one.percent != other.percent:
        # 12% is 12 "percent" or 0.12; a plain 12 is not 0.12.
        left, right = (left, right) if left == right else (left / (100 if one.percent else 1), right)
        right = right / 100 if other.percent and left != right else right
    if left == right:
        return True
    exponent = left.as_tuple().exponent
    if "." not in one.text or not isinstance(exponent, int) or abs(exponent) > 300:
        return False
    return abs(right.adjusted()) < 300 and right.quantize(Decimal(1).scaleb(exponent)) == left


def _decimal(text: str) -> Decimal | None:
    match = _NUMBER.fullmatch(text.strip())
    if match is None or len(text) > 300:
        return None
    head = re.match(r"[-+]?(?:\d+\.?\d*|\.\d+)", text.strip())
    try:
        value = Decimal(head[0]) if head else Decimal("NaN")
        return value.scaleb(int(match[1])) if match[1] else value
    except (InvalidOperation, ValueError, OverflowError):
        return None


def _same_formula(gold: str, answer: str) -> bool:
    """Only for golds that are formulas: two sentences are never compared letter by letter."""
    return bool(re.search(r"[\\=^$]|\d\s*[*/]\s*\d", gold)) and equal(gold, answer)
