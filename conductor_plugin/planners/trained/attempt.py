"""How training tries a planner on a question: it is handed a function that runs and grades, and knows no more."""

from collections.abc import Awaitable, Callable

from conductor_plugin.graph import CallStep
from conductor_plugin.models import Frozen
from conductor_plugin.planners.base import Planner, PlanRequest, Proposal


class Outcome(Frozen):
    """What a run came to: the grade from 0 to 1 (None: no grade, the infrastructure failed) and the USD it took."""

    solved: float | None
    cost_usd: float = 0.0


Attempt = Callable[[str, Planner], Awaitable[Outcome]]


class FixedSteps(Frozen):
    """A planner of the steps that training has drawn."""

    steps: tuple[CallStep, ...]
    name: str = "drawn"
    tries: int = 1

    async def propose(self, request: PlanRequest) -> Proposal:
        """The steps."""
        return Proposal(steps=self.steps)
