"""Ctrl-C on the command line: calls in flight stop, the receipt is told, nothing is left behind."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from conductor_plugin.plan import Plan, render_plan
from tests.upstream import Hang, Text

ROOT = Path(__file__).parents[2]
CONDUCTOR = Path(sys.executable).parent / "conductor"

pytestmark = pytest.mark.prefect


@pytest.fixture
def start(prefect_sqlite, upstream, tmp_path):
    """`conductor answer` on a plan of two steps: the first answers, the second one's upstream hangs."""
    upstream.script(Text("one"), Hang(60))
    worker = {"name": "a", "kind": "llm", "model": "openai/m", "api_base": upstream.base_url}
    (tmp_path / "pool.yaml").write_text(json.dumps({"workers": [worker]}))
    plan = Plan(model_id=(0, 0), subtasks=("first", "second"), access_list=((), (0,)))
    (tmp_path / "plan.txt").write_text(render_plan(plan))
    command = [CONDUCTOR, "answer", "q", "--pool", tmp_path / "pool.yaml", "--plan", tmp_path / "plan.txt"]
    processes = []

    def start(*options, server=prefect_sqlite):
        environment = {**os.environ, "PREFECT_HOME": str(tmp_path / "home")}
        if server:
            environment["PREFECT_API_URL"] = server
        process = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()


def interrupted(process, upstream, kill=os.kill):
    """Send SIGINT once the second call is in flight; the exit code and what was printed."""
    told = []
    reader = threading.Thread(target=lambda: told.extend(process.stderr), daemon=True)
    reader.start()
    deadline = time.monotonic() + 60
    while len(upstream.requests) < 2:
        assert time.monotonic() < deadline, told
        time.sleep(0.05)
    kill(process.pid, signal.SIGINT)
    out = process.stdout.read()
    code = process.wait(30)
    reader.join(5)
    return code, out, "".join(told)


def test_ctrl_c_on_a_terminal_with_the_embedded_server(start, upstream, tmp_path):
    """A terminal signals the whole process group: the temporary server too must not die of it."""
    process = start("--json", server=None)
    code, out, err = interrupted(process, upstream, os.killpg)
    record = json.loads(out)
    assert (code, record["status"]) == (130, "cancelled"), err
    assert [step["status"] for step in record["rounds"][0]["steps"]] == ["completed", "cancelled"]
    assert group_is_empty(process.pid)


def group_is_empty(pid):
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_ctrl_c_settles_the_receipt(start, upstream):
    process = start("--json")
    code, out, err = interrupted(process, upstream)
    record = json.loads(out)
    assert (code, record["status"], record["error"]["code"]) == (130, "cancelled", "cancelled")
    steps = record["rounds"][0]["steps"]
    assert [step["status"] for step in steps] == ["completed", "cancelled"]
    assert steps[0]["output"] == "one"
    assert "Traceback" not in err
    assert upstream.requests[1].client_left
    assert group_is_empty(process.pid)


def test_ctrl_c_without_json(start, upstream):
    code, out, err = interrupted(start(), upstream)
    assert code == 130
    assert "cancelled" in out
    assert "Traceback" not in err
