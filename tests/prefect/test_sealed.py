"""Above the server's clearance: no sink of Prefect's holds a text, and nothing that a user needs is lost for it."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conductor_plugin.errors import InputError, LabelError
from conductor_plugin.on_prefect.batch import conductor_batch
from conductor_plugin.on_prefect.flow import conductor
from conductor_plugin.on_prefect.history import whole_history
from conductor_plugin.on_prefect.seal import by_reference, whole_answer
from conductor_plugin.options import AnswerOptions
from tests.prefect.sinks import database, everything_of_the_api, files
from tests.upstream import Status, Text

pytestmark = pytest.mark.prefect

# One word for each place that a text can come from.
QUESTION, HISTORY, THOUGHT, SUBTASK, OUTPUT, ERROR = (
    f"zq{name}zq" for name in ("question", "history", "thought", "subtask", "output", "error")
)
WORDS = {QUESTION, HISTORY, THOUGHT, SUBTASK, OUTPUT, ERROR}
PLAN = f"{THOUGHT}\nmodel_id = [0, 1{{more}}]\nsubtasks = ['{SUBTASK}', ''{{also}}]\naccess_list = [[], 'all'{{all}}]"


def plan(recurse=False):
    return PLAN.format(more=", 2", also=", ''", all=", 'all'") if recurse else PLAN.format(more="", also="", all="")


def words_in(text):
    return {word for word in WORDS if word in text}


def pool(upstream):
    def llm(name):
        return {"model": f"openai/{name}", "api_base": upstream.base_url}

    workers = [{"name": n, "kind": "llm", "retries": 1, "clearance": "confidential", **llm(n)} for n in ("a", "b")]
    workers[0]["fallbacks"] = ["b"]
    return {"workers": workers, "planner": {"kind": "prompted", "clearance": "confidential", **llm("planner")}}


async def ask(upstream, **options):
    """As the command line does it: the answer as the server keeps it, and the whole one."""
    parameters = {"question": QUESTION, "pool": pool(upstream), "plan": None, "label": "confidential", **options}
    referred = await by_reference(parameters)
    assert not words_in(json.dumps(referred))
    state = await conductor(**referred, return_state=True)
    kept = await state.result(raise_on_failure=False)
    return kept, await whole_answer(kept)


async def test_no_sink_holds_a_text(server, upstream, caplog, capfd):
    upstream.script(Text(f"no plan, {THOUGHT}"), Text(plan(recurse=True)), Text(plan()), Text(plan()), model="planner")
    upstream.script(Status(500, ERROR), Text(f"{OUTPUT} 1"), Text(f"{OUTPUT} 2"), Status(400, ERROR), model="a")
    upstream.script(Text(f"{OUTPUT} 3"), Text(f"{OUTPUT} 4"), Status(401, ERROR), model="b")
    async with whole_history():
        answers = [await ask(upstream, max_rounds=1), await ask(upstream)]
    (kept, whole), (failed_kept, failed) = answers
    assert (whole.answer, whole.status, len(whole.rounds)) == (f"{OUTPUT} 4", "completed", 2)
    assert (failed.status, failed.error.code) == ("failed", "bad_key")
    assert ERROR in failed.error.message
    assert re.fullmatch(r"\(confidential text: 12 characters, hash [0-9a-f]{16}\)", kept.answer)
    assert (failed_kept.error.code, words_in(kept.model_dump_json() + failed_kept.model_dump_json())) == (
        "bad_key",
        set(),
    )
    sinks = await everything_of_the_api()
    for _ in range(50):  # logs and events are sent in the background
        if failed.flow_run_id in sinks["events"] and "bad_key" in sinks["logs"]:
            break
        await asyncio.sleep(0.2)
        sinks = await everything_of_the_api()
    sinks |= {"database": await database(server), "files": files()}
    sinks |= {"streams": caplog.text + "".join(capfd.readouterr())}
    assert {name: words_in(text) for name, text in sinks.items()} == {name: set() for name in sinks}
    # The search is no empty one: the runs are there, with workers' names, sizes and hashes.
    assert "step-1 · b" in sinks["task runs"]
    for name in ("artifacts", "files", "database", "flow runs"):
        assert kept.flow_run_id in sinks[name] or "confidential text" in sinks[name], name
    assert "characters, hash" in sinks["artifacts"]


async def test_a_batch_has_its_answers_in_its_own_file_alone(prefect_sqlite, upstream, tmp_path):
    upstream.script(Text(plan()), model="planner", repeat=True)
    upstream.script(Text(OUTPUT), model="a", repeat=True)
    upstream.script(Text(OUTPUT), model="b", repeat=True)
    (tmp_path / "q.jsonl").write_text(json.dumps({"id": f"id-{QUESTION}", "question": QUESTION}))
    files_of_batch = str(tmp_path / "q.jsonl"), str(tmp_path / "a.jsonl")
    async with whole_history():
        summary = await conductor_batch(*files_of_batch, pool(upstream), AnswerOptions(label="confidential"))
    assert summary.completed == 1
    assert words_in((tmp_path / "a.jsonl").read_text()) >= {OUTPUT, THOUGHT, SUBTASK}
    sinks = await everything_of_the_api()
    sinks |= {"database": await database(prefect_sqlite), "files": files()}
    assert {name: words_in(text) for name, text in sinks.items()} == {name: set() for name in sinks}
    with pytest.raises(LabelError, match="question_ref"):
        await conductor_batch(*files_of_batch, pool(upstream), AnswerOptions(label="confidential", plan=plan()))


async def test_a_text_in_a_parameter_is_refused(prefect_sqlite, upstream):
    state = await conductor(QUESTION, pool=pool(upstream), label="confidential", return_state=True)
    with pytest.raises(LabelError, match=r"conductor store.*question_ref"):
        await state.result()
    assert upstream.requests == []


@pytest.mark.parametrize(
    "reference", ["", "confidential", "confidential/0000", "confidential/../hmac-key", "a/b/c", "/x"]
)
async def test_an_unknown_reference(prefect_sqlite, reference):
    state = await conductor(question_ref=reference, return_state=True)
    with pytest.raises(InputError, match="conductor store") as caught:
        await state.result()
    assert caught.value.code == "question_ref"


async def test_a_reference_brings_its_own_label(prefect_sqlite, upstream):
    parameters = {"question": QUESTION, "pool": pool(upstream), "plan": plan(), "label": "confidential"}
    referred = await by_reference(parameters)
    assert referred["question_ref"].startswith("confidential/")
    state = await conductor(**referred | {"label": "internal"}, return_state=True)
    with pytest.raises(InputError, match="its label, confidential"):
        await state.result()
    assert upstream.requests == []
    kept = await conductor(pool=pool(upstream), question_ref=referred["question_ref"])
    assert (kept.label, (await whole_answer(kept)).status) == ("confidential", "completed")


async def test_results_are_found_again(prefect_sqlite, upstream):
    """The keys of a sealed run are keyed hashes, and still those of the same inputs."""
    first, second = [await ask(upstream, plan=plan(), reuse="always") for _ in range(2)]
    assert (first[1].answer, second[1].usage.calls, len(upstream.requests)) == (second[1].answer, 0, 2)


async def test_a_cleared_server_keeps_everything_as_ever(prefect_sqlite, upstream, monkeypatch):
    monkeypatch.setenv("CONDUCTOR_SERVER_CLEARANCE", "confidential")
    parameters = {"question": QUESTION, "pool": pool(upstream), "plan": plan(), "label": "confidential"}
    assert await by_reference(parameters) == parameters
    answer = await conductor(**parameters)
    assert (answer.status, words_in(answer.model_dump_json())) == ("completed", {SUBTASK, THOUGHT})


async def test_a_storage_block_that_is_not_there(prefect_sqlite, upstream, monkeypatch):
    monkeypatch.setenv("CONDUCTOR_LABELLED_STORAGE", "local-file-system/vault-{label}")
    with pytest.raises(InputError, match="local-file-system/vault-confidential") as caught:
        await ask(upstream)
    assert caught.value.code == "labelled_storage"


async def test_a_storage_block_for_each_label(prefect_sqlite, upstream, monkeypatch, tmp_path):
    from prefect.filesystems import LocalFileSystem

    await LocalFileSystem(basepath=str(tmp_path / "vault")).save("vault-confidential")
    monkeypatch.setenv("CONDUCTOR_LABELLED_STORAGE", "local-file-system/vault-{label}")
    kept, whole = await ask(upstream, plan=plan())
    stored = "".join(path.read_text() for path in (tmp_path / "vault").rglob("*") if path.is_file())
    assert words_in(stored) >= {QUESTION, SUBTASK}
    assert (whole.status, words_in(kept.model_dump_json())) == ("completed", set())


def test_the_command_lines_own_screen_shows_its_user_the_answer(prefect_sqlite, tmp_path):
    def run(*command, home):
        environment = {**os.environ, "PREFECT_API_URL": prefect_sqlite, "CONDUCTOR_HOME": str(tmp_path / home)}
        command = [Path(sys.executable).parent / "conductor", *command]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    question = "What is 17 * 23?"
    answer = json.loads(run("answer", question, "--label", "confidential", "--only", "tool", "--json", home="mine"))
    assert (answer["answer"], answer["label"]) == ("391", "confidential")
    shown = [json.loads(run("show", answer["flow_run_id"], "--json", home=home)) for home in ("mine", "another")]
    assert shown[0] == answer
    assert shown[1]["answer"].startswith("(confidential text: 3 characters, hash")
    reference = run("store", question, "--label", "confidential", home="mine").strip()
    assert re.fullmatch("confidential/[0-9a-f]{32}", reference)
    assert question in (tmp_path / "mine" / "labelled").joinpath(*reference_path(reference)).read_text()


def reference_path(reference):
    label, name = reference.split("/")
    return f"label-{label}", f"question-{name}"
