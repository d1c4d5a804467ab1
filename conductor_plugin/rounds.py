"""One round: ask the planner, compile its plan, run the graph. Every failure is a status in the result."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from conductor_plugin.context import Message, Seen
from conductor_plugin.errors import (
    BudgetError,
    ConductorError,
    ContentPolicyError,
    LabelError,
    NoPlanError,
    PermanentError,
    WorkerError,
)
from conductor_plugin.graph import Step, compile_steps, plan_steps
from conductor_plugin.labels import check_steps, label_of
from conductor_plugin.models import Frozen
from conductor_plugin.plan import PlanRules
from conductor_plugin.planners.base import Feedback, Planner, PlanRequest, Proposal, propose_once
from conductor_plugin.policy import RetryPolicy, with_retries
from conductor_plugin.pool import Pool
from conductor_plugin.receipt import (
    AnswerStatus,
    ErrorRecord,
    PlannerRecord,
    PlanRecord,
    RoundView,
    RunReceipt,
    error_record,
    total,
)
from conductor_plugin.run import RunStep, run_graph
from conductor_plugin.step import ATTEMPTS, Attempts, StepResult, run_step_with_retries

Listener = Callable[[object], None]
NOT_APPROVED = ErrorRecord(code="not_approved", message="the plan was not approved, so that it was not run")


class RoundJob(Frozen):
    """One round to do. JSON-able: it is the input of a subflow."""

    question: str
    pool: Pool
    planner: Any
    rules: PlanRules
    history: tuple[Message, ...] = ()
    earlier: tuple[RoundView, ...] = ()
    run_all: bool = False
    label: str | None = None


class RoundResult(Frozen):
    """What a round came to. `view` is set where it ended with the Conductor.

    `planner_calls` counts model calls, of which a template makes none in any number of attempts.
    """

    planner: PlannerRecord = PlannerRecord(name="")
    planner_calls: int = 0
    receipt: RunReceipt | None = None
    plan: PlanRecord | None = None
    status: AnswerStatus = "completed"
    error: ErrorRecord | None = None
    view: RoundView | None = None


@dataclass(frozen=True)
class PlanReady:
    """A plan is about to run (or an answer is kept, if it has no steps)."""

    round: int
    plan: PlanRecord
    steps: tuple[Step, ...]
    planner: PlannerRecord
    planner_calls: int


@dataclass(frozen=True)
class PlanRefused:
    """The planner's attempt held no valid plan."""

    round: int
    error: str


def policy_of(planner: Planner) -> RetryPolicy:
    """The planner's retry policy; only a prompted one's can be set."""
    return RetryPolicy(retries=getattr(planner, "retries", RetryPolicy().retries))


async def _propose(planner: Planner, request: PlanRequest) -> Proposal:
    return await with_retries(lambda: propose_once(planner, request), policy_of(planner))


async def _round(job: RoundJob, engine: "Engine", on_event: Listener) -> RoundResult:
    return await run_round(job, engine, on_event)


@dataclass(frozen=True)
class Engine:
    """How the outside acts are done: asking a planner, executing a step, doing a later round, approving a plan.

    The default does them as plain coroutines with retries and approves of everything; the Prefect side as tasks
    and subflows, and asks a person to approve where it is told to.
    """

    propose: Callable[[Planner, PlanRequest], Awaitable[Proposal]] = _propose
    step: RunStep = run_step_with_retries
    round: Callable[[RoundJob, "Engine", Listener], Awaitable[RoundResult]] = _round
    approve: Callable[[PlanReady], Awaitable[bool]] | None = None


@dataclass(frozen=True)
class Asked:
    """What asking a planner came to: a proposal with a valid plan, or the error; and what it took."""

    planner: PlannerRecord
    calls: int
    proposal: Proposal | None = None
    error: ConductorError | None = None


async def ask(
    planner: Planner,
    request: PlanRequest,
    propose: Callable[[Planner, PlanRequest], Awaitable[Proposal]] = _propose,
    on_fault: Callable[[str], None] = lambda sentence: None,
) -> Asked:
    """Ask for a plan until it is valid, each time telling what was wrong, at most `planner.tries` times."""
    tally = PlannerRecord(name=planner.name)
    calls = 0
    try:
        while True:
            happened = Attempts()
            ATTEMPTS.set(happened)
            proposal = await propose(planner, request)
            if not happened.reused:
                tally = add_usage(tally, proposal)
                calls += proposal.calls
            if proposal.fault is None and proposal.plan is None and proposal.steps is None:
                raise PermanentError(f"the planner {tally.name} gave neither a plan nor a fault", code="planner_raised")
            if proposal.fault is None:
                return Asked(tally, calls, proposal)
            on_fault(proposal.fault.message)
            if len(request.feedback) + 1 >= planner.tries:
                raise NoPlanError(
                    f"the planner {tally.name} gave no valid plan in {len(request.feedback) + 1} attempts; "
                    f"the last fault: {proposal.fault.message}",
                    code="no_plan",
                )
            feedback = Feedback(completion=proposal.completion, error=proposal.fault.message)
            request = request.model_copy(update={"feedback": (*request.feedback, feedback)})
    except WorkerError as error:
        attempts = tally.attempts + error.attempts
        return Asked(tally.model_copy(update={"attempts": attempts}), calls + error.attempts, error=error)
    except ConductorError as error:
        return Asked(tally, calls, error=error)
    except Exception as error:
        return Asked(
            tally, calls, error=PermanentError(f"the planner {tally.name} raised {error!r}", code="planner_raised")
        )


async def run_round(job: RoundJob, engine: Engine, on_event: Listener) -> RoundResult:
    """Plan once and run the plan once. Every failure is a status in the result."""
    request = PlanRequest(
        question=job.question, pool=job.pool, rules=job.rules, history=job.history, earlier=job.earlier
    )
    number = len(job.earlier)
    asked = await ask(job.planner, request, engine.propose, lambda sentence: on_event(PlanRefused(number, sentence)))
    if asked.proposal is None:
        assert asked.error is not None
        result = RoundResult(status=_status(asked.error), error=error_record(asked.error))
    else:
        result = await _run(job, request, asked, asked.proposal, engine, on_event)
    return result.model_copy(update={"planner": asked.planner, "planner_calls": asked.calls})


def _status(error: ConductorError) -> AnswerStatus:
    """What an answer's status is when its planner ended with this error."""
    if isinstance(error, BudgetError):
        return "stopped_budget"
    if isinstance(error, ContentPolicyError):
        return "stopped_policy"
    return "failed" if isinstance(error, WorkerError) else "no_plan"


async def _run(
    job: RoundJob, request: PlanRequest, asked: Asked, proposal: Proposal, engine: Engine, on_event: Listener
) -> RoundResult:
    workers = len(job.pool.workers)
    if proposal.steps is not None:
        steps = list(proposal.steps)
    else:
        assert proposal.plan is not None  # `ask` gives no other
        steps = list(plan_steps(proposal.plan, workers if job.rules.conductor else None))
    reasoning = proposal.plan.reasoning if proposal.plan else ""
    plan = record_plan(steps, workers, reasoning)
    try:
        graph = compile_steps(steps)
        check_steps(steps, job.pool, label_of(job.pool, job.label))
    except LabelError as error:
        return RoundResult(plan=plan, status="stopped_label", error=error_record(error))
    except (ValueError, IndexError) as error:
        message = f"the planner {job.planner.name} gave steps that are no graph of this pool: {error}"
        return RoundResult(plan=plan, status="no_plan", error=ErrorRecord(code="bad_steps", message=message))
    ready = PlanReady(len(job.earlier), plan, tuple(steps), asked.planner, asked.calls)
    on_event(ready)
    if not steps:
        return RoundResult(plan=plan)
    if engine.approve and not await engine.approve(ready):
        return RoundResult(plan=plan, status="cancelled", error=NOT_APPROVED)
    planner_grows = getattr(job.planner, "grow", None)

    async def grow(results: Sequence[StepResult]) -> Sequence[Step]:
        more: Sequence[Step] = await planner_grows(request, results)  # type: ignore[misc]
        check_steps(more, job.pool, label_of(job.pool, job.label))
        steps.extend(more)
        return more

    receipt = await run_graph(
        graph,
        pool=job.pool,
        question=job.question,
        history=job.history,
        step=engine.step,
        run_all=job.run_all,
        grow=grow if planner_grows else None,
        on_event=on_event,
    )
    plan = record_plan(steps, workers, reasoning)
    view = None
    if steps[-1].kind == "conductor" and receipt.status == "completed":
        view = RoundView(plan=plan, outputs=_visible(receipt, plan))
    return RoundResult(plan=plan, receipt=receipt, status=receipt.status, error=receipt.error, view=view)


def _visible(receipt: RunReceipt, plan: PlanRecord) -> tuple[Seen, ...]:
    """What the Conductor step at the end may see of the round."""
    return tuple(
        Seen(index=i, subtask=plan.subtasks[i], output=receipt.steps[i].output or "") for i in receipt.steps[-1].sees
    )


def record_plan(steps: Sequence[Step], workers: int, reasoning: str) -> PlanRecord:
    """The steps as three lists again, for the receipt and for the next round's planner."""
    return PlanRecord(
        model_id=tuple(s.worker if s.kind == "call" else workers if s.kind == "conductor" else None for s in steps),
        subtasks=tuple(s.subtask if s.kind == "call" else s.reduce if s.kind == "reduce" else "" for s in steps),
        access_list=tuple(s.access for s in steps),
        reasoning=reasoning,
    )


def add_usage(tally: PlannerRecord, more: Proposal | PlannerRecord) -> PlannerRecord:
    """The planner's record with further attempts and what they took."""
    return PlannerRecord(
        name=tally.name,
        attempts=tally.attempts + more.attempts,
        prompt_tokens=total([tally.prompt_tokens, more.prompt_tokens]),
        completion_tokens=total([tally.completion_tokens, more.completion_tokens]),
        cost_usd=total([tally.cost_usd, more.cost_usd]),
    )
