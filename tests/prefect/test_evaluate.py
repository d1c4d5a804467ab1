"""The flow `conductor-evaluate` and its command: real questions, real tools, real grading."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

from conductor_plugin.errors import BudgetError, InputError
from conductor_plugin.evaluation.rows import Row
from conductor_plugin.on_prefect.evaluate import ARTIFACT_KEY, conductor_evaluate
from conductor_plugin.sandbox import probe
from tests.sandbox.machine import MUST
from tests.unit.benchmarks.rows import HUMANEVAL, RLPR
from tests.upstream import Status, Text

pytestmark = pytest.mark.prefect

SYSTEMS = ["single:number", "single:text", "template:first-answer"]


def rows_of(folder):
    return [Row.model_validate_json(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


async def test_tools_on_generated_questions(prefect_sqlite, tmp_path):
    parameters = {"benchmarks": ["rg:gcd"], "systems": SYSTEMS, "exclude": ["local"], "limit": 6}
    summary = await conductor_evaluate(**parameters, folder=str(tmp_path / "one"))
    assert (summary.rows, summary.failed, summary.cost_usd) == (18, 0, 0.0)
    rows = rows_of(tmp_path / "one")
    right = {system: sum(row.outcome == "right" for row in rows if row.system == system) for system in SYSTEMS}
    assert right["single:number"] >= 4  # the tool for it; "I cannot do this." is never right
    assert right["single:text"] == 0
    assert summary.right == sum(right.values())
    async with get_client() as client:
        wanted = ArtifactFilter(key=ArtifactFilterKey(like_=ARTIFACT_KEY))
        found = {artifact.key: artifact.data for artifact in await client.read_artifacts(artifact_filter=wanted)}
    assert "single:number" in found[ARTIFACT_KEY]
    assert found[f"{ARTIFACT_KEY}-rg-gcd-calls"].startswith("data:image/png;base64,")
    await conductor_evaluate(**parameters, folder=str(tmp_path / "two"))
    first, second = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert first == second


async def test_a_question_whose_reference_fails_here_is_neither_asked_nor_counted(prefect_sqlite, tmp_path):
    if not probe().safe:
        (pytest.fail if MUST else pytest.skip)(probe().sentence)
    lacking = {**HUMANEVAL, "task_id": "HumanEval/4", "canonical_solution": "    import no_such_library\n"}
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, (HUMANEVAL, lacking))))
    parameters = {"benchmarks": ["humaneval"], "data": str(tmp_path / "rows.jsonl"), "systems": ["single:text"]}
    for name in ("one", "two"):
        summary = await conductor_evaluate(**parameters, folder=str(tmp_path / name))
        assert summary.rows == 1
    first, second = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert first == second
    assert "humaneval: 1 of 2 gradeable here" in first["report.md"].decode()
    assert "No module named 'no_such_library'" in first["report.md"].decode()


LLM = {"kind": "llm", "retries": 0, "price": {"input": 0.0, "output": 1e6}, "params": {"max_tokens": 10}}


async def test_the_budget_is_over_all_starts(prefect_sqlite, upstream, tmp_path):
    """Each answer takes 1 USD of 13, and may take 10: three are paid for, the fourth could break the budget."""
    upstream.script(Text("1"), Text("1"), Text("1"), Status(500), repeat=True)
    workers = [{"name": "a", "model": "openai/a", "api_base": upstream.base_url, **LLM}]
    parameters = {"benchmarks": ["rg:gcd"], "systems": ["single:a"], "pool": {"workers": workers}, "concurrency": 1}
    for calls in (4, 4):
        state = await conductor_evaluate(
            **parameters, limit=9, budget_usd=12.5, folder=str(tmp_path / "r"), return_state=True
        )
        with pytest.raises(BudgetError):
            await state.result()
        assert len(upstream.requests) <= calls
    assert sum(isinstance(request.reply, Text) for request in upstream.requests) == 3


async def test_a_judge_that_answers_nothing_is_paid_for_apart(prefect_sqlite, upstream, tmp_path):
    upstream.script(Text("Answer: five kilometres"), model="a")
    upstream.script(Text("yes"), model="b")
    (tmp_path / "rows.jsonl").write_text(json.dumps(RLPR))
    workers = [{"name": name, "model": f"openai/{name}", "api_base": upstream.base_url, **LLM} for name in "ab"]
    parameters = {"benchmarks": ["rlpr"], "data": str(tmp_path / "rows.jsonl"), "systems": ["single:a"]}
    parameters |= {"pool": {"workers": workers}, "exclude": ["b"], "judge": "b", "budget_usd": 100}
    for _ in range(2):
        summary = await conductor_evaluate(**parameters, folder=str(tmp_path / "out"))
        assert (summary.rows, summary.right, summary.cost_usd, summary.judge_usd) == (1, 0, 3, 1)
    assert [request.body["model"] for request in upstream.requests] == ["a", "b"]
    assert "| single:a | 0.000 | 1.000 |" in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"benchmarks": ["nonsense"]}, "benchmark_unknown"),
        ({"benchmarks": ["rg:nonsense"]}, "benchmark_unknown"),
        ({"systems": ["nonsense"]}, "planner_unknown"),
        ({"systems": []}, "bad_option"),
        ({"benchmarks": ["math500", "mmlu"], "data": "x.jsonl"}, "bad_option"),
        ({"benchmarks": ["math500"], "data": "/nowhere.jsonl"}, "data_unreadable"),
        ({"repeats": 0}, "bad_option"),
        ({"judge": "nobody"}, "pool_unknown_worker"),
        ({"benchmarks": ["humaneval"], "judge": "text"}, "bad_option"),  # code is for its tests alone
    ],
    ids=str,
)
async def test_what_is_wrong_is_said_before_anything_starts(prefect_sqlite, change, code, tmp_path):
    parameters = {"benchmarks": ["rg:gcd"], "systems": SYSTEMS, "folder": str(tmp_path / "r"), **change}
    state = await conductor_evaluate(**parameters, return_state=True)
    with pytest.raises(InputError) as caught:
        await state.result()
    assert caught.value.code == code
    assert not (tmp_path / "r").exists()


def test_the_command(prefect_sqlite, tmp_path):
    def run(*options):
        command = [Path(sys.executable).parent / "conductor", "evaluate", "--benchmark", "rg:gcd", "--limit", "4"]
        command += ["--exclude", "local", "--out", tmp_path / "out", *options]
        environment = {**os.environ, "PREFECT_API_URL": prefect_sqlite}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    systems = ["--system", "single:number", "--system", "moa"]
    offer = json.loads(run(*systems, "--quote", "--json"))["quote"]
    tools = 4  # calculator, number, text, python
    assert (offer["rows"], offer["calls"]["low"]) == (8, 4 + 4 * (tools + 1))
    assert json.loads(run(*systems, "--json"))["evaluation"]["rows"] == 8
    assert json.loads(run(*systems, "--quote", "--json"))["quote"]["rows"] == 0
    text = run(*systems)
    assert "8 rows" in text
    assert "the best worker alone is right on" in text
