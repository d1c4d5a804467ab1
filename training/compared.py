"""What the learned Conductor is compared with on two cores, and itself, as planners of the one executor.

Baselines are told what a person would tell them: the routers and mixtures ask the bare question, and the mixture's
last step has the one instruction with which an exact tool can merge answers.
"""

from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from random import Random

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.evaluation.evaluate import System
from conductor_plugin.evaluation.systems import make_systems
from conductor_plugin.graph import CallStep
from conductor_plugin.models import Frozen
from conductor_plugin.plan import render_plan
from conductor_plugin.planners.base import PlanRequest, Proposal, read_completion
from conductor_plugin.planners.rules import RuleRouter
from conductor_plugin.pool import Pool
from training.cold_start import instructions_for, random_plan
from training.config import TrainConfig

RULES = Path(__file__).parent / "rules" / "two-cores.yaml"
MERGE = "Give the first answer above that is not a refusal."
LEARNED, SAMPLED, COLD, LOT = "learned", "learned (sampled)", "cold start (sampled)", "plan by lot"


class WrittenPlans(Frozen):
    """Completions that a model wrote beforehand, by the question's text. A faulty one is tried once, as in training."""

    name: str
    completions: Mapping[str, str]
    tries: int = 1

    async def propose(self, request: PlanRequest) -> Proposal:
        """The plan in the question's completion, or its fault."""
        return read_completion(self.completions[request.question], request.rules)


class OrderedMixture(Frozen):
    """Mixture-of-Agents with its order chosen: every worker answers, in this order, and `merger` merges."""

    order: tuple[int, ...]
    merger: int
    tries: int = 1

    @property
    def name(self) -> str:
        """`moa:2013+2`."""
        return f"moa:{''.join(map(str, self.order))}+{self.merger}"

    async def propose(self, request: PlanRequest) -> Proposal:
        """All proposers, then the merging step that sees them."""
        answers = tuple(CallStep(worker=i) for i in self.order)
        return Proposal(
            steps=(*answers, CallStep(worker=self.merger, subtask=MERGE, access=tuple(range(len(answers)))))
        )


def written(name: str, questions: Sequence[Question], completions: Sequence[str], pool: Pool, steps: int) -> System:
    """A system of the completions that a model wrote for the questions."""
    plans = {question.text: text for question, text in zip(questions, completions, strict=True)}
    return System(name, WrittenPlans(name=name, completions=plans), pool, max_steps=steps)


def by_lot(questions: Sequence[Question], pool: Pool, config: TrainConfig) -> System:
    """Plans drawn as the cold start draws them: what a model that knows the format alone amounts to."""
    source, steps = Random(f"by lot/{config.grpo.seed}"), config.rules.max_steps
    plans = [
        render_plan(random_plan(source, len(pool.workers), steps, instructions_for(config, question)))
        for question in questions
    ]
    return written(LOT, questions, plans, pool, steps)


def baselines(pool: Pool) -> list[System]:
    """Every system that learns nothing: single workers, the rule router, 5x reflection and consensus, mixtures."""
    names = [worker.name for worker in pool.workers]
    fives = [f"{kind}:{name}" for kind in ("reflection", "consensus") for name in names]
    systems = make_systems(pool, [*(f"single:{name}" for name in names), "random", *fives, "moa"])
    systems.append(System(f"rules:{RULES.stem}", RuleRouter(rules=str(RULES)), pool))
    merger = next((i for i, worker in enumerate(pool.workers) if worker.kind == "text"), 0)
    mixtures = [OrderedMixture(order=order, merger=merger) for order in permutations(range(len(names)))]
    return [*systems, *(System(mixture.name, mixture, pool) for mixture in mixtures)]
