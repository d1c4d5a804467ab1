"""Multiple choice: which letter is found, and when none is."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from conductor_plugin.grading.choice import find_letter, grade_choice
from tests.unit.grading.drawn import WORDS

OPTIONS = ("10 N", "11 N", "11.5 N", "12 N")
LETTERS = st.sampled_from("ABCD")
SPACES = st.sampled_from(["", " ", "  ", "\n"])


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("Answer: A. Wait, no. Answer: B", "B"),
        ("Answer: Because it rises", None),
        ("**Answer: (C)**", "C"),
        (r"\boxed{\text{C}}", "C"),
        ("A is tempting, but the answer is D.", "D"),
        ("The answer is 12 N.", "D"),
        ("B", "B"),
        ("(b)", "B"),
        ("B) 11 N", "B"),
        ("**B**", "B"),
        ("Option C is correct.\n\nC.", "C"),
        ("<answer>D</answer>", "D"),
        ("The correct answer is option **B**.", "B"),
        ("The correct option is B", "B"),
        (r"Answer: $\boxed{B}$", "B"),
        (r"The final answer is $\boxed{\textbf{(A)}}$. I hope it is correct.", "A"),
        ("The answer is: **C. 11.5 N**", "C"),
        ("answer: d", "D"),
        ("ANSWER:C", "C"),
        ("Answer:\n\nB", "B"),
        ("### Answer\nB", "B"),
        ("The answer is A because it falls.", "A"),
        ("The answer is A 10 N", "A"),
        (r"\boxed{12\text{ N}}", "D"),
        (r"\boxed{A} is what I thought first, so \boxed{B}", "B"),
        ("I think it is 11.5 N", "C"),
        # no option, or several
        ("Answer: A or B", None),
        ("The answer is A, B, C, D", None),
        ("Answer: A and C", None),
        ("The answer is a force", None),
        ("The answer is A force", None),
        ("The answer is not A.", None),
        ("Answer: E", None),
        ("Answer: A' ", None),
        ("Answer: AB", None),
        ("It may be 10 N or 12 N", None),
        ("", None),
        ("   \n", None),
    ],
)
def test_which_letter_is_found(answer: str, letter: str | None) -> None:
    assert find_letter(answer, OPTIONS) == letter


def test_verdicts() -> None:
    assert grade_choice("B", "Answer: B", OPTIONS).outcome == "right"
    assert grade_choice("B", "Answer: C", OPTIONS).outcome == "wrong"
    unparsed = grade_choice("B", "Who knows?", OPTIONS)
    assert (unparsed.outcome, unparsed.extracted) == ("unparsed", None)


@given(
    LETTERS,
    LETTERS,
    SPACES,
    st.sampled_from(["{}", "({})", "**{}**", "**({})**", r"\boxed{{{}}}", r"$\boxed{{\text{{{}}}}}$"]),
)
def test_the_last_letter_counts_however_it_is_written(first: str, last: str, space: str, written: str) -> None:
    answer = f"Answer: {first}. Wait, no.{space} Answer:{space}{written.format(last)}"
    assert find_letter(answer, OPTIONS) == last
    assert find_letter(answer + ".", OPTIONS) == last


@given(LETTERS, st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), WORDS)
def test_a_letter_that_begins_a_word_is_none(letter: str, other: str, word: str) -> None:
    assert find_letter(f"Answer: {letter}{word.lower()} it rises", OPTIONS) is None
    assert find_letter(f"Answer: {other}", OPTIONS) == (other if other in "ABCD" else None)


@given(st.lists(WORDS, min_size=4, max_size=4, unique_by=str.casefold), st.integers(0, 3), SPACES)
def test_an_options_text_names_it(words: list[str], index: int, space: str) -> None:
    assume(not any(len(word) == 1 for word in words))
    assert find_letter(f"The answer is{space or ' '}{words[index]}.", words) == "ABCD"[index]
    assert find_letter(f"Both {words[0]} and {words[1]}", words) is None
