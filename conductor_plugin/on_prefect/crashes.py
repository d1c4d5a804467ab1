"""The end of a run that crashes again and again: nobody starts it a further time, and a person learns why."""

from collections.abc import Iterable

from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, StateType
from prefect.context import FlowRunContext

from conductor_plugin.errors import ConductorError

MAX_CRASHES = 5
_ENDS = {StateType.COMPLETED, StateType.FAILED, StateType.CANCELLED}


async def refuse_crash_loop() -> None:
    """Raise ConductorError if the flow run that is starting crashed MAX_CRASHES times in a row.

    Failed, not Crashed, is how the run then ends, so that the automation which starts crashed runs again
    (`deployments/automations.py`) leaves it alone.
    """
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run is None or run.run_count <= 1:  # its first start: the usual case costs no request
        return
    async with get_client() as client:
        crashes = crashes_in_a_row(await client.read_flow_run_states(run.id))
    if crashes >= MAX_CRASHES:
        raise ConductorError(
            f"this run crashed {crashes} times in a row and is not started again; see the worker's log for why "
            "(often too little memory), mend that, and retry the run: what is stored is not paid for again",
            code="crash_loop",
        )


def crashes_in_a_row(states: Iterable[State]) -> int:
    """How often the run crashed since it last ended in another way.

    Not how often it was started: a person may retry a failed run as often as they like. That this very limit
    ends a run as Failed also gives a person who retries it the whole number of crashes anew.
    """
    count = 0
    for state in sorted(states, key=lambda state: state.timestamp, reverse=True):
        if state.type in _ENDS:
            break
        count += state.type == StateType.CRASHED
    return count
