"""The planner `context5:WORKER`: one worker with five times its output cap (paper, "5x context").

Only what bounds the answer's length grows, and with it the time that the call may take; see `CallStep.caps`.
"""

from conductor_plugin.errors import InputError
from conductor_plugin.graph import CallStep
from conductor_plugin.models import Frozen
from conductor_plugin.planners.base import PlanRequest, Proposal
from conductor_plugin.planners.choosing import named_worker

TIMES = 5


class LongContext(Frozen):
    """One worker by name, asked once."""

    worker: str
    tries: int = 1

    @property
    def name(self) -> str:
        """As the CLI spells it."""
        return f"context5:{self.worker}"

    async def propose(self, request: PlanRequest) -> Proposal:
        """One step. InputError `no_max_tokens` for a worker without a cap: five times nothing is no comparison."""
        number = named_worker(request.pool, self.worker)
        if request.pool.workers[number].output_cap is None:
            raise InputError(
                f"{self.name} multiplies the worker's output cap, but it has none; give it one in the pool file: "
                "params: {max_tokens: 4096}",
                code="no_max_tokens",
            )
        return Proposal(steps=(CallStep(worker=number, caps=TIMES),))
