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

from pydantic import AfterValidator, Field, ValidationError

from conductor_plugin.errors import InputError
from conductor_plugin.graph import CallStep
from conductor_plugin.models import Frozen
from conductor_plugin.planners.base import PlanRequest, Proposal
from conductor_plugin.planners.choosing import find_worker
from conductor_plugin.pool import Pool
from conductor_plugin.yaml_file import Unreadable, read_yaml

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
    path = Path(name) if name.endswith((".yaml", ".yml")) else RULES / f"{name}.yaml"
    if path.parent == RULES and not path.is_file():
        known = ", ".join(sorted(path.stem for path in RULES.glob("*.yaml")))
        raise InputError(
            f"there are no rules {name!r}; there are {known}, or give the path of a .yaml file", code="rules_unknown"
        )
    try:
        return Rules.model_validate(read_yaml(path))
    except Unreadable as error:
        raise InputError(f"cannot read the rules {path}{error}", code="rules_unreadable") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise InputError(f"{path}: {place}: {first['msg']}", code="rules_bad_value") from None
