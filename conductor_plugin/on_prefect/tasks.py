"""The Prefect tasks: one for a plan, one for a step. Retries are Prefect's own, so that the UI shows them."""

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from prefect import task
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import FlowRunContext, TaskRunContext
from prefect.utilities.annotations import opaque, quote

from conductor_plugin.context import build_messages
from conductor_plugin.options import Reuse
from conductor_plugin.planners.base import Planner, PlanRequest, Proposal, propose_once
from conductor_plugin.policy import RetryPolicy
from conductor_plugin.rounds import PLANNER_RETRIES
from conductor_plugin.step import StepJob, StepResult, policy_for, request_for, run_step
from conductor_plugin.worker_spec import WorkerSpec, digest

# Whose results a run may take from storage instead of paying again: its own (`run`), any run's with the same
# inputs (`always`), or none at all (`never`).
REUSE: ContextVar[Reuse] = ContextVar("reuse", default="run")

# Which of a batch's questions is being answered, as task run names and cache keys tell them apart.
QUESTION: ContextVar[str | None] = ContextVar("question", default=None)

# Which later round is running, with the run that it belongs to. A resumed run may get another subflow for the same
# round, and must find what the first one stored.
ROUND: ContextVar[str | None] = ContextVar("round", default=None)

# How many task runs each flow run of this process has started: what a drain waits for (see `history`).
TASK_RUNS: ContextVar[dict[UUID, int] | None] = ContextVar("task_runs", default=None)


async def propose(planner: Planner, request: PlanRequest) -> Proposal:
    """Ask the planner in a persisted task, so that a resumed run goes on with the same plan."""
    attempt = len(request.feedback) + 1
    _count()
    configured: Any = plan_task.with_options(
        task_run_name=_named("plan" if attempt == 1 else f"plan · attempt {attempt}"), **_retry_options(PLANNER_RETRIES)
    )
    proposal: Proposal = await configured(quote(planner), quote(request))
    return proposal


async def step(job: StepJob, visible: Sequence[StepResult]) -> StepResult:
    """Execute a step in a task of its own.

    Prefect draws an edge for each input that is another task's result. `opaque` keeps it from looking into
    the results, and `quote` from looking into the job: equal strings in there would draw false edges.
    """
    _count()
    configured: Any = step_task.with_options(
        task_run_name=_named(f"step-{job.index} · {job.name}"), **_retry_options(policy_for(job))
    )
    result: StepResult = await configured(quote(job), [opaque(earlier) for earlier in visible])
    return result


def plan_key(context: TaskRunContext, inputs: dict[str, Any]) -> str | None:
    """Cache key of a plan: the scope of reuse, the planner's settings and all that it is shown."""
    planner, request = inputs["planner"], inputs["request"]
    if REUSE.get() == "never":
        return None
    return digest(["plan", _scope(context), type(planner).__name__, planner.model_dump(), request.model_dump()], 64)


def step_key(context: TaskRunContext, inputs: dict[str, Any]) -> str | None:
    """Cache key of a step: the scope of reuse, the worker with its settings, its messages, step and sample index.

    An explicit projection of the step's inputs: what is not in it (names of workers, prices, limits) can
    change without paying again.
    """
    if REUSE.get() == "never":
        return None
    job, visible = inputs["job"], inputs["visible"]
    request = request_for(job, visible)
    parts = [
        "step",
        _scope(context),
        _identity(job.worker) if job.worker else [job.step.reduce, job.step.argument],
        [message.model_dump() for message in build_messages(request)],
        job.index,
        request.sample,
    ]
    return digest(parts, 64)


def _retry(task: Any, task_run: TaskRun, state: State[Any]) -> bool:
    """The policy's judgement, in the form of Prefect's `retry_condition_fn`."""
    error = state.data if isinstance(state.data, BaseException) else None
    return RetryPolicy().deserves_retry(error)


@task(name="plan", persist_result=True, result_serializer="json", cache_key_fn=plan_key, retry_condition_fn=_retry)
async def plan_task(planner: Planner, request: PlanRequest) -> Proposal:
    """One attempt of a planner."""
    return await propose_once(planner, request)


@task(name="step", persist_result=True, result_serializer="json", cache_key_fn=step_key, retry_condition_fn=_retry)
async def step_task(job: StepJob, visible: list[StepResult]) -> StepResult:
    """One step of a plan."""
    limit = job.worker.global_limit if job.worker else None
    if limit is None:
        return await run_step(job, visible)
    from prefect.concurrency.asyncio import concurrency

    async with concurrency(limit, strict=True):
        return await run_step(job, visible)


def _retry_options(policy: RetryPolicy) -> dict[str, Any]:
    if policy.retries == 0:
        return {"retries": 0}
    return {
        "retries": policy.retries,
        "retry_delay_seconds": policy.delays(),
        "retry_jitter_factor": policy.jitter,
    }


def _identity(worker: WorkerSpec) -> list[Any]:
    return [worker.kind, worker.model, worker.api_base, worker.params]


def _scope(context: TaskRunContext) -> str:
    if REUSE.get() == "always":
        return ""
    return f"{ROUND.get() or context.task_run.flow_run_id or ''} {QUESTION.get() or ''}"


def _named(name: str) -> str:
    question = QUESTION.get()
    return name if question is None else f"{question} · {name}"


def _count() -> None:
    counts, context = TASK_RUNS.get(), FlowRunContext.get()
    if counts is not None and context is not None and context.flow_run is not None:
        counts[context.flow_run.id] = counts.get(context.flow_run.id, 0) + 1
