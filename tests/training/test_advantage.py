"""Advantages within plan lengths: no length gains, no row is compared with another length."""

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from training.advantage import within_lengths  # noqa: E402

REWARDS = st.sampled_from([0.0, 0.5, 1.0, float("nan")])
SIZE = 4
GROUPS = st.lists(st.tuples(REWARDS, st.integers(-1, 3), st.integers(1, 40)), min_size=SIZE, max_size=5 * SIZE).map(
    lambda rows: rows[: len(rows) // SIZE * SIZE]
)


def advantages(rows):
    return within_lengths(*(torch.tensor(column) for column in zip(*rows, strict=True)), SIZE)


def test_a_plan_is_compared_with_those_of_its_length():
    of_one, of_two = [(1.0, 1, 9), (0.5, 1, 9)], [(0.5, 2, 15), (0.5, 2, 15)]
    found = advantages(of_one + of_two)
    assert found[:2].tolist() == pytest.approx([0.25 / 0.2042, -0.25 / 0.2042], rel=1e-3)
    assert found[2:].tolist() == [0, 0]


def test_what_names_no_workers_is_worse_than_what_does():
    found = advantages([(0.0, -1, 40), (0.5, 1, 9), (0.5, 2, 15), (0.5, 3, 20)])
    assert found[0] < 0
    assert found[1:].tolist() == [0, 0, 0]


@given(GROUPS)
def test_no_length_gains(rows):
    """A length's part of the loss, where each completion counts with 1 / tokens."""
    found = advantages(rows)
    assert found.isfinite().all()
    for start in range(0, len(rows), SIZE):
        group = range(start, start + SIZE)
        for length in range(4):
            assert abs(sum(found[i].item() / rows[i][2] for i in group if rows[i][1] == length)) < 1e-3


@given(GROUPS)
def test_of_equal_length_the_better_reward_has_the_higher_advantage(rows):
    found = advantages(rows)
    for start in range(0, len(rows), SIZE):
        group = range(start, start + SIZE)
        for i in group:
            if rows[i][0] != rows[i][0]:
                assert found[i] == 0
            for j in group:
                if rows[i][1] == rows[j][1] and rows[i][0] > rows[j][0]:
                    assert found[i] > found[j]
