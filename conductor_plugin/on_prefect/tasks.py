"""The Prefect tasks: one for a plan, one for a step. Retries are Prefect's own, so that the UI shows them."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar
from uuid import UUID

from prefect import task
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import FlowRunContext, TaskRunContext
from prefect.utilities.annotations import opaque, quote

from conductor_plugin.budget import BUDGET, worst_case
from conductor_plugin.context import build_messages
from conductor_plugin.errors import BudgetError, WorkerError
from conductor_plugin.llm import price_of
from conductor_plugin.on_prefect.cover import covered
from conductor_plugin.on_prefect.scope import SCOPE
from conductor_plugin.on_prefect.storage import tell_unkept_task
from conductor_plugin.planners.base import Planner, PlanRequest, Proposal, propose_once
from conductor_plugin.planners.prompted import PromptedPlanner
from conductor_plugin.policy import RetryPolicy
from conductor_plugin.rounds import policy_of
from conductor_plugin.step import ATTEMPTS, Attempts, Paid, StepJob, StepResult, policy_for, request_for, run_step
from conductor_plugin.worker_spec import WorkerSpec
from conductor_plugin.workers.llm import llm_of

T = TypeVar("T")

# The name of the task run that is about to start.
_NAME: ContextVar[str] = ContextVar("name")

# How many task runs each flow run of this process has started: what a drain waits for (see `history`).
TASK_RUNS: ContextVar[dict[UUID, int] | None] = ContextVar("task_runs", default=None)


async def propose(planner: Planner, request: PlanRequest) -> Proposal:
    """Ask the planner in a persisted task, so that a resumed run goes on with the same plan."""
    attempt = len(request.feedback) + 1
    _NAME.set(SCOPE.get().named("plan" if attempt == 1 else f"plan · attempt {attempt}"))
    configured = _configured(plan_task, policy_of(planner))
    proposal: Proposal = await _whole_errors(lambda: configured(quote(planner), quote(request)))
    _settle(proposal.paid_in, proposal.cost_usd, lambda: _worst_plan(planner, request) * proposal.attempts)
    return proposal


async def step(job: StepJob, visible: Sequence[StepResult]) -> StepResult:
    """Execute a step in a task of its own.

    Prefect draws an edge for each input that is another task's result. `opaque` keeps it from looking into
    the results, and `quote` from looking into the job: equal strings in there would draw false edges.
    """
    _NAME.set(SCOPE.get().named(f"step-{job.index} · {job.name}"))
    configured = _configured(step_task, policy_for(job))
    result: StepResult = await _whole_errors(lambda: configured(quote(job), [opaque(earlier) for earlier in visible]))
    _settle(result.paid_in, result.reply.cost_usd, lambda: _worst_step(job, visible) * result.attempts)
    return result


def plan_key(context: TaskRunContext, inputs: dict[str, Any]) -> str | None:
    """Cache key of a plan: the planner's settings and all that it is shown."""
    planner, request = inputs["planner"], inputs["request"]
    return SCOPE.get().key(["plan", type(planner).__name__, planner.model_dump(), request.model_dump()])


def step_key(context: TaskRunContext, inputs: dict[str, Any]) -> str | None:
    """Cache key of a step: the worker with its settings, its messages, step and sample index.

    An explicit projection of the step's inputs: what is not in it (names of workers, prices, limits) can
    change without paying again.
    """
    job, visible = inputs["job"], inputs["visible"]
    request = request_for(job, visible)
    return SCOPE.get().key(
        [
            "step",
            _identity(job.worker) if job.worker else [job.step.reduce, job.step.argument],
            [message.model_dump() for message in build_messages(request)],
            job.index,
            request.sample,
        ]
    )


def _retry(task: Any, task_run: TaskRun, state: State[Any]) -> bool:
    """The policy's judgement, in the form of Prefect's `retry_condition_fn`."""
    error = state.data if isinstance(state.data, BaseException) else None
    return RetryPolicy().deserves_retry(error)


# On disk alone: Prefect would also keep the last 1,000 results of a flow run in memory, however large.
_KEPT: Any = {"persist_result": True, "result_serializer": "json", "cache_result_in_memory": False}
# Prefect awaits a hook that is a coroutine function, which its types do not say.
_UNKEPT: Any = tell_unkept_task


@task(name="plan", cache_key_fn=plan_key, retry_condition_fn=_retry, **_KEPT)
async def plan_task(planner: Planner, request: PlanRequest) -> Proposal:
    """One attempt of a planner."""
    _count_lost(1, lambda: _worst_plan(planner, request))
    with _covered_errors():
        proposal = await propose_once(planner, request)
    return proposal.model_copy(update={"paid_in": _paid_in()})


@task(name="step", cache_key_fn=step_key, retry_condition_fn=_retry, **_KEPT)
async def step_task(job: StepJob, visible: list[StepResult]) -> StepResult:
    """One step of a plan."""
    own = (result.paid_in.start for result in visible if result.paid_in and result.paid_in.run == SCOPE.get().run)
    _count_lost(max(own, default=1), lambda: _worst_step(job, visible))
    with _covered_errors():
        async with _global_limit(job.worker.global_limit if job.worker else None):
            result = await run_step(job, visible)
    return result.model_copy(update={"paid_in": _paid_in()})


@contextlib.asynccontextmanager
async def _global_limit(name: str | None) -> AsyncIterator[None]:
    if name is None:
        yield
        return
    from prefect.concurrency.asyncio import concurrency

    async with concurrency(name, strict=True):
        yield


@contextlib.contextmanager
def _covered_errors() -> Iterator[None]:
    """Under a seal, the server is told of a failure without its sentence: that may quote what was sent."""
    seal = SCOPE.get().seal
    try:
        yield
    except Exception as error:
        if seal is None or isinstance(error, BudgetError):
            raise
        raise covered(error, seal) from None


async def _whole_errors(call: Callable[[], Awaitable[T]]) -> T:
    """Await a task; its failure is told whole within this process, for the receipt."""
    _count()
    attempts = ATTEMPTS.get() or Attempts()
    attempts.ran = False
    try:
        return await call()
    except WorkerError:
        if SCOPE.get().seal and attempts.failed:
            raise attempts.failed[-1] from None
        raise


def _paid_in() -> Paid:
    scope = SCOPE.get()
    return Paid(run=scope.run, start=scope.start)


def _settle(paid_in: Paid | None, usd: float | None, worst_usd: Callable[[], float]) -> None:
    """Account for a result from storage: paid by an earlier start of this run, or by another run altogether."""
    attempts = ATTEMPTS.get()
    if attempts is None or attempts.ran:
        return
    if paid_in is None or paid_in.run != SCOPE.get().run:
        attempts.reused = True
    elif budget := BUDGET.get():
        budget.count(worst_usd() if usd is None else usd)


def _count_lost(first: int, worst_usd: Callable[[], float]) -> None:
    """Count a call once for each earlier start of the run that may have died with it in flight, and billed.

    That is each start since `first`, when the last of its inputs was paid for.
    """
    budget, context, lost = BUDGET.get(), TaskRunContext.get(), SCOPE.get().start - first
    if budget and lost > 0 and context and context.task_run.run_count <= 1:
        budget.count(lost * worst_usd())


def _worst_step(job: StepJob, visible: Sequence[StepResult]) -> float:
    if job.worker is None or job.worker.kind != "llm":
        return 0.0
    llm = llm_of(job.worker)
    return worst_case(llm, price_of(llm), build_messages(request_for(job, visible)))


def _worst_plan(planner: Planner, request: PlanRequest) -> float:
    return planner.worst_usd(request) if isinstance(planner, PromptedPlanner) else 0.0


plan_task.on_rollback(_UNKEPT)
step_task.on_rollback(_UNKEPT)


def _name() -> str:
    return _NAME.get()


@cache
def _configured(task: Any, policy: RetryPolicy) -> Any:
    """The task under a policy; once for each, since Prefect reads a task's source whenever one is made."""
    return task.with_options(task_run_name=_name, **_retry_options(policy))


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


def _count() -> None:
    counts, context = TASK_RUNS.get(), FlowRunContext.get()
    if counts is not None and context is not None and context.flow_run is not None:
        counts[context.flow_run.id] = counts.get(context.flow_run.id, 0) + 1
