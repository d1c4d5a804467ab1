"""Reduce steps: the majority of the visible outputs, and the pick of one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.context import Seen
from conductor_plugin.reduce import REDUCERS, majority, pick

OUTPUTS = st.lists(st.sampled_from(["4", " 4\n", "5", "5 ", "", "  ", "four"]), max_size=9)


def seen(outputs: list[str]) -> list[Seen]:
    return [Seen(index=2 * i, subtask="", output=output) for i, output in enumerate(outputs)]


@given(OUTPUTS)
def test_nothing_is_more_frequent_than_the_majority(outputs: list[str]) -> None:
    winner = majority(seen(outputs))
    votes = [output.strip() for output in outputs]
    assert winner in outputs or (winner == "" and not outputs)
    assert all(votes.count(winner.strip()) >= votes.count(vote) for vote in votes)


@pytest.mark.parametrize(
    ("outputs", "winner"),
    [
        (["4", "5", "5 "], "5"),
        ([" 4\n", "4", "5"], " 4\n"),  # as the earliest of the winners wrote it
        (["5", "4", "4", "5"], "5"),  # a tie goes to the earliest
        (["", "", "4"], ""),
        (["4"], "4"),
        ([], ""),
    ],
)
def test_majority(outputs: list[str], winner: str) -> None:
    assert majority(seen(outputs)) == winner


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
