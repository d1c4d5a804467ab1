"""The figures that tell how replications failed, and the thresholds that stop paying."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.receipt import PlanRecord
from training.config import Thresholds
from training.guard import entropy, is_dead, measure, parsed_by_length, reason_to_pause
from training.reward import NO_FIRST_ROUND, Outcome

WORKERS = ("a", "b", "c")


def outcome(*ids, right=True, reward=None):
    plan = PlanRecord(model_id=ids, subtasks=("",) * len(ids), access_list=((),) * len(ids))
    reward = (1.0 if right else 0.5) if reward is None else reward
    names = tuple(WORKERS[i] for i in ids)
    return Outcome(reward, True, right, plan=plan, workers=names, length=len(ids), calls=len(ids))


FAULT = Outcome(0.0, valid=False, error="bad_access", length=2)
LOST = Outcome(None, error="connection")

anything = st.one_of(
    st.builds(
        lambda ids, right: outcome(*ids, right=right),
        st.lists(st.integers(0, 2), min_size=1, max_size=5),
        st.booleans(),
    ),
    st.sampled_from([FAULT, LOST, NO_FIRST_ROUND]),
)


def test_the_figures_of_an_iteration():
    figures = measure([[outcome(0), outcome(0, 1), FAULT, LOST], [outcome(0, right=False)] * 4], WORKERS)
    assert figures["parse_rate"] == 7 / 8
    assert figures["parse_rate/1"] == 1.0
    assert figures["parse_rate/2"] == 0.5
    assert figures["right_given_valid"] == 2 / 6
    assert figures["one_step_share"] == 5 / 6
    assert figures["distinct_plans"] == 1.5
    assert figures["dead_groups"] == 0.5
    assert figures["failed_share"] == 1 / 8
    assert figures["reward_mean"] == pytest.approx((1 + 1 + 0 + 4 * 0.5) / 7)
    assert figures["workers_extinct"] == 1
    assert figures["worker/a"] == 6 / 7
    assert figures["calls"] == 7


@given(st.lists(st.lists(anything, min_size=1, max_size=8), max_size=6))
def test_shares_are_shares(groups):
    figures = measure(groups, WORKERS)
    shares = [name for name in figures if name.startswith(("parse", "worker/"))]
    for name in (*shares, "right_given_valid", "one_step_share", "worker_entropy", "dead_groups", "failed_share"):
        assert 0 <= figures[name] <= 1, name
    assert sum(figures[f"worker/{name}"] for name in WORKERS) == pytest.approx(1.0 if figures["calls"] else 0.0)
    assert all(math.isfinite(value) for value in figures.values())


@given(st.lists(st.lists(anything, min_size=1, max_size=8), max_size=6), st.randoms())
def test_the_order_of_rollouts_in_a_group_does_not_matter(groups, random):
    mixed = [random.sample(group, len(group)) for group in groups]
    assert measure(mixed, WORKERS) == pytest.approx(measure(groups, WORKERS))


@given(st.lists(anything, min_size=1, max_size=20))
def test_lengths_count_everything_once(outcomes):
    counts = parsed_by_length(outcomes)
    assert sum(count for _, count in counts.values()) == len(outcomes)
    assert sum(valid for valid, _ in counts.values()) == sum(o.valid for o in outcomes)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=8))
def test_entropy_is_one_for_equal_shares_alone(counts):
    value = entropy(counts)
    assert 0 <= value <= 1 + 1e-9
    if sum(counts):
        assert (value > 1 - 1e-9) == (len(set(counts)) == 1)
        assert (value == 0) == (sum(count > 0 for count in counts) == 1)


def test_a_group_without_two_different_rewards_is_dead():
    assert is_dead([outcome(0), outcome(1), LOST])
    assert is_dead([LOST])
    assert not is_dead([outcome(0), FAULT])


@given(st.lists(st.floats(0, 1), max_size=12), st.floats(0, 1), st.integers(1, 5))
def test_a_pause_needs_a_whole_window_beyond_the_threshold(values, bound, window):
    history = [
        {"parse_rate": value, "worker_entropy": 1, "one_step_share": 0, "dead_groups": 0, "failed_share": 0}
        for value in values
    ]
    reason = reason_to_pause(history, Thresholds(parse_rate=bound, window=window))
    last = values[-window:]
    assert (reason is not None) == (len(last) == window and all(value < bound for value in last))


def test_the_reason_names_figure_side_and_value():
    figures = {"parse_rate": 1.0, "worker_entropy": 0.5, "one_step_share": 0.99, "dead_groups": 0.2, "failed_share": 0}
    assert reason_to_pause([figures] * 3, Thresholds(one_step_share=0.95, window=3)) == (
        "the share of one-step plans was above 0.95 for 3 iterations, at last 0.990"
    )
    assert reason_to_pause([figures] * 2, Thresholds(one_step_share=0.95, window=3)) is None
