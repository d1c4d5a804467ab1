"""Reduce steps: the majority of the visible outputs, and the pick of one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.context import Seen
from conductor_plugin.reduce import REDUCERS, extract_answer, majority, pick

OUTPUTS = st.lists(st.sampled_from(["4", " 4\n", "5", "5 ", "", "  ", "four"]), max_size=9)


def seen(outputs: list[str]) -> list[Seen]:
    return [Seen(index=2 * i, subtask="", output=output) for i, output in enumerate(outputs)]


@given(OUTPUTS)
def test_nothing_is_more_frequent_than_the_majority(outputs: list[str]) -> None:
    winner = majority(seen(outputs))
    votes = [output.strip() for output in outputs if output.strip()]
    assert winner in outputs if votes else winner == ""
    assert all(votes.count(winner.strip()) >= votes.count(vote) for vote in votes)


@pytest.mark.parametrize(
    ("outputs", "winner"),
    [
        (["4", "5", "5 "], "5"),
        ([" 4\n", "4", "5"], " 4\n"),  # as the earliest of the winners wrote it
        (["5", "4", "4", "5"], "5"),  # a tie goes to the earliest
        (["", " ", "4"], "4"),  # a reply that states nothing is no vote
        ([r"so \boxed{5}", "The answer is 4.", "I add.\n\nAnswer: 4", "5 or 4?\n6"], "The answer is 4."),
        (["(B)", "It is C\n\nb", "C"], "(B)"),
        (["4"], "4"),
        ([], ""),
    ],
)
def test_majority(outputs: list[str], winner: str) -> None:
    assert majority(seen(outputs)) == winner


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        (r"First \boxed{3}, no: \boxed{\dfrac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{7} and then \boxed{8 was cut off", "7"),
        (r"\boxed{\text{Paris}}", "paris"),
        ("The answer is 4.5. I am sure.", "4.5"),
        ("**Final answer:** (C)", "c"),
        ("My answer is 3. Wait.\nThe answer is: $1,234$", "1234"),
        ("Answer:\n42", "42"),
        ("Let me think.\n12 + 1\n\n13\n\n", "13"),
        ("f(1, 234)", "f(1,234)"),
        (r"The answer is \(.5\).", ".5"),
        (r"Answer: 50\%", "50%"),
        ("Answer: x = 1; y = 2.", "x=1;y=2"),
        (" \n", ""),
        (r"\boxed{}", ""),
    ],
)
def test_the_answer_that_an_output_states(output: str, answer: str) -> None:
    assert extract_answer(output) == answer


def test_extracting_takes_linear_time_of_hostile_text() -> None:
    for text in (r"\boxed{" * 20_000, "answer " * 50_000, "answer" + "*" * 200_000, "answer is\n" * 20_000):
        extract_answer(text)


def test_pick_finds_a_step_by_its_number() -> None:
    assert pick(seen(["a", "b", "c"]), 4) == "c"


@pytest.mark.parametrize("argument", [1, 6, -1, None])
def test_pick_refuses_what_it_may_not_see(argument: int | None) -> None:
    with pytest.raises(LookupError, match=r"step -?\w+ is not among the visible steps \[0, 2, 4\]"):
        pick(seen(["a", "b", "c"]), argument)


def test_every_reducer_is_pure() -> None:
    for reduce in REDUCERS.values():
        visible = seen(["a", "b", "b"])
        assert reduce(visible, 2) == reduce(visible, 2) == "b"
        assert visible == seen(["a", "b", "b"])
