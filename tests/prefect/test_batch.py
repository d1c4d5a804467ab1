"""A batch: many questions in one flow run, answers on disk as they come, going on where it stopped."""

import json

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

from conductor_plugin.cli import main
from conductor_plugin.errors import InputError
from conductor_plugin.on_prefect.batch import append, completed_ids, conductor_batch, read_batch
from conductor_plugin.on_prefect.history import whole_history
from conductor_plugin.options import AnswerOptions
from tests.unit import workbench
from tests.unit.workbench import CALLS, SCRIPTS, permanent

PLAN = "model_id=[0]\nsubtasks=['']\naccess_list=[[]]"


@pytest.fixture(autouse=True)
def _fresh():
    workbench.reset()


@pytest.fixture
def batch(tmp_path):
    def batch(*questions):
        path = tmp_path / "questions.jsonl"
        path.write_text("".join(json.dumps(q if isinstance(q, dict) else {"question": q}) + "\n" for q in questions))
        return path

    return batch


def content(*names):
    return workbench.pool_of(*names).model_dump(mode="json", exclude_defaults=True)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.prefect
async def test_one_flow_run_for_all_questions(prefect_sqlite, batch, tmp_path):
    """Equal questions are asked each for themselves, and no more are in progress than allowed."""
    results = tmp_path / "answers.jsonl"
    async with whole_history():
        summary = await conductor_batch(
            str(batch("same", "same", {"id": "third", "question": "other"})),
            str(results),
            content("ok"),
            AnswerOptions(plan=PLAN),
            concurrency=2,
        )
    assert (summary.questions, summary.completed, summary.not_completed) == (3, 3, 0)
    answers = lines(results)
    assert sorted(answer["id"] for answer in answers) == ["1", "2", "third"]
    assert [request.question for _, request in CALLS].count("same") == 2
    (run_id,) = {answer["flow_run_id"] for answer in answers}
    async with get_client() as client:
        runs = await client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[run_id])))
    assert sorted(run.name for run in runs) == sorted(
        f"{name} · {task}" for name in ("1", "2", "third") for task in ("plan", "step-0 · ok")
    )


@pytest.mark.prefect
async def test_it_goes_on_where_it_stopped(prefect_sqlite, batch, tmp_path):
    """Completed answers are kept, failed ones are asked again, a half-written line is no answer."""
    results = tmp_path / "answers.jsonl"
    SCRIPTS["main"] = ["one", permanent(), "three"]
    options = AnswerOptions(plan=PLAN)
    questions = str(batch("a", "b", "c"))
    first = await conductor_batch(questions, str(results), content("scripted:main"), options, concurrency=1)
    assert (first.completed, first.not_completed) == (2, 1)
    with results.open("a") as out:
        out.write('{"id": "9", "sta')
    SCRIPTS["main"] = ["two"]
    second = await conductor_batch(questions, str(results), content("scripted:main"), options, concurrency=1)
    assert (second.completed, second.answered_before, second.not_completed) == (3, 2, 0)
    assert len(CALLS) == 4
    assert completed_ids(results) == {"1", "2", "3"}
    assert [(line["id"], line["status"]) for line in lines(results)][-1] == ("2", "completed")


@pytest.mark.prefect
async def test_the_budget_is_for_the_whole_batch(prefect_sqlite, batch, upstream, tmp_path):
    worker = {
        **{"name": "a", "kind": "llm", "model": "openai/m", "api_base": upstream.base_url},
        **{"price": {"input": 1.0, "output": 1.0}, "params": {"max_tokens": 10}, "retries": 0},
    }
    options = AnswerOptions(plan=PLAN, budget_usd=0.000105)
    summary = await conductor_batch(
        str(batch(*"abcdef")), str(tmp_path / "out.jsonl"), {"workers": [worker]}, options, concurrency=1
    )
    assert 0 < summary.completed < 6
    assert len(upstream.requests) == summary.completed
    assert {line["status"] for line in lines(tmp_path / "out.jsonl")} == {"completed", "stopped_budget"}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "no question"),
        ("\n\n", "no question"),
        ("not json", "line 1"),
        ('{"question": "a"}\n[]', "line 2"),
        ('{"question": "a"}\n\n{"question": " "}', "line 3"),
        ('{"quest": "a"}', "line 1"),
        ('{"question": 3}', "line 1"),
        ('{"question": "a", "history": [{"role": "boss", "content": "x"}]}', "line 1"),
        ('{"id": "x", "question": "a"}\n{"id": "x", "question": "b"}', "'x' stands twice"),
        ('{"id": 2, "question": "a"}\n{"question": "b"}', "'2' stands twice"),
    ],
)
def test_bad_batch_files(tmp_path, text, where):
    path = tmp_path / "q.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=where) as caught:
        read_batch(path)
    assert caught.value.code == "batch_bad_line"


def test_a_line_ends_where_json_lines_end(tmp_path):
    """Not at the other separators that Python knows: JSON lets them stand in a text as they are."""
    text = "one\u2028two\u2029three\x85four"
    path = tmp_path / "lines.jsonl"
    for name, status in (("1", "completed"), ("2", "failed")):
        append(path, {"id": name, "status": status, "question": text, "usage": {"cost_usd": 0.0}})
    assert completed_ids(path) == {"1"}
    path.write_text("".join(json.dumps({"question": text}, ensure_ascii=False) + end for end in ("\n", "\r\n")))
    assert [question.question for question in read_batch(path)] == [text, text]


def test_a_results_file_that_is_none_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n")
    with pytest.raises(InputError, match="another results file"):
        completed_ids(path)
    assert path.read_text() == "my notes\n"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["answer", "q", "--batch", "x.jsonl"], "bad_option"),
        (["answer", "--batch", "nowhere.jsonl"], "batch_unreadable"),
    ],
)
def test_bad_batch_commands(capsys, arguments, code):
    with pytest.raises(SystemExit) as exit_:
        main([*arguments, "--json"])
    assert exit_.value.code == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code
