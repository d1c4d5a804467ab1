"""Work pools for GPUs: files that fit together, a server that takes them, and a process that sees its GPUs."""

import json
import os
import re
import subprocess
import sys
import time

import pytest
import yaml
from jsonschema import Draft202012Validator

from flows import serve_planner
from tests.deployed import ROOT

POOLS = {kind: ROOT / f"deployments/work-pools/{kind}-gpu.json" for kind in ("process", "docker", "kubernetes")}
KINDS = pytest.mark.parametrize("kind", POOLS)


@KINDS
def test_a_templates_variables_are_those_that_it_uses(kind):
    template = json.loads(POOLS[kind].read_text())
    used = set(re.findall(r"{{ *(\w+) *}}", json.dumps(template["job_configuration"])))
    declared = set(template["variables"]["properties"])
    # The process's environment is laid over the template's own by Prefect, which needs `env` declared for it.
    assert declared - used == ({"env"} if kind == "process" else set())
    assert used <= declared
    schema = template["variables"]
    Draft202012Validator.check_schema(schema)
    defaults = {name: one["default"] for name, one in schema["properties"].items() if one.get("default") is not None}
    Draft202012Validator(schema).validate(defaults)
    assert "gpus" in defaults


def test_where_the_gpus_are_asked_for():
    process, docker, kubernetes = (json.loads(path.read_text())["job_configuration"] for path in POOLS.values())
    assert process["env"] == {"CUDA_VISIBLE_DEVICES": "{{ gpus }}"}
    assert docker["container_create_kwargs"]["device_requests"] == [
        {"Driver": "nvidia", "Count": "{{ gpus }}", "Capabilities": [["gpu"]]}
    ]
    [container] = kubernetes["job_manifest"]["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "{{ gpus }}"


@pytest.fixture
def prefect(prefect_postgres, tmp_path):
    """Run a `prefect …` command against the server."""
    environment = {**os.environ, "PREFECT_API_URL": prefect_postgres.api_url, "PREFECT_HOME": str(tmp_path / "home")}

    def run(*command):
        done = subprocess.run(
            [sys.executable, "-m", "prefect", "--no-prompt", *command],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.mark.prefect
@pytest.mark.postgres
def test_the_server_takes_them_and_a_run_sees_its_gpus(prefect, tmp_path):
    for kind in ("docker", "kubernetes"):
        prefect("work-pool", "create", f"gpu-{kind}", "--type", kind, "--base-job-template", str(POOLS[kind]))
    prefect("work-pool", "create", "conductor-gpu", "--type", "process", "--base-job-template", str(POOLS["process"]))
    prefect("deploy", "--all", "--prefect-file", "deployments/gpu.yaml")
    shipped = yaml.safe_load((ROOT / "deployments/gpu.yaml").read_text())["deployments"]
    assert {one["work_pool"]["name"] for one in shipped} == {"conductor-gpu"}
    seen = {"name": "seen", "entrypoint": "tests/prefect/sees_gpus.py:sees_gpus", "work_pool": shipped[0]["work_pool"]}
    (tmp_path / "prefect.yaml").write_text(yaml.safe_dump({"name": "seen", "deployments": [seen]}))
    prefect("deploy", "--all", "--prefect-file", str(tmp_path / "prefect.yaml"))
    for name, more in {"default": (), "two": ("--job-variable", "gpus=4,5")}.items():
        prefect("deployment", "run", "sees-gpus/seen", "--param", f"path={tmp_path / name}", *more)
    prefect("worker", "start", "--pool", "conductor-gpu", "--run-once")
    assert read(tmp_path / "default") == ["0", "30"]
    assert read(tmp_path / "two") == ["4,5", "30"]


def read(path, seconds=60):
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return json.loads(path.read_text())


def command(folder, monkeypatch, text):
    """A `conductor` of one line of shell, found before the real one."""
    path = folder / "conductor"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_serving_ends_with_its_command(tmp_path, monkeypatch):
    command(tmp_path, monkeypatch, f'echo "$@" > {tmp_path}/told; exit 3')
    with pytest.raises(serve_planner.ConductorError, match="exit code 3") as caught:
        serve_planner.conductor_serve_planner.fn("runs/mine", ("--port", "8001"))
    assert caught.value.code == "serve_ended"
    assert (tmp_path / "told").read_text() == "serve-planner --run runs/mine --port 8001\n"


def test_a_stopped_flow_takes_its_command_along(tmp_path, monkeypatch):
    command(tmp_path, monkeypatch, f"echo $$ > {tmp_path}/pid; exec sleep 600")

    class Struck(subprocess.Popen):
        """As if a signal had raised in the flow's main thread."""

        def wait(self, timeout=None):
            if timeout is not None:
                return super().wait(timeout)
            while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
                time.sleep(0.02)
            raise KeyboardInterrupt

    monkeypatch.setattr(serve_planner.subprocess, "Popen", Struck)
    with pytest.raises(KeyboardInterrupt):
        serve_planner.conductor_serve_planner.fn("runs/mine")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
