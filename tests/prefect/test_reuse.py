"""Nothing is paid for twice unless asked: the cache keys, and what `reuse` decides."""

import dataclasses

import pytest

from conductor_plugin.context import WorkerReply, WorkerRequest
from conductor_plugin.graph import CallStep, ReduceStep
from conductor_plugin.on_prefect.flow import conductor
from conductor_plugin.on_prefect.scope import SCOPE, Scope
from conductor_plugin.on_prefect.tasks import step_key
from conductor_plugin.plan import Plan, render_plan
from conductor_plugin.planners.base import PlanRequest
from conductor_plugin.step import StepJob, StepResult
from conductor_plugin.worker_spec import WorkerSpec
from tests.unit import workbench
from tests.unit.workbench import CALLS

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
    # The worker, with its cap, stands in the job itself, what is visible in the messages.
    CallStep: {"kind", "worker", "access", "caps"},
    ReduceStep: {"kind", "access"},
    WorkerSpec: {
        *("name", "describe", "api_key_env", "tags", "clearance", "price", "timeout_seconds", "retries"),
        *("fallbacks", "max_concurrency", "global_limit", "requests_per_minute", "tokens_per_minute"),
    },
    StepResult: {"attempts", "paid_in", "took_s"},
}


@pytest.mark.parametrize("model", IN_KEY, ids=lambda model: model.__name__)
def test_every_field_of_a_steps_inputs_is_decided(model):
    fields = {f.name for f in dataclasses.fields(model)} if model is StepJob else set(model.model_fields)
    assert fields == IN_KEY[model] | NOT_IN_KEY.get(model, set()), "decide whether the new field belongs to the key"


def key(visible=(), **changes):
    worker = WorkerSpec(name="a", kind="llm", model="openai/m", **changes.pop("worker", {}))
    step = CallStep(worker=0, **{"subtask": "s", **changes.pop("step", {})})
    job = StepJob(**{"index": 0, "step": step, "worker": worker, "question": "q", **changes})
    return step_key(None, {"job": job, "visible": list(visible)})


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
    scopes = [Scope(run="r"), Scope(run="s"), Scope(run="r", question="q1"), Scope(run="r", round=1)]
    scopes.append(Scope(run="r", reuse="always"))
    assert len({key_in(scope) for scope in scopes}) == len(scopes)
    assert key_in(Scope(run="r", reuse="always")) == key_in(Scope(run="s", reuse="always"))
    assert key_in(Scope(run="r", start=1)) == key_in(Scope(run="r", start=2))
    assert key_in(Scope(run="r", reuse="never")) is None


def key_in(scope):
    token = SCOPE.set(scope)
    try:
        return key()
    finally:
        SCOPE.reset(token)


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
    # Who reuses another run's results has not paid for them.
    assert answer.usage.calls == (0 if reuse == "always" else 2)
