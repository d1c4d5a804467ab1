"""The planner `reflection:WORKER`: one worker answers, then improves its answer four times (paper, "5x reflection")."""

from conductor_plugin.graph import CallStep
from conductor_plugin.models import Frozen
from conductor_plugin.planners.base import PlanRequest, Proposal
from conductor_plugin.planners.choosing import named_worker

TURNS = 5
REFLECT = (
    "Check the latest answer above step by step. Correct what is wrong, improve what can be improved, and give the "
    "complete answer again, in the form that the question asks for."
)


class SelfReflection(Frozen):
    """One worker by name, asked five times, each time with everything before in view."""

    worker: str
    tries: int = 1

    @property
    def name(self) -> str:
        """As the CLI spells it."""
        return f"reflection:{self.worker}"

    async def propose(self, request: PlanRequest) -> Proposal:
        """Five steps. PoolError if the question's pool has no such worker."""
        number = named_worker(request.pool, self.worker)
        first = CallStep(worker=number)
        again = CallStep(worker=number, subtask=REFLECT, access="all")
        return Proposal(steps=(first, *[again] * (TURNS - 1)))
