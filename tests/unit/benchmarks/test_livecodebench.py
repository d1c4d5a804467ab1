"""LiveCodeBench's tests: how they are packed, and what a hostile file can do with that."""

import base64
import json
import os
import pickle
import zlib

import pytest

from conductor_plugin.benchmarks import livecodebench, load
from conductor_plugin.errors import InputError
from tests.unit.benchmarks import rows
from tests.unit.benchmarks.rows import json_lines, packed


def question(tmp_path, row):
    (made,) = load("livecodebench-v6", data=json_lines(tmp_path, row))
    return made


def refused(tmp_path, **change):
    with pytest.raises(InputError) as caught:
        question(tmp_path, rows.LIVECODEBENCH | change)
    assert caught.value.code == "data_bad_row"
    return str(caught.value)


def test_a_program_with_stdin_has_its_public_and_its_private_tests(tmp_path):
    made = question(tmp_path, rows.LIVECODEBENCH)
    assert made.gold == {
        "tests": [
            {"input": "1 2\n", "output": "3\n", "kind": "stdin"},
            {"input": "4 5\n", "output": "9\n", "kind": "stdin"},
        ],
        "function": None,
        "starter_code": "",
    }
    assert (made.grader, made.level, made.subject) == ("code_io", "easy", "atcoder")
    assert "standard input" in made.format_rule


def test_a_function_is_named_and_its_starter_code_is_shown(tmp_path):
    made = question(tmp_path, rows.LIVECODEBENCH_CALL)
    assert made.gold["function"] == "add"
    assert {test["kind"] for test in made.gold["tests"]} == {"function"}
    assert made.gold["starter_code"] == rows.LIVECODEBENCH_CALL["starter_code"]
    assert "```python\nclass Solution:\n    def add(self, a: int, b: int) -> int:\n```" in made.text


def test_private_tests_may_be_plain_json_as_well(tmp_path):
    plain = question(tmp_path, rows.LIVECODEBENCH | {"private_test_cases": json.dumps(rows.TESTS)})
    assert len(plain.gold["tests"]) == 2


class Command:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_calls_a_function_is_refused_before_it_does(tmp_path):
    trace = tmp_path / "was-here"
    bomb = packed(Command(trace))
    pickle.loads(zlib.decompress(base64.b64decode(bomb)))  # it would work:
    trace.rmdir()
    assert "a pickle of something other than a text" in refused(tmp_path, private_test_cases=bomb)
    assert not trace.exists()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("value", [print, Command("/nowhere"), ["a"], 5, None, b"[]", {"a": 1}])
def test_a_pickle_of_anything_but_a_text_is_refused_in_every_protocol(value, protocol, tmp_path):
    bomb = base64.b64encode(zlib.compress(pickle.dumps(value, protocol))).decode()
    assert "a pickle of something other than a text" in refused(tmp_path, private_test_cases=bomb)


def test_text_that_unpacks_to_more_than_the_limit_is_refused(tmp_path, monkeypatch):
    tests = json.dumps([{"input": "0" * 100_000, "output": "0", "testtype": "stdin"}])
    row = {"private_test_cases": packed(tests)}
    assert len(row["private_test_cases"]) < 1000
    assert question(tmp_path, rows.LIVECODEBENCH | row)
    monkeypatch.setattr(livecodebench, "MOST_BYTES", 100_000)
    assert "has more than 100000 bytes unpacked" in refused(tmp_path, **row)


@pytest.mark.parametrize(
    ("private", "part"),
    [
        ("", "is cut off"),
        ("hello", "neither JSON nor base64 of zlib data"),
        ("ü", "neither JSON nor base64 of zlib data"),
        (base64.b64encode(b"hello").decode(), "neither JSON nor base64 of zlib data"),
        (base64.b64encode(zlib.compress(b"hello")).decode(), "a pickle of something other than a text"),
        (base64.b64encode(zlib.compress(pickle.dumps("[]"))[:-3]).decode(), "is cut off"),
        (packed("no json"), "is not valid JSON"),
        (packed('{"a": 1}'), "is no list of tests"),
        ("[1]", "needs the texts input, output and testtype"),
        ('[{"input": "1", "output": "2"}]', "needs the texts input, output and testtype"),
        ('[{"input": "1", "output": 2, "testtype": "stdin"}]', "needs the texts input, output and testtype"),
        ('[{"input": "1", "output": "2", "testtype": "pipe"}]', "needs the texts input, output and testtype"),
        ("[" * 100_000, "is not valid JSON"),
    ],
)
def test_tests_that_cannot_be_read(private, part, tmp_path):
    sentence = refused(tmp_path, private_test_cases=private)
    assert part in sentence
    assert "'private_test_cases'" in sentence


@pytest.mark.parametrize("metadata", ["{}", "[]", "null", '{"func_name": 1}', '{"func_name": "a b"}', "no json"])
def test_a_function_without_a_name(metadata, tmp_path):
    with pytest.raises(InputError, match="the field 'metadata'"):
        question(tmp_path, rows.LIVECODEBENCH_CALL | {"metadata": metadata})


def test_a_question_without_tests(tmp_path):
    assert "it has no test" in refused(tmp_path, public_test_cases="[]", private_test_cases="[]")


def test_only_the_questions_of_a_subset_are_unpacked(tmp_path):
    made = [rows.LIVECODEBENCH | {"question_id": str(number)} for number in range(20)]
    chosen = load("livecodebench-v1", data=json_lines(tmp_path, *made), limit=5)
    ids = {question.id.removeprefix("livecodebench-v1/") for question in chosen}
    broken = [row if row["question_id"] in ids else row | {"private_test_cases": "broken"} for row in made]
    assert load("livecodebench-v1", data=json_lines(tmp_path, *broken), limit=5) == chosen
