"""One step, executed once: the unit that the flow wraps in a Prefect task and others in `with_retries`."""

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache

from conductor_plugin.context import Message, Seen, WorkerReply, WorkerRequest, build_messages
from conductor_plugin.errors import BudgetError, ConductorError, PermanentError, WorkerError, WorkerTimeout
from conductor_plugin.graph import CallStep, ReduceStep
from conductor_plugin.limits import expected_tokens, gate
from conductor_plugin.models import Frozen
from conductor_plugin.patience import Patience
from conductor_plugin.policy import RetryPolicy, with_retries
from conductor_plugin.reduce import REDUCERS
from conductor_plugin.worker_spec import WorkerSpec
from conductor_plugin.workers import call_worker, prepare_worker


@dataclass
class Attempts:
    """What happened while one step, or one plan, was asked for.

    `ran`: it was executed, rather than taken from a result storage. `reused`: another run had paid for it.
    """

    failed: list[WorkerError] = field(default_factory=list)
    ran: bool = False
    reused: bool = False


# Whoever executes a step sets fresh ones; both kinds of retry run in its context, so that the receipt counts
# attempts alike under Prefect and without it.
ATTEMPTS: ContextVar[Attempts | None] = ContextVar("attempts", default=None)


@dataclass(frozen=True)
class StepJob:
    """A step with all that it needs but the outputs it may see."""

    index: int
    step: CallStep | ReduceStep
    worker: WorkerSpec | None
    question: str
    history: tuple[Message, ...] = ()

    @property
    def name(self) -> str:
        """Who does it: the worker's or the reducer's name."""
        return self.worker.name if self.worker else self.step.reduce if isinstance(self.step, ReduceStep) else ""


class Paid(Frozen):
    """By which flow run a call was paid for, and in which start of it (1: the first)."""

    run: str
    start: int


class StepResult(Frozen):
    """A completed step. Later steps get the object itself, so that Prefect sees the edge.

    `paid_in` is told where a flow run paid for it, `took_s` where it comes from a store: the seconds it took then.
    """

    index: int
    subtask: str
    reply: WorkerReply
    attempts: int = 1
    paid_in: Paid | None = None
    took_s: float | None = None

    def seen(self) -> Seen:
        """This step as a later one sees it."""
        return Seen(index=self.index, subtask=self.subtask, output=self.reply.output)


def policy_for(job: StepJob) -> RetryPolicy:
    """The worker's retry policy; a reduce step has nothing to retry."""
    return _policy(job.worker.retries if job.worker else 0)


@cache
def _policy(retries: int) -> RetryPolicy:
    return RetryPolicy(retries=retries)


def request_for(job: StepJob, visible: Sequence[StepResult]) -> WorkerRequest:
    """What the step's worker is shown: exactly the visible steps, which come in step order."""
    step = job.step
    return WorkerRequest(
        question=job.question,
        subtask=step.subtask if isinstance(step, CallStep) else "",
        seen=tuple(result.seen() for result in visible),
        history=job.history,
        sample=step.sample if isinstance(step, CallStep) else 0,
    )


async def run_step(job: StepJob, visible: Sequence[StepResult]) -> StepResult:
    """Execute the step once. WorkerError if it fails; any other exception of a worker becomes one."""
    attempts = ATTEMPTS.get() or Attempts()
    attempts.ran = True
    failed = attempts.failed
    try:
        request = request_for(job, visible)
        reply = await _call(job, request)
    except WorkerError as error:
        error.attempts = len(failed) + 1
        failed.append(error)
        raise
    if failed and any(error.maybe_billed for error in failed):
        reply = reply.model_copy(update={"cost_usd": None, "prompt_tokens": None, "completion_tokens": None})
    return StepResult(index=job.index, subtask=request.subtask, reply=reply, attempts=len(failed) + 1)


async def run_step_with_retries(job: StepJob, visible: Sequence[StepResult]) -> StepResult:
    """`run_step` under the worker's retry policy: what everything but the flow uses."""
    return await with_retries(lambda: run_step(job, visible), policy_for(job))


async def _call(job: StepJob, request: WorkerRequest) -> WorkerReply:
    if isinstance(job.step, ReduceStep):
        try:
            return WorkerReply(output=REDUCERS[job.step.reduce](request.seen, job.step.argument))
        except LookupError as error:
            raise PermanentError(f"step {job.index}: {error.args[0]}", code="bad_reduce") from None
    assert job.worker is not None
    entrance = gate(job.worker)
    async with entrance:
        expected = 0.0
        if entrance.counts_tokens:
            expected = expected_tokens(job.worker, build_messages(request))
            entrance.charge(expected)
        try:
            reply = await _timed(job.worker, request)
        except WorkerError as error:
            if error.retry_after_s and policy_for(job).deserves_retry(error):
                entrance.hold(error.retry_after_s)
            if not error.maybe_billed:
                entrance.charge(-expected)
            raise
        if reply.prompt_tokens is not None and reply.completion_tokens is not None:
            entrance.charge(reply.prompt_tokens + reply.completion_tokens - expected)
        return reply


async def _timed(worker: WorkerSpec, request: WorkerRequest) -> WorkerReply:
    if worker.kind == "llm":
        await prepare_worker(worker)
    try:
        async with Patience(worker.timeout_seconds) as clock:
            return await call_worker(worker, request)
    except (WorkerError, BudgetError):
        raise
    except ConductorError as error:
        raise PermanentError(str(error), code=error.code) from None
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) and task.cancelling():
            raise
        raise PermanentError(f"worker {worker.name!r} raised CancelledError", code="worker_raised") from None
    except Exception as error:
        if isinstance(error, TimeoutError) and clock.expired():
            raise WorkerTimeout(
                f"worker {worker.name!r} gave no answer in {worker.timeout_seconds:g} s, its timeout_seconds",
                code="worker_timeout",
                maybe_billed=worker.kind == "llm",
            ) from None
        raise PermanentError(
            f"worker {worker.name!r} raised {type(error).__name__}: {error}", code="worker_raised"
        ) from error
