"""The command line: light commands in this process, one sentence and a stable code for every bad input."""

import io
import json

import pytest

from conductor_plugin.cli import main

GOOD = "why\nmodel_id = [0, 1]\nsubtasks = ['a', '']\naccess_list = [[], 'all']\n"


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return exit_.value.code, out, err


@pytest.fixture
def write(tmp_path):
    def write(text, name="file.txt"):
        path = tmp_path / name
        path.write_bytes(text) if isinstance(text, bytes) else path.write_text(text)
        return path

    return write


def test_check_a_valid_plan(capsys, write):
    code, out, err = run(capsys, "check", write(GOOD))
    assert (code, err) == (0, "")
    assert "a valid plan of 2 steps" in out


def test_check_reads_stdin(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    code, out, _ = run(capsys, "check", "-", "--json")
    assert code == 0
    assert json.loads(out)["plan"]["access_list"] == [[], "all"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "missing_list"),
        (GOOD.replace("[0, 1]", "[0, 7]"), "bad_model_id"),
        (GOOD.replace("'all'", "[1]"), "bad_access"),
        ("model_id=[]\nsubtasks=[]\naccess_list=[]", "empty_plan"),
    ],
)
@pytest.mark.parametrize("command", ["check", "plan", "answer"])
def test_a_bad_plan_is_exit_2_with_its_code(capsys, write, text, code, command):
    arguments = ["check", write(text)] if command == "check" else [command, "q", "--plan", write(text)]
    exit_code, out, err = run(capsys, *arguments, "--json")
    record = json.loads(out)
    assert (exit_code, record["error"]["code"]) == (2, code)
    assert err.startswith("conductor: ")
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["answer"], "bad_option"),
        (["answer", "q", "--nope"], "bad_option"),
        (["answer", ""], "empty_question"),
        (["answer", "   "], "empty_question"),
        (["answer", "x" * 400_001], "question_too_long"),
        (["answer", "q", "--pool", "nowhere.yaml"], "pool_unreadable"),
        (["answer", "q", "--only", "nobody"], "pool_unknown_worker"),
        (["answer", "q", "--exclude", "tool", "--exclude", "local"], "pool_empty"),
        (["answer", "q", "--planner", "nope"], "planner_unknown"),
        (["answer", "q", "--planner", "openai/"], "planner_unknown"),
        (["answer", "q", "--planner", "template:nope"], "template_unknown"),
        (["answer", "q", "--planner", "template:./nope.yaml"], "template_unreadable"),
        (["answer", "q", "--planner", "openai/x", "--few-shot", "nope"], "few_shot_unknown"),
        (["answer", "q", "--plan", "nowhere.txt"], "plan_unreadable"),
        (["answer", "q", "--plan", "nowhere.txt", "--planner", "template:solve"], "plan_unreadable"),
        (["answer", "q", "--max-steps", "0"], "bad_option"),
        (["answer", "q", "--budget-usd", "nan"], "bad_option"),
        (["answer", "q", "--budget-usd", "0"], "bad_option"),
        (["answer", "q", "--deadline", "inf"], "bad_option"),
        (["answer", "q", "--label", "secret"], "label_unknown"),
        (["answer", "q", "--max-steps", "many"], "bad_option"),
        (["answer", "-", "--plan", "-"], "bad_option"),
        (["plan", "q", "--only", "calculator", "--planner", "template:first-answer"], "template_no_worker"),
        (["show", "nonsense"], "bad_run_id"),
        (["nope"], "bad_option"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else value,
)
def test_bad_input_is_one_sentence_and_exit_2(capsys, arguments, code):
    exit_code, out, err = run(capsys, *arguments, "--json")
    record = json.loads(out)
    assert (exit_code, record["error"]["code"]) == (2, code)
    assert len(err.strip().splitlines()) == 1
    if arguments[0] == "answer":
        assert (record["schema"], record["status"], record["answer"]) == (1, "failed", None)


def test_json_behind_two_dashes_is_no_option(capsys):
    code, out, err = run(capsys, "answer", "--", "--json", "more")
    assert (code, out) == (2, "")
    assert "more" in err


def test_an_unset_key_is_named_before_anything_starts(capsys, write, monkeypatch):
    monkeypatch.delenv("SOME_KEY", raising=False)
    pool = write("workers: [{name: a, kind: llm, model: openai/x, api_key_env: SOME_KEY}]", "pool.yaml")
    code, out, err = run(capsys, "answer", "q", "--pool", pool, "--json")
    assert (code, json.loads(out)["error"]["code"]) == (2, "pool_missing_env")
    assert "SOME_KEY" in err


def test_plan_shows_lists_and_drawing_without_running(capsys):
    options = ["--exclude", "local", "--exclude", "sandboxed", "--planner", "template:first-answer"]
    code, out, _ = run(capsys, "plan", "anything", *options)
    assert code == 0
    assert "access_list = [[], [], [], 'all']" in out
    assert "3 · text" in out
    code, out, _ = run(capsys, "plan", "anything", *options, "--json")
    record = json.loads(out)
    assert (record["levels"], record["pruned"], record["planner"]["name"]) == (
        [[0, 1, 2], [3]],
        [],
        "template:first-answer",
    )


def test_pool_lists_workers_and_what_is_missing(capsys, write):
    pool = write(
        "workers: [{name: a, kind: llm, model: openai/x, api_key_env: SOME_KEY, describe: quick}]", "pool.yaml"
    )
    code, out, _ = run(capsys, "pool", "--pool", pool)
    assert code == 0
    assert "Model 0: quick" in out
    assert "SOME_KEY" in out
    code, out, _ = run(capsys, "pool", "--json")
    record = json.loads(out)
    assert [w["id"] for w in record["workers"]][:3] == [0, 1, 2]
    assert record["missing_variables"] == []


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"workers: [", b"", b"[]", b"workers: 3"])
def test_broken_pool_files(capsys, write, content):
    code, out, err = run(capsys, "pool", "--pool", write(content, "pool.yaml"), "--json")
    assert code == 2
    assert json.loads(out)["error"]["code"] in ("pool_unreadable", "pool_bad_value")
    assert "pool.yaml" in err
