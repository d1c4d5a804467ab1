"""The planner `masrouter[:FOLDER]` (MasRouter, Yue et al. 2025): a cascade chooses a mode, roles and workers.

Trained, the choices are those of the network in `cascade.py`; without a folder they are uniform draws.

The modes as graphs, for n agents: IO and CoT, n independent steps; Chain, each sees the one before; FullConnected,
each sees all before; Debate, n drafts, then n steps that each see the drafts of the others; Reflection, n pairs
of a draft and its revision. A last step on the most frequent worker sees each agent's latest output.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Literal

from conductor_plugin.graph import CallStep
from conductor_plugin.models import Frozen
from conductor_plugin.planners.base import PlanRequest, Proposal
from conductor_plugin.planners.choosing import lot, numbered
from conductor_plugin.planners.saved import Saved
from conductor_plugin.yaml_file import read_yaml

Mode = Literal["IO", "CoT", "Chain", "FullConnected", "Debate", "Reflection"]
MOST_AGENTS = 6

HINTS: dict[Mode, str] = {
    "IO": "Give the answer alone, without intermediate work.",
    "CoT": "Reason step by step.",
    "Chain": "Build on the work above, if there is any; correct what is wrong in it.",
    "FullConnected": "Take all the work above into account, if there is any; correct what is wrong in it.",
    "Debate": "Reason step by step and be ready to defend your answer.",
    "Reflection": "Reason step by step.",
}
DEBATE = "Others answered as shown above. Say where they and you are right or wrong, and give your final answer."
REVISE = "Examine your answer above for mistakes, and give the revised answer."
DECIDE = "The replies above come from several agents. Decide what is right, and give one final answer."
FORM = "End with the answer in the form that the question asks for."


class Profiles(Frozen):
    """The texts of `masrouter.yaml`."""

    tasks: dict[str, str]
    modes: dict[Mode, str]
    roles: dict[str, dict[str, str]]


class Draw(Frozen):
    """What the cascade chose: the task's kind, the mode, and a role and a worker for each agent."""

    task: str
    mode: Mode
    roles: tuple[str, ...]
    workers: tuple[int, ...]


@cache
def profiles() -> Profiles:
    """The profiles that come with the package."""
    return Profiles.model_validate(read_yaml(Path(__file__).parent.parent / "masrouter.yaml"))


class MasRouter(Frozen):
    """The cascade's plan; with `model` None, the plan of an untrained one. Draws are those of (seed, question)."""

    model: Saved | None = None
    seed: int = 0
    name: str = "masrouter"
    tries: int = 1

    async def propose(self, request: PlanRequest) -> Proposal:
        """The plan that is drawn. InputError `planner_pool` if it was trained on another pool."""
        draw = lot(self.seed, request.question)
        if self.model is None:
            return Proposal(steps=build(random_draw(draw, len(request.pool.workers))))
        from conductor_plugin.planners.cascade import loaded

        return Proposal(steps=build(loaded(self.model).choose(request, draw, self.name)))


def random_draw(draw: Random, workers: int) -> Draw:
    """Every choice uniform."""
    texts = profiles()
    task = draw.choice(list(texts.tasks))
    mode = draw.choice(list(texts.modes))
    agents = range(draw.randint(1, MOST_AGENTS))
    roles = tuple(draw.choice(list(texts.roles[task])) for _ in agents)
    return Draw(task=task, mode=mode, roles=roles, workers=tuple(draw.randrange(workers) for _ in agents))


def build(draw: Draw) -> tuple[CallStep, ...]:
    """The mode's graph with the roles as instructions."""
    roles = profiles().roles[draw.task]
    hints = {False: HINTS[draw.mode], True: DEBATE if draw.mode == "Debate" else REVISE}
    steps: list[CallStep] = []
    latest: dict[int, int] = {}
    for agent, access, again in layout(draw.mode, len(draw.roles)):
        text = f"{roles[draw.roles[agent]]} {hints[again]} {FORM}"
        latest[agent] = len(steps)
        steps.append(CallStep(worker=draw.workers[agent], subtask=text, access=access))
    [(chief, _)] = Counter(draw.workers).most_common(1)  # the earliest of equals
    steps.append(CallStep(worker=chief, subtask=f"{DECIDE} {FORM}", access=tuple(sorted(latest.values()))))
    return numbered(steps)


def layout(mode: Mode, agents: int) -> Sequence[tuple[int, tuple[int, ...], bool]]:
    """A mode's steps in order: whose it is, which steps it sees, and whether it is the agent's second one."""
    each = range(agents)
    if mode == "Chain":
        return [(i, (i - 1,) if i else (), False) for i in each]
    if mode == "FullConnected":
        return [(i, tuple(range(i)), False) for i in each]
    drafts = [(i, (), False) for i in each]
    if mode == "Debate" and agents > 1:  # nobody debates alone
        return [*drafts, *((i, tuple(j for j in each if j != i), True) for i in each)]
    if mode == "Reflection":
        return [step for i in each for step in ((i, (), False), (i, (2 * i,), True))]
    return drafts
