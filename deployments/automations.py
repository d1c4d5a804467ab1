"""Have Prefect's server start crashed runs again: `python -m deployments.automations`, once for each server.

Three automations, for the runs of the deployments of the flow `conductor` and of those that train one. Run again,
this updates them.

    resume crashed runs   Crashed -> AwaitingRetry: a worker starts the run again, and it goes on from its stored
                          results (`conductor_plugin.on_prefect.crashes` ends a run that crashes again and again)
    lost machines         a machine that is gone reports no crash, but its runs' heartbeats stop: -> Crashed
    stop crash loops      a run that cannot even start (a broken import) never reaches the flow that counts its
                          crashes, so the server counts too: -> Failed
"""

from datetime import timedelta

from prefect.automations import Automation
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture

from conductor_plugin.on_prefect.crashes import MAX_CRASHES

# Three of the heartbeats that prefect.yaml sets; one may come late from a busy machine.
LOST_AFTER = timedelta(seconds=90)

# Prefect's process worker reports a killed run twice: at once, and again when it has run the flow's on_crashed hooks
# in a process of their own (3.9.1: up to 32 s later). A run that was started again in between would count
# as crashed by the second report and be started a third time, beside the second. So a crashed run rests first.
REST = timedelta(minutes=2)

HEARTBEAT = "prefect.flow-run.heartbeat"

FLOWS = ["conductor", "conductor-train", "conductor-retrain"]

# The name leaves out the subflows of later rounds, which their parent runs again. Only a deployment's run can be
# started again: one that crashed on somebody's command line has no worker.
OURS = [
    {"prefect.resource.role": "flow", "prefect.resource.name": FLOWS},
    {"prefect.resource.role": "deployment"},
]


def automations(rest: timedelta = REST, lost_after: timedelta = LOST_AFTER) -> list[AutomationCore]:
    """The three of them, as they are sent to the server."""
    return [
        AutomationCore(
            name="conductor: resume crashed runs",
            description="A crashed run is started again and goes on from its stored results.",
            # Unless something else has become of it by then: it was being cancelled, or somebody retried it.
            trigger=EventTrigger(
                posture=Posture.Proactive,
                after=_events("Crashed"),
                expect=_events("Cancelling", "Cancelled", "Scheduled", "AwaitingRetry", "Pending", "Running", "Failed"),
                within=rest,
                match_related=OURS,
                **_EACH_RUN,
            ),
            actions=[
                ChangeFlowRunState(
                    state=StateType.SCHEDULED, name="AwaitingRetry", message="The run crashed and is started again."
                )
            ],
        ),
        AutomationCore(
            name="conductor: lost machines",
            description="A run whose heartbeats stopped has crashed.",
            trigger=EventTrigger(
                posture=Posture.Proactive,
                after={HEARTBEAT},
                expect={HEARTBEAT, *_events("Completed", "Failed", "Cancelled", "Crashed")},
                within=lost_after,
                match_related=OURS,
                **_EACH_RUN,
            ),
            actions=[ChangeFlowRunState(state=StateType.CRASHED, message="The run's heartbeats stopped.")],
        ),
        AutomationCore(
            name="conductor: stop crash loops",
            description="A run that was started again and again, and never lived to count its crashes, has failed.",
            # Twice the flow's own limit, so that the flow's sentence comes first where the flow starts at all.
            trigger=EventTrigger(
                expect=_events("AwaitingRetry"),
                threshold=2 * MAX_CRASHES,
                within=timedelta(days=1),
                match_related=OURS,
                **_EACH_RUN,
            ),
            actions=[
                ChangeFlowRunState(
                    state=StateType.FAILED,
                    force=True,
                    message=f"The run was started again {2 * MAX_CRASHES} times within a day and crashed each time. "
                    "See the worker's log for why, mend that, and retry the run.",
                )
            ],
        ),
    ]


def _events(*states: str) -> set[str]:
    return {f"prefect.flow-run.{state}" for state in states}


_EACH_RUN = {"match": {"prefect.resource.id": "prefect.flow-run.*"}, "for_each": {"prefect.resource.id"}}


def ship(client: SyncPrefectClient, automation: AutomationCore) -> str:
    """Create the automation, or make the one of its name like it. Returns what was done."""
    there: list[Automation] = client.read_automations_by_name(automation.name)
    if not there:
        client.create_automation(automation)
        return "created"
    # The client leaves out what nobody set, and the server then misses it: so all counts as set that it may be told.
    whole = AutomationCore.model_validate(automation.model_dump(exclude={"owner_resource"}))
    client.update_automation(there[0].id, whole)
    return "updated"


def main() -> None:
    with get_client(sync_client=True) as client:
        for automation in automations():
            print(f"{ship(client, automation)}: {automation.name}")


if __name__ == "__main__":
    main()
