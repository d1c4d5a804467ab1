"""Whatever is wrong with a data file is one sentence that names the file, the line and the field."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.benchmarks import BENCHMARKS, load
from conductor_plugin.errors import InputError
from tests.unit.benchmarks import rows
from tests.unit.benchmarks.rows import ROWS, csv_file, json_lines


def refused(name, path, code, **options):
    with pytest.raises(InputError) as caught:
        load(name, data=path, **options)
    assert caught.value.code == code
    assert "\n" not in str(caught.value)
    return str(caught.value)


FIELDS = [(name, field) for name, benchmark in BENCHMARKS.items() for field in benchmark.fields]


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_a_missing_field(name, field, tmp_path):
    lacking = {key: value for key, value in ROWS[name].items() if key != field}
    path = json_lines(tmp_path, ROWS[name], lacking)
    sentence = refused(name, path, "data_bad_row")
    assert sentence.startswith(f"{path}, line 2: the field {field!r} is missing; a row has ")


@pytest.mark.parametrize(("name", "field"), FIELDS)
@pytest.mark.parametrize("wrong", [None, True, 1.5])
def test_a_field_of_the_wrong_type(name, field, wrong, tmp_path):
    path = json_lines(tmp_path, ROWS[name] | {field: wrong})
    assert f"{path}, line 1: the field {field!r} is " in refused(name, path, "data_bad_row")


@pytest.mark.parametrize("name", ROWS)
def test_a_bad_row_outside_of_the_subset_is_found_too(name, tmp_path):
    path = json_lines(tmp_path, ROWS[name], {})
    refused(name, path, "data_bad_row", limit=1)


@pytest.mark.parametrize(
    ("text", "code", "part"),
    [
        ("", "data_unreadable", "it has no rows"),
        ("\n \n", "data_unreadable", "it has no rows"),
        ("{", "data_bad_row", "line 1: not valid JSON"),
        ("\n{]\n", "data_bad_row", "line 2: not valid JSON"),
        ("[" * 100_000, "data_bad_row", "line 1: not valid JSON: it nests too deeply"),
        ("1" * 10_000, "data_bad_row", "line 1: not valid JSON: it nests too deeply or has a number that is too long"),
        ("[1]", "data_bad_row", "line 1: a row is an object with fields, not a list"),
        ('{"problem": "\\ud800"}', "data_bad_row", "line 1: a text in it has half a surrogate pair"),
        ("null", "data_bad_row", "line 1: a row is an object with fields, not null"),
    ],
)
def test_a_file_that_is_no_json_lines(text, code, part, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    assert part in refused("math500", path, code)


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("rows.jsonl", b"\xff\xfe", "it is not UTF-8 text"),
        ("rows.jsonl.gz", b"no gzip", "Not a gzipped file"),
        ("rows.jsonl.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b", "ended before"),
    ],
)
def test_bytes_that_are_no_text(name, content, part, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    sentence = refused("math500", path, "data_unreadable")
    assert sentence.startswith(f"cannot read the data file {path}: ")
    assert part in sentence


def test_a_missing_file_and_a_directory(tmp_path):
    assert "No such file" in refused("math500", tmp_path / "none.jsonl", "data_unreadable")
    assert "Is a directory" in refused("math500", tmp_path, "data_unreadable")


def test_a_csv_file_without_a_column(tmp_path):
    row = {key: value for key, value in rows.GPQA.items() if key != "Incorrect Answer 3"}
    path = csv_file(tmp_path, row)
    assert "the field 'Incorrect Answer 3' is missing" in refused("gpqa-diamond", path, "data_bad_row")


def test_a_csv_row_that_ends_early(tmp_path):
    path = csv_file(tmp_path, rows.GPQA)
    path.write_text(path.read_text() + "only a question\n")
    assert "the field 'Correct Answer' is null" in refused("gpqa-diamond", path, "data_bad_row")


@pytest.mark.parquet
def test_a_file_that_is_no_parquet(tmp_path):
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"no parquet")
    assert "not valid parquet" in refused("mmlu", path, "data_unreadable")


@pytest.mark.parametrize("name", ["math500", "aime25", "gpqa-diamond", "bigcodebench-hard", "livecodebench-v6"])
def test_a_question_that_stands_twice(name, tmp_path):
    path = json_lines(tmp_path, ROWS[name], ROWS[name])
    assert f"line 2: the question {name}/" in refused(name, path, "data_bad_row")


@pytest.mark.parametrize(
    "change",
    [
        {"choices": ["one"]},
        {"choices": []},
        {"choices": ["a", 2]},
        {"answer": 4},
        {"answer": -1},
    ],
)
def test_mmlu_with_choices_that_cannot_be_shown_or_an_answer_that_is_none(change, tmp_path):
    refused("mmlu", json_lines(tmp_path, rows.MMLU | change), "data_bad_row")


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": []},
        {"prompt": ["hello"]},
        {"prompt": [{"role": "system", "content": "x"}]},
        {"prompt": [{"role": "user", "content": 1}]},
        {"reward_model": {}},
        {"reward_model": {"ground_truth": " "}},
        {"reward_model": {"ground_truth": ["5"]}},
    ],
)
def test_rlpr_without_a_question_or_a_gold(change, tmp_path):
    refused("rlpr", json_lines(tmp_path, rows.RLPR | change), "data_bad_row")


TEXT = st.text(st.characters())  # with halves of surrogate pairs, which JSON can name and UTF-8 cannot
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.parametrize("name", ROWS)
@given(data=st.data())
def test_any_value_in_any_field_is_a_question_or_one_sentence(name, tmp_path_factory, data):
    field = data.draw(st.sampled_from(sorted(BENCHMARKS[name].fields)))
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_text(json.dumps(ROWS[name] | {field: data.draw(JSON)}))
    caught = None
    try:
        assert all(question.model_dump_json() for question in load(name, data=path))
    except InputError as error:
        caught = error
    assert caught is None or (caught.code == "data_bad_row" and str(caught).startswith(f"{path}, line 1: "))


def test_a_name_that_is_none():
    with pytest.raises(InputError, match="there is no benchmark 'math501'; there are math500, ") as caught:
        load("math501")
    assert caught.value.code == "benchmark_unknown"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("math500", {"data": "rows.jsonl", "revision": "abc"}),
        ("humaneval", {"revision": "abc"}),
        ("rg:gcd", {"data": "rows.jsonl"}),
        ("rg:gcd", {"revision": "abc"}),
    ],
)
def test_options_that_would_do_nothing_are_refused(name, options):
    with pytest.raises(InputError) as caught:
        load(name, **options)
    assert caught.value.code == "bad_option"
