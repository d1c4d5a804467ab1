"""The receipt: who saw what, who answered, tokens, cost, time, attempts. Design contract "JSON of an answer".

Steps count from 0. An unknown cost or token count is None, never 0; so is a sum that contains one.
"""

from collections.abc import Iterable
from typing import Any, Literal, TypeVar

from pydantic import ConfigDict, Field

from conductor_plugin.context import Seen
from conductor_plugin.errors import ConductorError
from conductor_plugin.models import Frozen

Number = TypeVar("Number", int, float)
StepStatus = Literal["completed", "failed", "cancelled", "not_started"]
RunStatus = Literal["completed", "failed", "stopped_budget", "stopped_policy", "cancelled"]
AnswerStatus = Literal[
    "completed",
    "failed",
    "stopped_budget",
    "stopped_deadline",
    "stopped_label",
    "stopped_policy",
    "no_plan",
    "cancelled",
]


class ErrorRecord(Frozen):
    """An error as data: its stable code and its sentence."""

    code: str
    message: str


def error_record(error: BaseException) -> ErrorRecord:
    """A ConductorError's code and sentence; anything else is `internal_error` with its type's name."""
    if isinstance(error, ConductorError):
        return ErrorRecord(code=error.code, message=str(error))
    return ErrorRecord(code="internal_error", message=f"{type(error).__name__}: {error}")


class StepRecord(Frozen):
    """One step of a run. `sees` are the steps shown to it; `latency_s` covers every attempt and its waits."""

    index: int
    worker: str
    kind: str
    sees: tuple[int, ...] = ()
    status: StepStatus = "not_started"
    attempts: int = 0
    output: str | None = None
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    cost_usd: float | None = 0.0
    latency_s: float | None = None
    model: str | None = None
    fallback_from: str | None = None
    pruned: bool = False


class RunReceipt(Frozen):
    """One execution of a graph. `answer` is None where the answering step has no output."""

    status: RunStatus
    steps: tuple[StepRecord, ...]
    answer: str | None = None
    error: ErrorRecord | None = None
    elapsed_s: float = 0.0
    critical_path_s: float = 0.0


class PlanRecord(Frozen):
    """The three lists as they ran; a reduce step has the model id None and its name as subtask."""

    model_id: tuple[int | None, ...]
    subtasks: tuple[str, ...]
    access_list: tuple[Literal["all"] | tuple[int, ...], ...]
    reasoning: str = ""


class PlannerRecord(Frozen):
    """Who planned, in how many attempts over all rounds, and what that took."""

    name: str
    attempts: int = 0
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    cost_usd: float | None = 0.0


class RoundRecord(Frozen):
    """One plan-and-run."""

    plan: PlanRecord
    steps: tuple[StepRecord, ...]


class Usage(Frozen):
    """Sums over the planner and every attempt of every step."""

    calls: int = 0
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    cost_usd: float | None = 0.0


class Answer(Frozen):
    """What `conductor answer --json` prints and what the flow `conductor` returns."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_version: int = Field(default=1, alias="schema", serialization_alias="schema")
    answer: str | None
    status: AnswerStatus
    error: ErrorRecord | None = None
    flow_run_id: str | None = None
    label: str
    planner: PlannerRecord
    rounds: tuple[RoundRecord, ...] = ()
    usage: Usage = Usage()
    elapsed_s: float = 0.0
    critical_path_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The contract's JSON object."""
        return self.model_dump(mode="json", by_alias=True)


class RoundView(Frozen):
    """What a round leaves for the next planner: its lists, and the outputs that its Conductor step may see."""

    plan: PlanRecord
    outputs: tuple[Seen, ...] = ()


def add_up(planner: PlannerRecord, planner_calls: int, rounds: Iterable[RoundRecord]) -> Usage:
    """Usage over the planner and all steps; a reduce step is no call."""
    steps = [step for record in rounds for step in record.steps]
    return Usage(
        calls=planner_calls + sum(step.attempts for step in steps if step.kind != "reduce"),
        prompt_tokens=total([planner.prompt_tokens, *(step.prompt_tokens for step in steps)]),
        completion_tokens=total([planner.completion_tokens, *(step.completion_tokens for step in steps)]),
        cost_usd=total([planner.cost_usd, *(step.cost_usd for step in steps)]),
    )


def total(values: Iterable[Number | None]) -> Number | None:
    """The sum, or None if a value is unknown."""
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)
