"""An answer without any text of people or models: what Prefect's server may keep of it above its clearance."""

from conductor_plugin.errors import ConductorError
from conductor_plugin.on_prefect.seal import Seal
from conductor_plugin.receipt import Answer, ErrorRecord, PlanRecord, RoundRecord, StepRecord, error_record


def cover_answer(answer: Answer, seal: Seal) -> Answer:
    """The same receipt; every text in it is its size and hash. Names of workers and figures stay."""
    return answer.model_copy(
        update={
            "answer": _text(answer.answer, seal),
            "error": cover_error(answer.error, seal) if answer.error else None,
            "rounds": tuple(
                RoundRecord(plan=_plan(record.plan, seal), steps=tuple(_step(step, seal) for step in record.steps))
                for record in answer.rounds
            ),
        }
    )


def cover_error(error: ErrorRecord, seal: Seal) -> ErrorRecord:
    """The code alone: a sentence may quote a plan, or a provider that echoes the prompt."""
    return ErrorRecord(code=error.code, message=f"{error.code}; {seal.cover(error.message)}")


def covered(error: Exception, seal: Seal) -> Exception:
    """The exception to raise in the other's place, for states and logs: of the same class where it is ours."""
    record = cover_error(error_record(error), seal)
    kind = type(error) if isinstance(error, ConductorError) else ConductorError
    other = kind(record.message, code=record.code)
    own = error.__dict__ if isinstance(error, ConductorError) else {}
    other.__dict__.update({name: value for name, value in own.items() if isinstance(value, int | float | None)})
    return other


def _text(text: str | None, seal: Seal) -> str | None:
    return None if text is None else seal.cover(text)


def _plan(plan: PlanRecord, seal: Seal) -> PlanRecord:
    return plan.model_copy(
        update={
            "subtasks": tuple(seal.cover(text) for text in plan.subtasks),
            "reasoning": seal.cover(plan.reasoning) if plan.reasoning else "",
        }
    )


def _step(step: StepRecord, seal: Seal) -> StepRecord:
    # `model` is what an upstream calls itself: its text, too.
    return step.model_copy(update={"output": _text(step.output, seal), "model": _text(step.model, seal)})
