"""Seeded subsets and shuffles: reproducible, prefixes of one another, and independent of the file's order."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.benchmarks import load
from conductor_plugin.benchmarks.subset import shuffled, subset
from conductor_plugin.errors import InputError
from tests.unit.benchmarks import rows
from tests.unit.benchmarks.rows import json_lines

IDS = st.lists(st.text(min_size=1), unique=True, min_size=1, max_size=30)
SEEDS = st.integers(-(2**70), 2**70)


@given(IDS, SEEDS, st.integers(1, 40), st.integers(1, 40), st.randoms())
def test_a_smaller_subset_begins_a_larger_one_whatever_the_order_of_the_ids(ids, seed, n, m, rng):
    mixed = rng.sample(ids, len(ids))
    small, large = subset(ids, min(n, m), seed), subset(mixed, max(n, m), seed)
    assert large[: len(small)] == small
    assert sorted(subset(ids, None, seed)) == sorted(ids)


@given(IDS, SEEDS)
def test_ids_that_are_added_move_no_other(ids, seed):
    order = subset(ids, None, seed)
    assert subset(ids[1:], None, seed) == [id for id in order if id != ids[0]]


def test_seeds_give_different_orders():
    ids = [str(number) for number in range(50)]
    assert len({tuple(subset(ids, 10, seed)) for seed in range(20)}) == 20


def test_the_order_is_this_one_over_versions():
    assert subset("abcdefgh", 5, 7) == ["c", "b", "a", "e", "d"]
    assert shuffled(("w", "x", "y", "z"), "gpqa-diamond/1", 7) == (2, 3, 0, 1)


@given(st.integers(1, 10), SEEDS, st.text())
def test_a_shuffle_is_a_permutation_and_reproducible(count, seed, id):
    order = shuffled(("same",) * count, id, seed)
    assert sorted(order) == list(range(count))
    assert order == shuffled(("same",) * count, id, seed)


@pytest.mark.parametrize("limit", [0, -1])
@pytest.mark.parametrize("name", ["math500", "rg:gcd"])
def test_a_limit_below_one_is_refused(name, limit, tmp_path):
    data = json_lines(tmp_path, rows.MATH500) if name == "math500" else None
    with pytest.raises(InputError, match=f"a limit is at least 1, not {limit}") as caught:
        load(name, data=data, limit=limit)
    assert caught.value.code == "bad_option"


def test_a_questions_options_do_not_depend_on_the_subset_nor_on_the_files_order(tmp_path):
    made = [rows.GPQA | {"Question": f"Question {number}?"} for number in range(40)]
    whole = {question.id: question for question in load("gpqa-diamond", data=json_lines(tmp_path, *made), seed=3)}
    random.Random(0).shuffle(made)
    part = load("gpqa-diamond", data=json_lines(tmp_path, *made), seed=3, limit=7)
    assert [whole[question.id] for question in part] == part
    assert list(whole)[:7] == [question.id for question in part]
    assert len({question.gold for question in whole.values()}) == 4
