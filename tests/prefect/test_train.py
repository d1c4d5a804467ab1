"""The flow `conductor-train`: its stages, its artifacts, a pause, kills and a cancel; then once with a real trainer.

But for the last test its stages are the stand-in of tests/training/fake_trainer.py.
"""

import os
import signal
import time
from datetime import timedelta

import httpx
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from prefect.client.schemas.objects import StateType
from prefect.states import Cancelling

from deployments.automations import automations, ship
from tests.deployed import POOL, deployed, engine_of, processes_of
from tests.prefect.fake_train import fake_command
from tests.training.test_supervise import alive, starts, until
from training.flow import PAUSED, conductor_train
from training.records import last_checkpoint, read_lines

pytestmark = [pytest.mark.prefect]


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr("training.flow.stage_command", fake_command)


async def artifacts_of(run):
    async with get_client() as client:
        wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run]))
        return {one.key: one for one in await client.read_artifacts(artifact_filter=wanted)}


async def test_the_stages_and_what_is_shown(prefect_sqlite, fake, tmp_path):
    for _ in range(2):  # again: all is done
        script = ",".join(["step"] * 8 + ["done"])
        state = await conductor_train(script, str(tmp_path), return_state=True)
        summary = await state.result()
        assert (summary.steps, summary.accuracy, summary.promoted) == (8, 0.75, False)
    assert len(starts(tmp_path)) == 5
    shown = await artifacts_of(state.state_details.flow_run_id)
    assert shown["conductor-training-steps"].data == 100
    assert "Step 8 of 8." in shown["conductor-training"].data
    assert "worker/sums" in shown["conductor-training"].data
    assert shown["conductor-training-curves"].data.startswith("data:image/png;base64,")


async def test_a_pause_is_a_state_and_an_event(prefect_sqlite, fake, tmp_path):
    state = await conductor_train("step,pause", str(tmp_path), return_state=True)
    assert state.is_failed()
    assert state.message == "paused: the guard paused the run: the parse rate was below 0.7"
    run = state.state_details.flow_run_id
    async with httpx.AsyncClient() as client:
        wanted = {"filter": {"event": {"name": [PAUSED]}}, "limit": 5}
        for _ in range(100):
            events = (await client.post(f"{prefect_sqlite}/events/filter", json=wanted)).json()["events"]
            if events:
                break
            time.sleep(0.1)  # noqa: ASYNC251
    assert [event["resource"]["prefect.resource.id"] for event in events] == [f"prefect.flow-run.{run}"]
    assert "parse rate" in events[0]["payload"]["reason"]
    # The same folder again, once somebody has looked at it: from where it was.
    state = await conductor_train("step,done", str(tmp_path), return_state=True)
    assert state.is_completed()
    assert [row["step"] for row in read_lines(tmp_path / "log.jsonl")] == [1, 2]


async def test_what_fails_is_said_once(prefect_sqlite, fake, tmp_path):
    state = await conductor_train("raise", str(tmp_path), return_state=True)
    assert "RuntimeError: out of memory" in state.message
    assert len(starts(tmp_path)) == 3  # prepare, cold start and one GRPO


@pytest.mark.parametrize("wrong", [{"margin": 1.0}, {"margin": -0.1}, {"processes": 0}], ids=str)
async def test_bad_parameters(prefect_sqlite, wrong, tmp_path):
    state = await conductor_train("cpu", str(tmp_path / "run"), **wrong, return_state=True)
    assert state.is_failed()
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def deployment(prefect_postgres, tmp_path_factory):
    with deployed(prefect_postgres, tmp_path_factory.mktemp("home")) as found:
        for automation in automations(timedelta(seconds=45), timedelta(seconds=45)):
            ship(found.client, automation)
        found.prefect("deploy", "tests/prefect/fake_train.py:conductor_train", "--name", "fake", "--pool", POOL)
        yield found


def start(deployment, name, **parameters):
    found = deployment.client.read_deployment_by_name(f"conductor-train/{name}")
    return deployment.client.create_flow_run_from_deployment(found.id, parameters=parameters).id


@pytest.mark.postgres
def test_cancelled_in_the_ui(deployment, tmp_path):
    """Even a trainer that heeds no SIGTERM is gone, and its last checkpoint is of use."""
    checkpoints = tmp_path / "checkpoints"
    with deployment.worker():
        run = start(deployment, "fake", config="deaf,child,slow", folder=str(tmp_path))
        until(lambda: last_checkpoint(checkpoints), 240)  # a flow run starts slowly on a machine that is busy
        trainer = starts(tmp_path)[-1]
        deployment.client.set_flow_run_state(run, Cancelling())  # as the UI does
        asked = time.monotonic()
        until(lambda: not alive(trainer))
        gone = time.monotonic() - asked
        deployment.wait(run, StateType.CANCELLED)
        print(f"\nafter the click: trainer gone {gone:.2f} s, Cancelled {time.monotonic() - asked:.2f} s")
        assert processes_of(run) == []
        reached = int(last_checkpoint(checkpoints).name.rpartition("-")[2])
        again = start(deployment, "fake", config="step,done", folder=str(tmp_path))
        deployment.wait(again, StateType.COMPLETED)
    assert int(last_checkpoint(checkpoints).name.rpartition("-")[2]) == reached + 1


@pytest.mark.postgres
@pytest.mark.timeout(600)
@pytest.mark.parametrize("who", ["trainer", "flow"])
def test_killed(deployment, who, tmp_path):
    """SIGKILL to the trainer: its stage goes on. To the flow: the automation starts it again."""
    with deployment.worker():
        run = start(deployment, "fake", config="slow", folder=str(tmp_path))
        until(lambda: last_checkpoint(tmp_path / "checkpoints"), 240)
        [flow], trainer = engine_of(run), starts(tmp_path)[-1]
        os.kill(trainer if who == "trainer" else flow, signal.SIGKILL)
        until(lambda: not alive(trainer))
        until(lambda: len(starts(tmp_path)) > 3, 300)  # prepare, cold start, GRPO; and GRPO again
        assert alive(starts(tmp_path)[-1])
        steps = [row["step"] for row in read_lines(tmp_path / "log.jsonl")]
        assert steps == list(range(1, len(steps) + 1))
        deployment.client.set_flow_run_state(run, Cancelling())
        deployment.wait(run, StateType.CANCELLED)


TOOLS = """
workers:
  - {name: number, kind: number, clearance: confidential}
  - {name: text, kind: text, clearance: confidential}
planner: {kind: template, name: first-answer}
"""
CONFIG = """
model: {kind: scratch, scratch: {hidden: 32, layers: 1, heads: 2, vocabulary: 400}}
pool: POOL
questions:
  - {name: "rg:gcd", limit: 16, held_out: 8}
prompt: {style: short}
rules: {max_steps: 3}
cold_start: {examples: 800, batch: 16, lr: 3.0e-3}
gate: {refuse: false, samples: 4}
grpo: {iterations: 4, questions: 2, rollouts: 4, lr: 1.0e-3, max_completion_tokens: 60, batch: 8, save_every: 1}
"""


@pytest.mark.postgres
@pytest.mark.local
@pytest.mark.timeout(1800)
def test_a_real_run_whose_trainer_is_killed(deployment, tmp_path):
    """All stages with the real trainer, on a model of a few thousand parameters: what it learns is nothing."""
    folder = tmp_path / "run"
    (tmp_path / "pool.yaml").write_text(TOOLS)
    (tmp_path / "tiny.yaml").write_text(CONFIG.replace("POOL", str(tmp_path / "pool.yaml")))
    with deployment.worker():
        run = start(deployment, "train", config=str(tmp_path / "tiny.yaml"), folder=str(folder), promote=True)
        until(lambda: last_checkpoint(folder / "checkpoints"), 800)
        reached = int(last_checkpoint(folder / "checkpoints").name.rpartition("-")[2])
        calls = len((folder / "rollouts.jsonl").read_text().splitlines())
        [trainer] = [pid for pid in processes_of(run) if b"grpo" in _command(pid)]
        os.kill(trainer, signal.SIGKILL)
        summary = deployment.wait(run, StateType.COMPLETED, seconds=800).state.result()
    assert summary.steps == 4
    assert [row["step"] for row in read_lines(folder / "log.jsonl")] == [1, 2, 3, 4]
    assert len(read_lines(folder / "rollouts.jsonl")) == 4 * 8 >= calls
    assert reached < 4
    assert not summary.promoted
    assert summary.current_accuracy > summary.accuracy
    assert "not promoted" in summary.sentence
    assert (folder / "planner" / "model.onnx").is_file()


def _command(pid):
    try:
        return open(f"/proc/{pid}/cmdline", "rb").read()
    except OSError:
        return b""
