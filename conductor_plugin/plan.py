"""The plan: the three lists that a planner writes (paper, "The output format"), parsed strictly.

Nothing is repaired: rewards and the runtime read a completion in the same way, and every failure is a
`PlanError` whose sentence tells the planner, model or person, what to change.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt, StrictStr, field_validator, model_validator

from conductor_plugin.errors import PlanError
from conductor_plugin.models import Frozen
from conductor_plugin.plan_text import LIST_NAMES, MAX_BYTES, ListText, find_lists, read_list

Access = Literal["all"] | tuple[Annotated[int, Field(strict=True, ge=0)], ...]

_FENCE = re.compile(r"```\w*$")
_THINK = re.compile(r"</?think>")
_TAG = re.compile(r"<(?=[/<]|think>)")


class PlanRules(Frozen):
    """What a plan may hold for one question.

    `workers` is the pool's size k. With `conductor`, id k names the Conductor itself, as the last step only.
    `answered` says that an earlier answer exists, so that three empty lists (keep it) are valid.
    """

    workers: int
    max_steps: int = 5
    conductor: bool = False
    answered: bool = False


class Plan(Frozen):
    """Three lists of n entries: worker ids, instructions, and which earlier steps each step may see."""

    model_id: tuple[StrictInt, ...]
    subtasks: tuple[StrictStr, ...]
    access_list: tuple[Access, ...]
    reasoning: str = ""

    def __len__(self) -> int:
        return len(self.model_id)

    @field_validator("reasoning")
    @classmethod
    def _without_think_tags(cls, text: str) -> str:
        text = _THINK.sub("", text.encode("utf-8", "replace").decode())  # half a surrogate pair is no text
        # Taking tags out can put new ones together; those are broken instead, so that one pass is enough.
        return _THINK.sub(lambda tag: tag.group().replace(">", " >"), text).strip()

    @model_validator(mode="after")
    def _lists_fit_together(self) -> "Plan":
        n = len(self.model_id)
        for name, length in (("subtasks", len(self.subtasks)), ("access_list", len(self.access_list))):
            if length != n:
                raise PlanError(
                    f"model_id has {n} entries but {name} has {length}; give every step one entry in each list",
                    code="length_mismatch",
                    list_name=name,
                )
        for i, access in enumerate(self.access_list):
            _check_access(i, access)
        return self

    def sees(self, step: int) -> tuple[int, ...]:
        """The earlier steps that `step` may see, in step order."""
        access = self.access_list[step]
        return tuple(range(step)) if access == "all" else tuple(sorted(int(i) for i in access))


def parse_plan(text: str, rules: PlanRules) -> Plan:
    """Read the plan out of a planner's completion. PlanError if there is no valid one, in linear time."""
    lists = find_lists(text)
    for name in LIST_NAMES:
        if name not in lists:
            raise PlanError(
                f"the list {name} is missing; write {name} = [...] after the reasoning",
                code="missing_list",
                list_name=name,
            )
    _check_size(list(lists.values()), rules)
    model_id = [_check_id(i, value) for i, value in enumerate(read_list(lists["model_id"]))]
    subtasks = [_check_subtask(i, value) for i, value in enumerate(read_list(lists["subtasks"]))]
    access_list = [_read_access(i, value) for i, value in enumerate(read_list(lists["access_list"]))]
    start = min(lst.start for lst in lists.values())
    plan = Plan(
        model_id=tuple(model_id),
        subtasks=tuple(subtasks),
        access_list=tuple(access_list),
        reasoning=_FENCE.sub("", text[:start].rstrip()),
    )
    check_rules(plan, rules)
    return plan


def render_plan(plan: Plan) -> str:
    """The completion that parses back to the same plan."""
    entries = {
        "model_id": [str(i) for i in plan.model_id],
        "subtasks": [_quote(text) for text in plan.subtasks],
        "access_list": [
            '"all"' if access == "all" else "[" + ", ".join(str(i) for i in access) + "]" for access in plan.access_list
        ],
    }
    lists = "\n".join(f"{name} = [{', '.join(values)}]" for name, values in entries.items())
    return f"<think>\n{plan.reasoning}\n</think>\n\n{lists}" if plan.reasoning else lists


def check_rules(plan: Plan, rules: PlanRules) -> None:
    """PlanError if a well-formed plan breaks the rules of this question: step limit, ids, emptiness."""
    if len(plan) > rules.max_steps:
        raise _too_many(len(plan), rules)
    if len(plan) == 0 and not rules.answered:
        raise PlanError("the plan has no steps; name at least one worker", code="empty_plan")
    for i, worker in enumerate(plan.model_id):
        is_conductor = rules.conductor and worker == rules.workers
        if is_conductor and i < len(plan) - 1:
            raise _bad_id(i, f"names the Conductor itself (Model {worker}), which may only be the last step")
        if is_conductor and i == 0 and not rules.answered:
            raise _bad_id(i, "hands the question back to the Conductor with no answer; let a worker answer first")
        if not is_conductor and not 0 <= worker < rules.workers:
            last = rules.workers - (0 if rules.conductor else 1)
            raise _bad_id(i, f"is {_short(worker)}, but the models are numbered 0 to {last}")


def _check_size(lists: list[ListText], rules: PlanRules) -> None:
    """Refuse by size before any literal is evaluated: evaluation is the expensive part."""
    for lst in lists:
        if lst.fault:
            code, what = lst.fault
            raise PlanError(f"{lst.name} {what}; write one short plain list", code=code, list_name=lst.name)
    size = sum(len(lst.source.encode("utf-8", "surrogatepass")) for lst in lists)
    if size > MAX_BYTES:
        raise PlanError(f"the three lists hold {size} bytes; the limit is {MAX_BYTES}", code="too_long")
    for lst in lists:
        if lst.entries > rules.max_steps:
            raise _too_many(lst.entries, rules, lst.name)


def _too_many(entries: int, rules: PlanRules, list_name: str | None = None) -> PlanError:
    return PlanError(
        f"the plan has {entries} steps; use at most {rules.max_steps}",
        code="too_many_steps",
        list_name=list_name,
    )


def _check_id(index: int, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _bad_id(index, f"is {_short(value)}; a model id is a whole number")
    return value


def _check_subtask(index: int, value: Any) -> str:
    what = None
    if not isinstance(value, str):
        what = f"is {_short(value)}; an instruction is a quoted string"
    elif any("\ud800" <= c <= "\udfff" for c in value):
        what = "holds half of a surrogate pair, which is no text"
    if what:
        raise PlanError(f"subtasks[{index}] {what}", code="bad_subtask", list_name="subtasks", index=index)
    text: str = value
    return text


def _read_access(index: int, value: Any) -> Access:
    if value == "all" or value == ["all"]:
        return "all"
    if not isinstance(value, list) or any(isinstance(i, bool) or not isinstance(i, int) for i in value):
        raise _bad_access(index, f'is {_short(value)}; write [], "all", or a list of earlier step numbers')
    access = tuple(value)
    _check_access(index, access)
    return access


def _check_access(index: int, access: Access) -> None:
    if access == "all":
        return
    for step in access:
        if not isinstance(step, int) or not 0 <= step < index:
            earlier = f"0 to {index - 1}" if index else "none, since this is the first step"
            raise _bad_access(index, f"names step {_short(step)}; it may see only earlier steps ({earlier})")
    if len(set(access)) < len(access):
        raise _bad_access(index, "names a step twice")


def _bad_id(index: int, what: str) -> PlanError:
    return PlanError(f"model_id[{index}] {what}", code="bad_model_id", list_name="model_id", index=index)


def _bad_access(index: int, what: str) -> PlanError:
    return PlanError(f"access_list[{index}] {what}", code="bad_access", list_name="access_list", index=index)


def _short(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes out no number of more than 4300 digits
        return "a gigantic number"
    return text if len(text) <= 40 else text[:37] + "..."


def _quote(text: str) -> str:
    """A Python string literal on one line, in which neither a think tag nor a line break stands as itself.

    `plan_grammar` counts on it: no < stands before / or another one.
    """
    literal = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text.replace("\\", "\\\\"))
    return '"' + _TAG.sub(r"\\x3c", literal.replace('"', '\\"')) + '"'
