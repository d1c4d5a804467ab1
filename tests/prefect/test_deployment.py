"""End to end: the README's deployment commands, on a real server with PostgreSQL and a real process worker."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The environment that the README's reader has: the core alone, where `make test` has set it up.
BIN = ROOT / ".venv" / "bin" if (ROOT / ".venv" / "bin" / "prefect").exists() else Path(sys.executable).parent

pytestmark = [pytest.mark.prefect, pytest.mark.postgres]


def readme_commands():
    """The commands of the README's marked block."""
    readme = (ROOT / "README.md").read_text()
    block = re.search(
        r"<!-- these commands are run by tests/prefect/test_deployment.py -->\n```bash\n(.*?)```", readme, re.S
    )
    assert block, "the README lost its deployment block"
    return [shlex.split(line) for line in block.group(1).strip().splitlines()]


@pytest.fixture
def shell(prefect_postgres, tmp_path):
    """Run a `prefect …` or `conductor …` command as a user would, against the server."""
    environment = {
        **os.environ,
        "PREFECT_API_URL": prefect_postgres.api_url,
        "PREFECT_HOME": str(tmp_path / "home"),
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }

    def start(command, log):
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)

    def run(*command, check=True):
        result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
        assert not check or result.returncode == 0, result.stdout + result.stderr
        return result

    run.start = start
    return run


def test_the_readmes_commands(shell, tmp_path):
    commands = readme_commands()
    assert commands[0] == ["prefect", "server", "start"]  # the fixture started it, on a port of its own
    *before, worker, deployment_run = commands[1:]
    assert worker[:3] == ["prefect", "worker", "start"]
    for command in before:
        shell(*command)
    with (tmp_path / "worker.log").open("wb") as log:
        process = shell.start(worker, log)
        try:
            told = shell(*deployment_run)
            run_id = re.search(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", told.stdout).group()
            receipt = wait_for_receipt(shell, run_id)
        finally:
            process.terminate()
            process.wait(30)
    assert (receipt["answer"], receipt["status"], receipt["flow_run_id"]) == ("391", "completed", run_id)
    assert [step["worker"] for step in receipt["rounds"][0]["steps"]] == ["calculator"]
    assert "391" in shell("conductor", "show", run_id).stdout


def wait_for_receipt(shell, run_id, seconds=120):
    """`conductor show` until the run has finished; before that it says so, with exit code 1."""
    deadline = time.monotonic() + seconds
    while True:
        shown = shell("conductor", "show", run_id, "--json", check=False)
        record = json.loads(shown.stdout)
        if shown.returncode == 0:
            return record
        assert (shown.returncode, record["error"]["code"]) == (1, "run_unfinished"), shown.stdout
        assert time.monotonic() < deadline, (shown.stdout, "the worker's log is in the test's folder")
        time.sleep(1)


def test_show_of_an_unknown_run(shell):
    shown = shell("conductor", "show", "01234567-89ab-4cde-8f01-23456789abcd", "--json", check=False)
    assert (shown.returncode, json.loads(shown.stdout)["error"]["code"]) == (2, "run_unknown")
