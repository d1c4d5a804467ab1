"""Which families a planner knows: made-up families are told apart, masked numbers do not matter, rates are honest."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.errors import InputError
from conductor_plugin.planners.known import FILE, Known, cosine, load_known, wording
from training.known import fit_known, measure

WORDS = [f"{a}{b}" for a in ("bo", "ka", "li", "mu", "ne", "to") for b in ("ran", "sel", "tip", "vor", "zum")]
# A family is a sentence of some words with slots for the data of one question.
templates = st.lists(st.sampled_from(WORDS), min_size=4, max_size=8, unique=True)
worlds = st.lists(templates, min_size=4, max_size=7, unique_by=tuple)


def questions(template, count=16):
    """Questions of one family: the same words around other numbers and other data words."""
    return [f"{' '.join(template)}: {7 * i + 3} and x{chr(97 + i)}q?" for i in range(count)]


def world(chosen):
    half = max(1, len(chosen) - 3)
    inside = {f"in-{i}": questions(one) for i, one in enumerate(chosen[:half])}
    return inside, {f"out-{i}": questions(one, 6) for i, one in enumerate(chosen[half:])}


@given(worlds)
def test_families_are_told_apart(chosen):
    inside, outside = world(chosen)
    known = fit_known(inside, outside)
    every = [text for texts in inside.values() for text in texts]
    others = [text for texts in outside.values() for text in texts]
    rates = measure(known, every, others)
    # Another family may have the same words in another order: then a few are taken in.
    assert rates.false_reject <= 0.1
    if all(len(set(a) & set(b)) <= 1 for a in chosen for b in chosen if a is not b):
        assert (rates.false_reject, rates.false_accept) == (0, 0)


@given(worlds, st.integers(0, 10**12))
def test_only_the_wording_counts(chosen, number):
    inside, outside = world(chosen)
    known = fit_known(inside, outside)
    for text in [texts[0] for texts in (*inside.values(), *outside.values())]:
        other = re.sub(r"\d+", str(number), text).upper()
        assert known.family_of(other) == known.family_of(text)


@given(chosen=worlds)
def test_what_is_saved_decides_alike(tmp_path_factory, chosen):
    inside, outside = world(chosen)
    known = fit_known(inside, outside)
    folder = tmp_path_factory.mktemp("known")
    (folder / FILE).write_text(known.model_dump_json())
    assert load_known(folder) == known == fit_known(inside, outside)


@given(st.text(max_size=200), st.text(max_size=200))
def test_cosines_are_cosines(one, other):
    vectors = wording(one), wording(other)
    assert -1e-9 <= cosine(*vectors) <= 1 + 1e-9
    assert cosine(*vectors) == cosine(*reversed(vectors))
    assert abs(cosine(vectors[0], vectors[0]) - bool(vectors[0])) < 1e-9


def test_rates_are_of_questions_that_set_nothing():
    inside, outside = {"sums": questions(WORDS[:5], 40)}, {f"o{i}": questions(WORDS[5 + i :][:5], 6) for i in range(4)}
    rates = fit_known(inside, outside).rates
    assert (rates.inside, rates.outside) == (10, 12)  # a quarter; the families o1 and o3
    swapped = {"o0": inside["sums"], "o1": outside["o0"]}
    # What is measured against strangers that share its wording is not called known for nothing.
    assert fit_known(inside, {"o0": outside["o0"], "o1": swapped["o0"]}).rates.false_accept == 1


@pytest.mark.parametrize("question", ["", " ", "?", "0", "What is the capital of France?", "a" * 100_000])
def test_questions_of_no_family(question):
    known = fit_known({"sums": questions(WORDS[:5])}, {"a": questions(WORDS[6:10]), "b": questions(WORDS[12:18])})
    assert known.family_of(question) is None


def test_too_few_questions_are_refused():
    with pytest.raises(InputError, match="8 or more"):
        fit_known({"sums": ["1 + 1?"]}, {})
    with pytest.raises(InputError, match="two others"):
        fit_known({"sums": questions(WORDS[:5])}, {"a": ["x"]})


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"families": {}, "rates": {}}', '{"families": 1}'])
def test_a_file_that_is_none_is_refused(content, tmp_path):
    (tmp_path / FILE).write_text(content)
    with pytest.raises(InputError, match="holds no families") as caught:
        load_known(tmp_path)
    assert caught.value.code == "planner_unreadable"
    assert isinstance(fit_known({"s": questions(WORDS[:5])}, {"a": ["x"], "b": ["y"]}), Known)
