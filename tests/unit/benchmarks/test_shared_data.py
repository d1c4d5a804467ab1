"""The readers over real question files, where they are: <repository>/../shared/data or $CONDUCTOR_TEST_DATA."""

import os
from pathlib import Path

import pytest

from conductor_plugin.benchmarks import load

DATA = Path(os.environ.get("CONDUCTOR_TEST_DATA") or Path(__file__).parents[4] / "shared" / "data")
FILES = {
    "math500": "math500.jsonl",
    "aime25": "aime25.jsonl",
    "mmlu": "mmlu_stem.jsonl",
    "bigcodebench-hard": "bigcodebench_hard.jsonl",
}
COUNTS = {"math500": 500, "aime25": 30, "bigcodebench-hard": 148}


def questions(name, **options):
    path = DATA / FILES[name]
    if not path.is_file():
        pytest.skip(f"not there: {path}")
    return load(name, data=path, **options)


@pytest.mark.parametrize("name", FILES)
def test_every_row_is_a_question_with_an_id_of_its_own(name):
    found = questions(name, seed=1)
    lines = (DATA / FILES[name]).read_text(encoding="utf-8").splitlines()
    assert len(found) == COUNTS.get(name, len(lines))
    assert len({question.id for question in found}) == len(found)
    assert questions(name, seed=1, limit=9) == found[:9]
    assert all(question.text.endswith(question.format_rule) and question.gold for question in found)


def test_aime25s_answers_are_its_integers_and_its_copies_rule_is_gone():
    for question in questions("aime25"):
        assert 0 <= int(question.gold) <= 999
        assert question.text.count("\\boxed{}") == 1


def test_mmlus_gold_is_the_letter_of_an_option():
    for question in questions("mmlu"):
        assert question.gold in "ABCD"[: len(question.options)]


@pytest.mark.filterwarnings("ignore:invalid escape sequence")
def test_bigcodebenchs_reference_solutions_complete_their_prompts():
    for question in questions("bigcodebench-hard"):
        program = question.gold["prompt"] + question.metadata["reference"]
        names = compile(program, question.id, "exec").co_names
        assert question.gold["entry_point"] in names
        assert question.metadata["reference"].strip() not in question.text
        assert question.gold["test"].strip() not in question.text
