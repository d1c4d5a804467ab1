"""The planner `single:WORKER`: one worker, asked the bare question once. The baseline of every comparison."""

from conductor_plugin.graph import CallStep
from conductor_plugin.models import Frozen
from conductor_plugin.planners.base import PlanRequest, Proposal
from conductor_plugin.planners.choosing import named_worker


class SingleWorker(Frozen):
    """One worker by name."""

    worker: str
    tries: int = 1

    @property
    def name(self) -> str:
        """As the CLI spells it."""
        return f"single:{self.worker}"

    async def propose(self, request: PlanRequest) -> Proposal:
        """One step. PoolError if the question's pool has no such worker."""
        return Proposal(steps=(CallStep(worker=named_worker(request.pool, self.worker)),))
