"""Cancelling a deployment's run in the UI: calls in flight stop, the receipt is settled, no process stays."""

import re
import time

import pytest
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from prefect.client.schemas.objects import StateType
from prefect.states import Cancelling

from conductor_plugin.on_prefect.artifact import ARTIFACT_KEY
from conductor_plugin.plan import Plan, render_plan
from tests.deployed import deployed, processes_of
from tests.upstream import Hang, Text

pytestmark = [pytest.mark.prefect, pytest.mark.postgres]


@pytest.fixture(scope="module")
def deployment(prefect_postgres, tmp_path_factory):
    with deployed(prefect_postgres, tmp_path_factory.mktemp("home")) as found:
        yield found


def test_cancel(deployment, upstream):
    upstream.script(Text("one"), Hang(120), Hang(120))
    worker = {"name": "a", "kind": "llm", "model": "openai/m", "api_base": upstream.base_url}
    plan = Plan(model_id=(0,) * 4, subtasks=("first", "b", "c", "last"), access_list=((), (0,), (0,), (1, 2)))
    with deployment.worker():
        run = deployment.start(question="q", pool={"workers": [worker]}, plan=render_plan(plan))
        until(lambda: len(upstream.requests) == 3, deployment)
        (process,) = processes_of(run)
        deployment.client.set_flow_run_state(run, Cancelling())  # as the UI does
        asked = time.monotonic()
        left = until(lambda: all(request.client_left for request in upstream.requests[1:]), deployment) - asked
        gone = until(lambda: process not in processes_of(run), deployment) - asked
        state = deployment.wait(run, StateType.CANCELLED).state
        ended = time.monotonic() - asked
    print(f"\nafter the click: calls dropped {left:.2f} s, process gone {gone:.2f} s, Cancelled {ended:.2f} s")
    assert left < 2  # and so less from the signal, which the worker sends after the click
    assert state.name == "Cancelled"
    assert [one.name for one in deployment.states(run)][-2:] == ["Cancelling", "Cancelled"]
    artifact = artifact_of(deployment, run)
    assert "## Answer (cancelled)" in artifact
    rows = re.findall(r"^\| (\d) \| a \| .*? \| (\w+) \|", artifact, re.M)
    assert rows == [("0", "completed"), ("1", "cancelled"), ("2", "cancelled"), ("3", "not_started")]
    assert len(upstream.requests) == 3
    assert processes_of(run) == []


def until(true, deployment, seconds=60):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, deployment.told()
        time.sleep(0.01)
    return time.monotonic()


def artifact_of(deployment, run):
    wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run]))
    (artifact,) = [one for one in deployment.client.read_artifacts(artifact_filter=wanted) if one.key == ARTIFACT_KEY]
    return artifact.data
