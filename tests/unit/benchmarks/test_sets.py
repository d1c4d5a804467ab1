"""Each set's rows become questions: text, gold, grader and the rule for the answer's form."""

import gzip
import json

import pytest

from conductor_plugin.benchmarks import BENCHMARKS, load
from tests.unit.benchmarks import rows
from tests.unit.benchmarks.rows import ROWS, csv_file, json_lines


def only(name, tmp_path, row, **options):
    (question,) = load(name, data=json_lines(tmp_path, row), **options)
    return question


def test_there_are_made_up_rows_for_every_set():
    assert ROWS.keys() == BENCHMARKS.keys()


@pytest.mark.parametrize("name", ROWS)
def test_a_question_can_be_sent_as_json_ends_with_its_rule_and_names_its_set(name, tmp_path):
    question = only(name, tmp_path, ROWS[name])
    assert type(question).model_validate_json(question.model_dump_json()) == question
    assert question.format_rule
    assert question.text.splitlines()[-1] == question.format_rule
    assert question.id.startswith(f"{name}/")


@pytest.mark.parametrize("name", ROWS)
def test_what_is_right_is_not_in_the_text(name, tmp_path):
    marked = dict(ROWS[name])
    for field in ("solution", "canonical_solution", "test"):
        if field in marked:
            marked[field] = f"# SECRET\n{marked[field]}"
    assert "SECRET" not in only(name, tmp_path, marked).text


def test_math500(tmp_path):
    question = only("math500", tmp_path, rows.MATH500)
    assert (question.id, question.gold, question.grader) == ("math500/prealgebra/1", "2", "math")
    assert (question.level, question.subject) == ("1", "Prealgebra")
    assert question.text == "What is $1+1$?\n\nGive the final answer in \\boxed{}."


def test_aime25_has_the_same_ids_in_the_copy_that_calls_the_problem_a_prompt_and_adds_a_rule(tmp_path):
    here = only("aime25", tmp_path, rows.AIME25)
    theirs = "\nPlease reason step by step, and put your final answer within \\boxed{}."
    there = only("aime25", tmp_path, {"prompt": rows.AIME25["problem"] + theirs, "answer": 5})
    assert here == there
    assert here.gold == "5"


def test_mmlu_keeps_the_order_of_its_options_since_some_name_one_another(tmp_path):
    for seed in range(5):
        question = only("mmlu", tmp_path, rows.MMLU, seed=seed)
        assert "A. red\nB. seven\nC. A and B\nD. none of the above\n" in question.text
        assert (question.gold, question.options) == ("A", tuple(rows.MMLU["choices"]))


def test_mmlu_counts_a_question_that_stands_twice_as_two(tmp_path):
    first, second = load("mmlu", data=json_lines(tmp_path, rows.MMLU, rows.MMLU))
    assert {first.id.removesuffix("-2"), second.id.removesuffix("-2")} == {min(first.id, second.id, key=len)}
    assert first.text == second.text


def test_gpqa_shuffles_and_the_gold_moves_along(tmp_path):
    golds = set()
    for seed in range(30):
        (question,) = load("gpqa-diamond", data=csv_file(tmp_path, rows.GPQA), seed=seed)
        golds.add(question.gold)
        assert sorted(question.options) == ["gram", "metre", "ohm", "second"]
        assert f"{question.gold}. metre\n" in question.text
    assert golds == set("ABCD")


def test_rlpr_asks_what_the_user_asks(tmp_path):
    question = only("rlpr", tmp_path, rows.RLPR)
    assert question.text == "How far is it from 2 km to 7 km?\n\nGive the final answer in \\boxed{}."
    assert (question.gold, question.grader, question.subject) == ("5 km", "math", rows.RLPR["data_source"])


def rlpr(asked, gold, source="MMLUPro-1000_Avg2"):
    prompt = [{"role": "user", "content": asked}]
    return rows.RLPR | {"data_source": source, "prompt": prompt, "reward_model": {"ground_truth": gold}}


@pytest.mark.parametrize(
    ("asked", "gold", "grader", "options"),
    [
        ("Which?\nA. red\nB. blue", "B", "choice", ("red", "blue")),
        ("Which?\n(A) red\n(B) blue\n(C) 3", "A", "choice", ("red", "blue", "3")),
        ("Which?\nA. red\nB. blue", "C", "text", ()),  # no such option
        ("Which?\nA. red\nC. blue", "A", "text", ()),  # a gap: these are no options
        ("Which?\nA. red\nB. blue", "AB", "text", ()),
        ("Who wrote it?", "Ada", "text", ()),
        ("Name the vitamin.", "A", "text", ()),
        ("Solve it.", "\\frac{x}{y}", "math", ()),
        ("How many?", 3, "math", ()),
    ],
)
def test_rlpr_chooses_the_grader_by_the_gold(asked, gold, grader, options, tmp_path):
    question = only("rlpr", tmp_path, rlpr(asked, gold))
    assert (question.grader, question.options, question.gold) == (grader, options, str(gold))


def test_rlpr_leaves_out_what_is_a_benchmark_of_its_own_and_what_it_has_twice(tmp_path):
    data = json_lines(
        tmp_path,
        rlpr("one", "a"),
        rlpr("two", "b", "Math-500_Avg2"),
        rlpr("three", "c", "gpqa_diamond_Avg4"),
        rlpr("one", "a"),
    )
    assert [question.gold for question in load("rlpr", data=data)] == ["a"]


@pytest.mark.parametrize(("name", "style"), [("bigcodebench-hard", "unittest"), ("humaneval", "check")])
def test_code_that_is_completed(name, style, tmp_path):
    row = ROWS[name]
    question = only(name, tmp_path, row)
    prompt = row.get("complete_prompt") or row["prompt"]
    assert question.gold == {"test": row["test"], "entry_point": row["entry_point"], "prompt": prompt, "style": style}
    assert question.grader == "code_tests"
    assert question.metadata == {"reference": row["canonical_solution"]}
    assert f"```python\n{prompt.strip()}\n```" in question.text


def test_humaneval_is_read_from_the_installed_package():
    questions = load("humaneval")
    assert len(questions) == 164
    for question in questions:
        compile(question.gold["prompt"] + question.metadata["reference"], question.id, "exec")


def test_a_gzipped_file_is_read(tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(rows.MATH500).encode()))
    assert len(load("math500", data=path)) == 1


@pytest.mark.parquet
def test_a_parquet_file_is_read(tmp_path):
    import pyarrow
    from pyarrow import parquet

    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([rows.MMLU, rows.MMLU | {"question": "Another?"}]), path)
    assert {q.id for q in load("mmlu", data=path)} == {
        q.id for q in load("mmlu", data=json_lines(tmp_path, rows.MMLU, rows.MMLU | {"question": "Another?"}))
    }


@pytest.mark.parquet
def test_a_parquet_file_with_nested_fields_is_read(tmp_path):
    import pyarrow
    from pyarrow import parquet

    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([rows.RLPR]), path)
    assert load("rlpr", data=path) == load("rlpr", data=json_lines(tmp_path, rows.RLPR))
