r"""The planner `rules`: a router that a person wrote. The first rule that matches chooses the one worker.

describe: one line for people
rules:
  - when: '\bprime\b'      # a regular expression, looked for in the question; case does not count, '' always matches
    worker: kind:number    # the first worker of a kind; `tag:TAG` and `name:NAME` likewise
A rule whose worker the pool lacks is passed over; where no rule is left, the pool's first worker answers.
"""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from conductor_plugin.graph import CallStep
from conductor_plugin.models import Frozen
from conductor_plugin.planners.base import PlanRequest, Proposal
from conductor_plugin.planners.choosing import find_worker
from conductor_plugin.planners.files import load_named
from conductor_plugin.pool import Pool

RULES = Path(__file__).parent.parent / "rules"


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None
    return text


class Rule(Frozen):
    """One entry of `rules:`."""

    when: Annotated[str, AfterValidator(_expression)]
    worker: str = Field(pattern=r"^(kind|tag|name):.")


class Rules(Frozen):
    """A rule file's content."""

    describe: str = ""
    rules: tuple[Rule, ...] = Field(min_length=1)


class RuleRouter(Frozen):
    """The rules in `conductor_plugin/rules`, by name, or those of a file (`./mine.yaml`)."""

    rules: str = "default"
    tries: int = 1

    @property
    def name(self) -> str:
        """As the CLI spells it."""
        return "rules" if self.rules == "default" else f"rules:{self.rules}"

    async def propose(self, request: PlanRequest) -> Proposal:
        """One step: the worker of the first rule that matches, the bare question."""
        return Proposal(steps=(CallStep(worker=route(load_rules(self.rules), request.question, request.pool)),))


def route(rules: Rules, question: str, pool: Pool) -> int:
    """The number of the worker that the rules choose."""
    for rule in rules.rules:
        if re.search(rule.when, question, re.IGNORECASE):
            worker = find_worker(pool, rule.worker)
            if worker is not None:
                return worker
    return 0


def load_rules(name: str) -> Rules:
    """Read rules by name, or by path where the name ends in .yaml. InputError says what is wrong."""
    return load_named(Rules, name, RULES, word="rules", there_is_no="there are no rules")
