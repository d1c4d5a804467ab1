"""How a flow plans, runs steps and goes on to later rounds: tasks, and a subflow for each later round."""

from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Failed

from conductor_plugin.on_prefect import tasks
from conductor_plugin.on_prefect.scope import SCOPE
from conductor_plugin.receipt import PlannerRecord, error_record
from conductor_plugin.rounds import Engine, Listener, PlanRefused, RoundJob, RoundResult, run_round

# Who hears of steps starting and finishing in this process (the CLI's progress display). Not a flow
# parameter: those must be JSON.
LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


# The later round that is about to run and who hears of it. No parameters of the subflow: those are shown in the
# UI and limited in size, and a round's outputs are neither.
_ROUND: ContextVar[tuple[RoundJob, Listener]] = ContextVar("round")


@flow(name="conductor-round", persist_result=True, result_serializer="json", validate_parameters=False)
async def conductor_round(number: int) -> RoundResult | State[RoundResult]:
    """A later round of a question, as a subflow of `conductor`.

    A round without success is a Failed state: Prefect would not do one that completed again in a resumed run.
    """
    job, on_event = _ROUND.get()
    SCOPE.set(replace(SCOPE.get(), round=number))
    result = await run_round(job, prefect_engine(), on_event)
    return result if result.status == "completed" else Failed(message=result.status, data=result)


async def _as_subflow(job: RoundJob, engine: Engine, on_event: Listener) -> RoundResult:
    number = len(job.earlier)
    token = _ROUND.set((job, on_event))
    try:
        configured: Any = conductor_round.with_options(flow_run_name=f"round-{number}")
        state: Any = await configured(number, return_state=True)
        result = await state.result(raise_on_failure=False)
        if not isinstance(result, RoundResult):
            raise result
        return result
    except Exception as error:  # what earlier rounds answered is not lost for it
        return RoundResult(planner=PlannerRecord(name=job.planner.name), status="failed", error=error_record(error))
    finally:
        _ROUND.reset(token)


def prefect_engine() -> Engine:
    """Plans and steps as tasks, later rounds as subflows."""
    return Engine(propose=tasks.propose, step=tasks.step, round=_as_subflow)


def hear(event: object) -> None:
    """Tell the listener of this process; a refused plan also the run's log."""
    if isinstance(event, PlanRefused):
        sentence = "(not shown)" if SCOPE.get().seal else event.error
        get_run_logger().warning("The planner's attempt held no valid plan: %s", sentence)
    listener = LISTENER.get()
    if listener is not None:
        listener(event)
