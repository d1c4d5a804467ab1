"""Nothing is paid for twice unless asked: the cache keys, and what `reuse` decides."""

import dataclasses
from uuid import UUID

import pytest
from prefect.client.orchestration import get_client
from prefect.flow_engine import run_flow_async
from prefect.states import Scheduled

from conductor_plugin.context import WorkerReply, WorkerRequest
from conductor_plugin.graph import CallStep, ReduceStep
from conductor_plugin.on_prefect.flow import conductor
from conductor_plugin.on_prefect.tasks import REUSE, step_key
from conductor_plugin.plan import Plan, render_plan
from conductor_plugin.planners.base import PlanRequest
from conductor_plugin.step import StepJob, StepResult
from conductor_plugin.worker_spec import WorkerSpec
from tests.unit import workbench
from tests.unit.workbench import CALLS, SCRIPTS, permanent

# Every field of what goes into a step: whether a change of it must be paid for again.
IN_KEY = {
    StepJob: {"index", "step", "worker", "question", "history"},
    CallStep: {"subtask", "sample"},
    ReduceStep: {"reduce", "argument"},
    WorkerRequest: {"question", "subtask", "seen", "history", "sample"},
    WorkerSpec: {"kind", "model", "api_base", "params"},
    StepResult: {"index", "subtask", "reply"},
    PlanRequest: {"question", "pool", "rules", "history", "earlier", "feedback"},
}
NOT_IN_KEY = {
    CallStep: {"kind", "worker", "access"},  # the worker stands in the job itself, what is visible in the messages
    ReduceStep: {"kind", "access"},
    WorkerSpec: {
        *("name", "describe", "api_key_env", "tags", "clearance", "price", "timeout_seconds", "retries"),
        *("fallbacks", "max_concurrency", "global_limit", "requests_per_minute"),
    },
    StepResult: {"attempts"},
}


@pytest.mark.parametrize("model", IN_KEY, ids=lambda model: model.__name__)
def test_every_field_of_a_steps_inputs_is_decided(model):
    fields = {f.name for f in dataclasses.fields(model)} if model is StepJob else set(model.model_fields)
    assert fields == IN_KEY[model] | NOT_IN_KEY.get(model, set()), "decide whether the new field belongs to the key"


class Context:
    """What a key reads of Prefect's task run context."""

    class task_run:
        flow_run_id = "run-1"


def key(visible=(), **changes):
    worker = WorkerSpec(name="a", kind="llm", model="openai/m", **changes.pop("worker", {}))
    step = CallStep(worker=0, **{"subtask": "s", **changes.pop("step", {})})
    job = StepJob(**{"index": 0, "step": step, "worker": worker, "question": "q", **changes})
    return step_key(Context, {"job": job, "visible": list(visible)})


def result(output, attempts=1):
    return StepResult(index=0, subtask="x", reply=WorkerReply(output=output), attempts=attempts)


@pytest.mark.parametrize(
    "changes",
    [
        {"index": 1},
        {"question": "other"},
        {"step": {"subtask": "other"}},
        {"step": {"sample": 1}},
        {"worker": {"params": {"temperature": 1}}},
        {"worker": {"api_base": "http://127.0.0.1:1"}},
        {"visible": [result("seen")]},
    ],
    ids=str,
)
def test_what_can_change_the_answer_is_in_the_key(changes):
    assert key(**changes) != key()


@pytest.mark.parametrize(
    "worker", [{"describe": "good"}, {"price": {"input": 1, "output": 1}}, {"retries": 9}, {"tags": ("x",)}], ids=str
)
def test_what_cannot_is_not(worker):
    assert key(worker=worker) == key()
    assert key(visible=[result("seen")]) == key(visible=[result("seen", attempts=3)])


def test_the_scope():
    own = key()
    token = REUSE.set("always")
    assert key() not in (own, None)
    REUSE.set("never")
    assert key() is None
    REUSE.reset(token)


@pytest.mark.prefect
@pytest.mark.parametrize(("reuse", "calls"), [("run", 4), ("always", 2), ("never", 4)])
async def test_a_new_run_with_the_same_inputs(prefect_sqlite, reuse, calls):
    workbench.reset()
    plan = Plan(model_id=(0, 0), subtasks=(f"a {reuse}", "b"), access_list=((), (0,)))
    pool = workbench.pool_of("ok").model_dump(mode="json", exclude_defaults=True)
    for _ in range(2):
        answer = await conductor(f"once for {reuse}", pool=pool, plan=render_plan(plan), reuse=reuse)
        assert answer.answer == "ok"
    assert len(CALLS) == calls


@pytest.mark.prefect
async def test_a_rerun_pays_for_nothing_twice_in_later_rounds_either(prefect_sqlite):
    """The second round fails in its second step; the run is retried, and only that step is called again."""
    workbench.reset()
    SCRIPTS["bad"] = ["fine", permanent(), "mended"]
    plan = Plan(model_id=(0, 1, 2), subtasks=("a", "b", ""), access_list=((), (0,), "all"))
    pool = workbench.pool_of("ok", "scripted:bad").model_dump(mode="json", exclude_defaults=True)
    parameters = {"question": "rounds", "pool": pool, "plan": render_plan(plan), "max_rounds": 1}
    state = await conductor(**parameters, return_state=True)
    assert state.is_failed(), state
    answer = await state.result(raise_on_failure=False)
    assert [name for name, _ in CALLS] == ["ok", "bad", "ok", "bad"]
    again = await run_again(answer.flow_run_id, parameters)
    assert [name for name, _ in CALLS[4:]] == ["bad"]
    assert (again.status, len(again.rounds)) == ("completed", 2)


async def run_again(flow_run_id, parameters):
    """Retry the very same flow run, as its page's button does."""
    async with get_client() as client:
        await client.set_flow_run_state(UUID(flow_run_id), Scheduled(name="AwaitingRetry"), force=True)
        flow_run = await client.read_flow_run(UUID(flow_run_id))
    state = await run_flow_async(
        conductor, flow_run=flow_run, parameters=conductor.validate_parameters(parameters), return_type="state"
    )
    return await state.result(raise_on_failure=False)
