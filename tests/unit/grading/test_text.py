"""Exact and numeric text."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.grading.text import grade_text
from tests.unit.grading.drawn import NUMBERS, UNITS, WORDS


@pytest.mark.parametrize(
    ("gold", "answer", "outcome"),
    [
        ("12 N", "The answer is 12 N.", "right"),
        ("12 N", "12", "right"),
        ("12 N", "12 J", "wrong"),
        ("3.14", "3.14159", "right"),
        ("3.14", "3.1", "wrong"),
        ("3", "3.2", "wrong"),
        ("0.62", "about 0.6213", "right"),
        ("Paris", "The answer is **Paris**.", "right"),
        ("the red fox", "Red fox", "right"),
        ("no", "The answer is none", "wrong"),
        ("increases", "decreases", "wrong"),
        ("-5", "5", "wrong"),
        ("1.5", "15", "wrong"),
        ("1.2e5", "120000", "right"),
        (r"2.5 \times 10^{-3} m", "0.0025 m", "right"),
        ("50000000000000000", "50000000000000001", "wrong"),
        ("12%", "0.12", "right"),
        ("12%", "12", "right"),
        ("12", "0.12", "wrong"),
        ("1,234", "1234", "right"),
        ("0.333", "1/3", "wrong"),
        ("$E=mc^2$", "E = m c^2", "right"),
        (r"\frac{1}{2}", "0.5", "right"),
        ("east", "seat", "wrong"),
        ("5", "", "unparsed"),
    ],
)
def test_text(gold: str, answer: str, outcome: str) -> None:
    assert grade_text(gold, answer).outcome == outcome


@given(NUMBERS, st.integers(1, 4), st.integers(0, 9), UNITS, UNITS, st.sampled_from(["", " ", "  "]))
def test_decimals_are_compared_to_the_golds_last_place(
    n: int, places: int, more: int, one: str, other: str, space: str
) -> None:
    gold = Decimal(n).scaleb(-places)
    longer = f"{gold:f}{min(more, 4)}"
    assert grade_text(f"{gold:f}", longer).outcome == "right"
    assert grade_text(f"{gold:f}", f"{gold + Decimal(1).scaleb(-places):f}").outcome == "wrong"
    assert grade_text(f"{gold:f} {one}", f"{space}{gold:f} {other}").outcome == ("right" if one == other else "wrong")


@given(WORDS, WORDS)
def test_words_are_compared_without_case(one: str, other: str) -> None:
    expected = "right" if one.casefold() == other.casefold() else "wrong"
    assert grade_text(one, f"The answer is {other}.").outcome == expected
    assert grade_text(one, f"Answer:  **{one.upper()}**").outcome == "right"
