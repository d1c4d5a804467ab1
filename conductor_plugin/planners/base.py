"""What every planner is given and gives back.

A planner is a frozen pydantic value (settings only: no client, no model), so that it can be the input of a
Prefect task and part of its cache key.
"""

from collections.abc import Sequence
from typing import Protocol

from conductor_plugin.context import Message
from conductor_plugin.errors import PlanError, WorkerError
from conductor_plugin.graph import Step
from conductor_plugin.models import Frozen
from conductor_plugin.plan import Plan, PlanRules, parse_plan
from conductor_plugin.pool import Pool
from conductor_plugin.receipt import ErrorRecord, RoundView, error_record
from conductor_plugin.step import ATTEMPTS, Attempts, Paid, StepResult


class Feedback(Frozen):
    """A completion that held no valid plan, and the sentence that says why."""

    completion: str
    error: str


class PlanRequest(Frozen):
    """The question as a planner gets it: the pool, the rules, what earlier rounds left, its own earlier faults."""

    question: str
    pool: Pool
    rules: PlanRules
    history: tuple[Message, ...] = ()
    earlier: tuple[RoundView, ...] = ()
    feedback: tuple[Feedback, ...] = ()


class Proposal(Frozen):
    """One attempt of a planner: its completion and the plan in it, or the fault that makes it none.

    A planner of graphs (reduce steps, sample indices) gives `steps` instead of a plan. `calls` counts the
    model calls made for it, none for a template; `attempts` those that failed before it and itself. `paid_in`
    is told where a flow run paid for it.
    """

    completion: str = ""
    plan: Plan | None = None
    steps: tuple[Step, ...] | None = None
    fault: ErrorRecord | None = None
    calls: int = 0
    attempts: int = 1
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    cost_usd: float | None = 0.0
    paid_in: Paid | None = None


class Planner(Protocol):
    """Anything that turns a question, a pool and earlier rounds into a plan.

    `tries` bounds the attempts at one plan. `grow` is None for a planner of whole plans; else it is shown
    the results so far whenever all steps are done, and gives further steps or none to stop.
    """

    @property
    def name(self) -> str: ...

    @property
    def tries(self) -> int: ...

    async def propose(self, request: PlanRequest) -> Proposal: ...


class GrowingPlanner(Planner, Protocol):
    """A planner that reads outputs before it chooses the next steps."""

    async def grow(self, request: PlanRequest, results: Sequence[StepResult]) -> Sequence[Step]: ...


async def propose_once(planner: Planner, request: PlanRequest) -> Proposal:
    """Ask the planner once, counting the attempts that failed before: what every kind of retry repeats."""
    attempts = ATTEMPTS.get() or Attempts()
    attempts.ran = True
    failed = attempts.failed
    try:
        proposal = await planner.propose(request)
    except WorkerError as error:
        failed.append(error)
        error.attempts = len(failed)
        raise
    if not failed:
        return proposal
    update: dict[str, int | None] = {"calls": proposal.calls + len(failed), "attempts": 1 + len(failed)}
    if any(error.maybe_billed for error in failed):
        update |= {"cost_usd": None, "prompt_tokens": None, "completion_tokens": None}
    return proposal.model_copy(update=update)


def read_completion(completion: str, rules: PlanRules) -> Proposal:
    """The proposal that a completion amounts to, its fault as data."""
    try:
        return Proposal(completion=completion, plan=parse_plan(completion, rules))
    except PlanError as error:
        return Proposal(completion=completion, fault=error_record(error))
