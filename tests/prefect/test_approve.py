"""A plan waits for a person: on the command line's own terminal, or as a paused run in Prefect's UI."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.exceptions import PrefectHTTPStatusError
from prefect.flow_runs import aresume_flow_run
from prefect.input.run_input import keyset_from_paused_state

from conductor_plugin.on_prefect.flow import conductor
from conductor_plugin.plan import Plan, render_plan
from tests.upstream import Text

pytestmark = pytest.mark.prefect

LLM = {"kind": "llm", "price": {"input": 1.0, "output": 10.0}, "params": {"max_tokens": 100}, "retries": 0}
PLAN = Plan(model_id=(0, 0), subtasks=("](http://evil) <b>zqplannedzq", "second"), access_list=((), "all"))


def pool(upstream, **fields):
    return {"workers": [{"name": "a", "model": "openai/a", "api_base": upstream.base_url, **LLM, **fields}]}


async def paused():
    """The run that waits for somebody, and the description that it shows, which Prefect writes after the state."""
    async with get_client() as client:
        for _ in range(200):
            runs = [run for run in await client.read_flow_runs() if run.state_name == "Paused"]
            if runs:
                keyset = keyset_from_paused_state(runs[0].state)
                with suppress(PrefectHTTPStatusError):
                    return runs[0].id, str(await client.read_flow_run_input(runs[0].id, keyset["description"]))
            await asyncio.sleep(0.1)
    raise AssertionError("no run is paused")


async def test_a_paused_run_goes_on_with_a_yes(prefect_sqlite, upstream):
    parameters = {"pool": pool(upstream), "plan": render_plan(PLAN), "approve": True}
    run = asyncio.create_task(conductor("q", **parameters, return_state=True))
    run_id, description = await paused()
    assert upstream.requests == []
    assert description.count("```") == 2
    assert "zqplannedzq" in description.split("```")[1]
    assert "0 · a" in description
    assert "at most" in description
    await aresume_flow_run(run_id, run_input={"approve": True})
    answer = await (await run).result(raise_on_failure=False)
    assert (answer.status, len(upstream.requests)) == ("completed", 2)


async def test_a_no_runs_nothing(prefect_sqlite, upstream):
    run = asyncio.create_task(
        conductor("q", pool=pool(upstream), plan=render_plan(PLAN), approve=True, return_state=True)
    )
    run_id, _ = await paused()
    await aresume_flow_run(run_id, run_input={"approve": False})
    answer = await (await run).result(raise_on_failure=False)
    assert (answer.status, answer.error.code, upstream.requests) == ("cancelled", "not_approved", [])
    assert answer.rounds[0].plan.model_id == (0, 0)


async def test_what_was_approved_is_not_asked_again(prefect_sqlite, upstream):
    """The run is started again, as after a crash; another plan would be asked for."""
    from tests.prefect.test_resume import again

    upstream.script(Text("one"))
    parameters = {"pool": pool(upstream, timeout_seconds=0.001), "plan": render_plan(PLAN), "approve": True}
    run = asyncio.create_task(conductor("q", **parameters, return_state=True))
    run_id, _ = await paused()
    await aresume_flow_run(run_id, run_input={"approve": True})
    answer = await (await run).result(raise_on_failure=False)
    assert answer.status == "failed"
    repeated = await again(run_id, "q", {**parameters, "pool": pool(upstream)})
    assert repeated.status == "completed"


async def test_a_sealed_plan_shows_no_text(prefect_sqlite, upstream):
    from conductor_plugin.on_prefect.seal import by_reference

    members = pool(upstream, clearance="confidential")
    parameters = {"question": "q", "pool": members, "plan": render_plan(PLAN), "label": "confidential"}
    run = asyncio.create_task(conductor(**await by_reference(parameters), approve=True, return_state=True))
    run_id, description = await paused()
    assert "zqplannedzq" not in description
    assert "(confidential text:" in description
    await aresume_flow_run(run_id, run_input={"approve": False})
    assert (await (await run).result(raise_on_failure=False)).error.code == "not_approved"


@pytest.fixture
def start(prefect_sqlite, upstream, tmp_path):
    """`conductor answer --approve` with a terminal or a pipe as its stdin."""
    (tmp_path / "pool.yaml").write_text(json.dumps(pool(upstream)))
    (tmp_path / "plan.txt").write_text(render_plan(PLAN))
    command = [Path(sys.executable).parent / "conductor", "answer", "q", "--approve", "--json"]
    command += ["--pool", tmp_path / "pool.yaml", "--plan", tmp_path / "plan.txt"]
    processes = []

    def start(stdin):
        pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        environment = {**os.environ, "PREFECT_API_URL": prefect_sqlite}
        processes.append(subprocess.Popen(command, **pipes, env=environment, start_new_session=True))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()


@pytest.mark.parametrize(("typed", "code", "status"), [("y\n", 0, "completed"), ("\n", 130, "cancelled")])
def test_the_terminal_is_asked(start, upstream, typed, code, status):
    ours, theirs = pty.openpty()
    process = start(theirs)
    os.write(ours, typed.encode())
    out, err = process.communicate(timeout=60)
    record = json.loads(out)
    assert (process.returncode, record["status"]) == (code, status), err
    assert "Run this plan? [y/N]" in err
    assert "at most" in err
    assert len(upstream.requests) == (2 if code == 0 else 0)


def test_no_answer_is_a_no(start, upstream):
    out, err = start(subprocess.DEVNULL).communicate(timeout=60)
    assert (json.loads(out)["error"]["code"], upstream.requests) == ("not_approved", []), err


def test_ctrl_c_while_it_asks(start, upstream):
    ours, theirs = pty.openpty()
    process = start(theirs)
    seen = ""
    while "[y/N]" not in seen:
        seen += process.stderr.read(1)
    began = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    assert (process.returncode, upstream.requests) == (130, [])
    assert time.monotonic() - began < 20
    os.close(ours)
