"""reasoning-gym: what is offered can be made again, has a right answer, and a scorer that can be trusted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conductor_plugin.benchmarks import load, reasoning_gym
from conductor_plugin.benchmarks.question import Question
from conductor_plugin.errors import InputError

ROOT = Path(__file__).parents[3]
FAMILIES = reasoning_gym.families()
GARBAGE = ["", "I don't know", "garbage [ (", "nan", "inf", "None", "[]", "{}", "null", "1/0", "9" * 5000, "(" * 3000]
DIGESTS = """
import hashlib, json, sys
from conductor_plugin.benchmarks import reasoning_gym
made = {name: reasoning_gym.load(name, limit=int(sys.argv[1]), seed=1)[:2] for name in reasoning_gym.families()}
json.dump({name: [question.model_dump_json() for question in two] for name, two in made.items()}, sys.stdout)
"""


def made_in_a_new_process(limit):
    """The first two questions of each family; what a family prints would break the JSON."""
    result = subprocess.run(
        [sys.executable, "-c", DIGESTS, str(limit)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": str(limit)},
    )
    return json.loads(result.stdout)


def test_every_process_makes_the_same_questions_and_fewer_are_the_beginning_of_more():
    here, there = made_in_a_new_process(2), made_in_a_new_process(4)
    assert list(here) == FAMILIES
    assert [name for name in here if here[name] != there[name]] == []


@pytest.mark.filterwarnings("ignore:loadtxt")
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family(name, capsys):
    questions = load(name, limit=3, seed=2)
    assert [question.id for question in questions] == [f"{name}/2/{index}" for index in range(3)]
    for question in questions:
        again = Question.model_validate_json(question.model_dump_json())
        assert again == question
        assert question.text.endswith(question.format_rule)
        assert question.grader == "reasoning_gym" or "\n" not in question.gold
        assert reasoning_gym.score(again, question.gold)
        assert reasoning_gym.score(again, f"<answer>no</answer> Wait. <answer>\n{question.gold}\n</answer>")
        assert [text for text in GARBAGE if reasoning_gym.score(question, text)] == []
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["rg:gcd", "rg:lcm", "rg:chain_sum", "rg:basic_arithmetic"])
def test_neighbouring_seeds_share_questions_by_chance_alone(name):
    here, there = ({question.text for question in load(name, limit=50, seed=seed)} for seed in (0, 1))
    assert len(here & there) < 10  # with the library's own seeds it would be 49


def test_there_are_a_hundred_without_a_limit_and_as_many_as_are_asked_for():
    assert len(load("rg:gcd")) == 100
    assert len({question.id for question in load("rg:gcd", limit=700)}) == 700


def countdown():
    (question,) = load("rg:countdown", limit=1)
    return question


def test_another_right_answer_is_right():
    question = countdown()
    assert question.grader == "reasoning_gym"
    assert reasoning_gym.score(question, f"({question.gold})")
    assert not reasoning_gym.score(question, f"({question.gold}) + 1")


@pytest.mark.parametrize(
    "code",
    [
        "__import__('os').mkdir('{}')",
        "open('{}', 'w')",
        "(lambda: open('{}', 'w'))()",
        "9**9**9**9**9",
        "9 * * 9",
        "9*\n*9",
        "+".join(["1"] * 1000),
    ],
)
def test_an_answer_is_never_evaluated_as_python(code, tmp_path):
    trace = tmp_path / "was-here"
    for name in FAMILIES:
        (question,) = load(name, limit=1, seed=2)
        assert not reasoning_gym.score(question, code.replace("{}", str(trace)))
    assert not trace.exists()


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("rg:gsm_symbolic", "-{}"),
        ("rg:spell_backward", "{}{}"),
        ("rg:letter_jumble", "{} or not"),
        ("rg:game_of_life_halting", "perhaps"),
    ],
)
def test_where_the_familys_scorer_takes_too_much_texts_are_compared(name, wrong):
    for question in load(name, limit=5):
        assert question.grader == "text"
        assert not reasoning_gym.score(question, wrong.replace("{}", question.gold))


def test_a_family_that_is_left_out_says_why_and_one_that_is_not_there_says_so():
    for name, reason in reasoning_gym.LEFT_OUT.items():
        with pytest.raises(InputError, match=f"the family rg:{name} is left out: {reason}") as caught:
            load(f"rg:{name}")
        assert caught.value.code == "benchmark_unknown"
    with pytest.raises(InputError, match="reasoning-gym has no family 'gdc'") as caught:
        load("rg:gdc")
    assert caught.value.code == "benchmark_unknown"


def test_every_family_that_is_left_out_or_special_is_one_of_the_librarys():
    from reasoning_gym.factory import DATASETS

    assert reasoning_gym.EXACT | reasoning_gym.LEFT_OUT.keys() <= DATASETS.keys()
    assert len(FAMILIES) + len(reasoning_gym.LEFT_OUT) == len(DATASETS)
