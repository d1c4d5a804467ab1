"""Keys are named in the pool and sent in one header; whatever an upstream echoes, they are nowhere else afterwards."""

import asyncio
import json
import pickle
import subprocess
import sys
import traceback

import cloudpickle
import pytest
from prefect.blocks.system import Secret

from conductor_plugin.errors import WorkerError
from conductor_plugin.graph import CallStep
from conductor_plugin.on_prefect.flow import conductor
from conductor_plugin.on_prefect.history import whole_history
from conductor_plugin.pool import pool_from
from conductor_plugin.step import StepJob, run_step
from tests.prefect.sinks import database, everything_of_the_api, files
from tests.prefect.test_faults import Json, RawUpstream, completion
from tests.upstream import Html, Status, Text

pytestmark = pytest.mark.prefect

# Two that look like no known provider's key: they are hidden because they were sent, not for their looks.
KEYS = {
    "amber": "amber-Qm8xKzT4wLp0VnR7",
    "birch": "birch/plain+Key==9d3Fh2",
    "planner": "sk-planner-0123456789abcdefABCDEF",
}
NAMES = {"amber": "AMBER_KEY", "birch": "secret/birch-key", "planner": "secret/planner-key"}
ECHO = "you sent {authorization}, who are you?"


@pytest.fixture
def upstream():
    with RawUpstream() as server:
        yield server


def keys_in(text):
    """Which keys a text or some bytes hold, whole or by their telling part."""
    text = text.decode("latin-1") if isinstance(text, bytes) else text
    return {name for name, key in KEYS.items() if key in text or key[8:] in text}


def llm(upstream, name):
    return {"model": f"openai/{name}", "api_base": upstream.base_url, "api_key_env": NAMES[name]}


def pool(upstream):
    workers = [{"name": name, "kind": "llm", "retries": 1, **llm(upstream, name)} for name in ("amber", "birch")]
    return {"workers": workers, "planner": {"kind": "prompted", **llm(upstream, "planner")}}


BODY = completion(index=0, finish_reason="stop", message={"role": "assistant", "content": KEYS["amber"]})
ECHOES = {
    **{str(status): Status(status, ECHO) for status in (400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 503, 529)},
    "too long a wait": Status(429, ECHO, retry_after=9999),
    "quota": Status(429, ECHO, "insufficient_quota"),
    "context": Status(400, ECHO, "context_length_exceeded"),
    "policy": Status(400, ECHO, "content_policy_violation"),
    "its code": Status(400, "no", code=KEYS["amber"]),
    "a redirect": Status(302, ECHO, headers={"Location": f"http://127.0.0.1:9/{KEYS['amber']}"}),
    "a web page": Html(f"<html>{KEYS['amber']}</html>"),
    "half of the JSON": Json(f'{{"choices": "{KEYS["amber"]}'.encode()),
    "a list": Json([KEYS["amber"]]),
    "another shape": Json({"error": KEYS["amber"], "choices": []}),
    "a strange usage": Json({**BODY, "usage": {"prompt_tokens": KEYS["amber"]}}),
    "a strange message": Json({**BODY, "choices": [{"index": 0, "message": [KEYS["amber"]]}]}),
}


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
async def test_no_exception_holds_the_key(upstream, monkeypatch, caplog, capfd, echo):
    """Nor does what it was made of, its pickled form or its traceback."""
    caplog.set_level("INFO")
    monkeypatch.setenv("AMBER_KEY", KEYS["amber"])
    upstream.script(echo)
    worker = pool_from(pool(upstream)).workers[0]
    with pytest.raises(WorkerError) as caught:
        await run_step(StepJob(0, CallStep(worker=0, subtask=""), worker, "q"), ())
    assert keys_in(upstream.requests[0].headers["authorization"]) == {"amber"}
    error = caught.value
    assert not keys_in(pickle.dumps(error) + cloudpickle.dumps(error))
    assert not keys_in("".join(traceback.format_exception(error)) + caplog.text + "".join(capfd.readouterr()))
    while error is not None:
        assert not keys_in(f"{error!r} {error} {error.args} {vars(error)}")
        error = error.__cause__ or error.__context__


def test_no_process_prints_the_key(upstream, monkeypatch):
    """In a process of its own: pytest would keep warnings and log lines to itself."""
    monkeypatch.setenv("AMBER_KEY", KEYS["amber"])
    upstream.script(*ECHOES.values())
    given = "model_id = [0]\nsubtasks = ['']\naccess_list = [[]]"
    members = pool(upstream)
    members["workers"][0]["retries"] = 0
    script = f"""
import asyncio
from conductor_plugin.conduct import conduct
from conductor_plugin.planners import make_planner
from conductor_plugin.pool import pool_from

async def main():
    for name in {list(ECHOES)!r}:
        pool = pool_from({members!r})
        print(name, await conduct("q", pool=pool, planner=make_planner(pool, plan={given!r})))

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-W", "always", "-c", script], capture_output=True, text=True, check=True)
    assert (len(upstream.requests), done.stdout.count("failed") >= len(ECHOES)) == (len(ECHOES), True)
    assert keys_in(done.stdout + done.stderr) == set(), done.stderr


async def test_no_field_of_an_answer_holds_the_key(upstream, monkeypatch):
    monkeypatch.setenv("AMBER_KEY", KEYS["amber"])
    upstream.script(Json({**BODY, "id": KEYS["amber"], "model": f"m {KEYS['amber']}", "system_fingerprint": "x"}))
    worker = pool_from(pool(upstream)).workers[0]
    result = await run_step(StepJob(0, CallStep(worker=0, subtask=""), worker, "q"), ())
    assert (result.reply.output, keys_in(repr(result))) == ("[key]", set())


async def test_no_sink_holds_a_key_after_runs_with_an_upstream_that_echoes(
    server, upstream, monkeypatch, capfd, caplog
):
    monkeypatch.setenv("AMBER_KEY", KEYS["amber"])
    for name in ("birch", "planner"):
        await Secret(value=KEYS[name]).save(f"{name}-key", overwrite=True)
    plan = (
        "I think {authorization}.\nmodel_id = [0, 1]\nsubtasks = ['use {authorization}', '']\naccess_list = [[], 'all']"
    )
    for last in (Text(ECHO), Status(401, ECHO)):
        upstream.script(Status(503, ECHO), Text(f"no plan. {ECHO}"), Text(plan), model="planner")
        upstream.script(Status(500, ECHO), Text(ECHO), model="amber")
        upstream.script(Status(429, ECHO), last, model="birch")
    answers = []
    async with whole_history():
        for _ in range(2):
            state = await conductor("who am I?", pool=pool(upstream), return_state=True)
            answers.append(await state.result(raise_on_failure=False))
    assert [answer.status for answer in answers] == ["completed", "failed"]
    assert [answer.error and answer.error.code for answer in answers] == [None, "bad_key"]
    for request in upstream.requests:
        assert request.headers["authorization"] == f"Bearer {KEYS[request.body['model']]}"
        assert not keys_in(json.dumps(request.body))
    for _ in range(100):  # logs and events are sent in the background
        sinks = await everything_of_the_api()
        if "[key]" in sinks["logs"] and answers[1].flow_run_id in sinks["events"]:
            break
        await asyncio.sleep(0.2)
    sinks |= {"database": await database(server), "files": files()}
    sinks |= {"receipts": json.dumps([answer.to_json() for answer in answers])}
    sinks |= {"streams": caplog.text + "".join(capfd.readouterr())}
    if not isinstance(server, str):
        sinks["server.log"] = (server.home / "server.log").read_text()
    assert {name: keys_in(text) for name, text in sinks.items()} == {name: set() for name in sinks}
    # The search is no empty one: what the upstream echoed is there, without the key.
    for name in ("flow runs", "artifacts", "logs", "events", "database", "files", "receipts", "streams"):
        assert "[key]" in sinks[name], name
