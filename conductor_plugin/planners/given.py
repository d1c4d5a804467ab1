"""The planner `plan`: runs the completion that a person, a file or another program wrote."""

from conductor_plugin.models import Frozen
from conductor_plugin.plan import parse_plan
from conductor_plugin.planners.base import PlanRequest, Proposal


class GivenPlan(Frozen):
    """A completion, parsed like any other; a fault in it is the giver's, so it is raised as PlanError."""

    completion: str
    name: str = "plan"
    tries: int = 1

    async def propose(self, request: PlanRequest) -> Proposal:
        """The plan in the completion. PlanError if there is none."""
        return Proposal(completion=self.completion, plan=parse_plan(self.completion, request.rules))
