"""The planner `moa`: Mixture-of-Agents (Wang et al. 2024), every worker answers and one of them merges the answers.

The original numbers the answers in a system message. Here worker output stays in the assistant turns, one a
proposer in order, and the aggregator's instruction refers to them by their numbers.
"""

from conductor_plugin.graph import CallStep
from conductor_plugin.models import Frozen
from conductor_plugin.planners.base import PlanRequest, Proposal
from conductor_plugin.planners.choosing import lot

AGGREGATE = (
    "The {count} replies above, numbered 1 to {count} in their order, are independent answers to the question. Weigh "
    "each of them critically: some may be wrong or biased. Do not copy one of them; work out what is right and merge "
    "it into one complete and accurate reply of your own, in the form that the question asks for."
)


class MixtureOfAgents(Frozen):
    """Proposers in `layers` - 1 layers, of which each sees the one before, then an aggregator drawn by `seed`.

    Calls: workers x (layers - 1) + 1; with the paper's two layers and 7 workers 8.
    """

    layers: int = 2
    seed: int = 0
    name: str = "moa"
    tries: int = 1

    async def propose(self, request: PlanRequest) -> Proposal:
        """The layers on the request's pool."""
        count = len(request.pool.workers)
        aggregate = AGGREGATE.format(count=count)
        steps = [CallStep(worker=i) for i in range(count)]
        for _ in range(self.layers - 2):
            latest = tuple(range(len(steps) - count, len(steps)))
            steps += [CallStep(worker=i, subtask=aggregate, access=latest) for i in range(count)]
        latest = tuple(range(len(steps) - count, len(steps)))
        aggregator = lot(self.seed, request.question).randrange(count)
        return Proposal(steps=(*steps, CallStep(worker=aggregator, subtask=aggregate, access=latest)))
