"""Ctrl-C or SIGTERM on the command line: calls in flight stop, the receipt is told, nothing is left behind."""

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


def interrupted(process, upstream, kill=os.kill, number=signal.SIGINT):
    """Send the signal once the second call is in flight; the exit code and what was printed."""
    told = []
    reader = threading.Thread(target=lambda: told.extend(process.stderr), daemon=True)
    reader.start()
    deadline = time.monotonic() + 60
    while len(upstream.requests) < 2:
        assert time.monotonic() < deadline, told
        time.sleep(0.05)
    kill(process.pid, number)
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_settles_the_receipt(start, upstream, number):
    process = start("--json")
    code, out, err = interrupted(process, upstream, number=number)
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


def test_sigterm_in_the_middle_of_a_steps_code(start, upstream, tmp_path, monkeypatch):
    """A signal raises wherever the interpreter is, not only where it waits: here a step sends it itself."""
    (tmp_path / "suicidal.py").write_text(
        "import os, signal\nasync def answer(request):\n    os.kill(os.getpid(), signal.SIGTERM)\n    return 'no'\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))
    pool = json.loads((tmp_path / "pool.yaml").read_text())
    pool["workers"].append({"name": "b", "kind": "suicidal:answer"})
    (tmp_path / "pool.yaml").write_text(json.dumps(pool))
    plan = Plan(model_id=(0, 1), subtasks=("first", "second"), access_list=((), (0,)))
    (tmp_path / "plan.txt").write_text(render_plan(plan))
    process = start("--json")
    out, err = process.communicate(timeout=90)
    record = json.loads(out)
    assert (process.returncode, record["status"]) == (130, "cancelled"), err
    assert [step["status"] for step in record["rounds"][0]["steps"]] == ["completed", "cancelled"]
    assert "Traceback" not in err
