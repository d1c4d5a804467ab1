"""The planner `consensus:WORKER`: five samples of one worker and the answer that most of them state.

The paper's "5x consensus". It is not defined for free text and code, where hardly two outputs state the same.
"""

from conductor_plugin.graph import CallStep, ReduceStep
from conductor_plugin.models import Frozen
from conductor_plugin.planners.base import PlanRequest, Proposal
from conductor_plugin.planners.choosing import named_worker

SAMPLES = 5


class Consensus(Frozen):
    """One worker by name, asked five times independently."""

    worker: str
    tries: int = 1

    @property
    def name(self) -> str:
        """As the CLI spells it."""
        return f"consensus:{self.worker}"

    async def propose(self, request: PlanRequest) -> Proposal:
        """Five equal calls, told apart by their sample index, and the vote."""
        number = named_worker(request.pool, self.worker)
        calls = tuple(CallStep(worker=number, sample=i) for i in range(SAMPLES))
        return Proposal(steps=(*calls, ReduceStep(reduce="majority")))
