"""The planner `random`: workers, length and topology by lot. What a planner adds has to show against it."""

from conductor_plugin.graph import CallStep
from conductor_plugin.models import Frozen
from conductor_plugin.planners.base import PlanRequest, Proposal
from conductor_plugin.planners.choosing import lot, numbered


class RandomPlan(Frozen):
    """A plan drawn by (seed, question): 1 to `max_steps` steps, any worker, each earlier step in view or not.

    Every step has the bare question as its instruction: there is nobody who could write another.
    """

    seed: int = 0
    name: str = "random"
    tries: int = 1

    async def propose(self, request: PlanRequest) -> Proposal:
        """The plan by lot: length, workers and access are uniform."""
        draw = lot(self.seed, request.question)
        length = draw.randint(1, request.rules.max_steps)
        steps = []
        for i in range(length):
            access = tuple(j for j in range(i) if draw.random() < 0.5)
            steps.append(CallStep(worker=draw.randrange(len(request.pool.workers)), access=access))
        return Proposal(steps=numbered(steps))
