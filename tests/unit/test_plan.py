"""The plan text: every form that is a plan, every one that is not, and the way back to text."""

import json
import warnings
from typing import Any

import pytest
from hypothesis import given

from conductor_plugin.errors import PlanError
from conductor_plugin.plan import Plan, PlanRules, check_rules, parse_plan, render_plan
from tests.unit.strategies import lists, plans

RULES = PlanRules(workers=4)
LISTS = 'model_id = [1, 0]\nsubtasks = ["a", ""]\naccess_list = [[], [0]]'
TWO_STEPS = ((1, 0), ("a", ""), ((), (0,)))
DRAFT = 'model_id = [3]\nsubtasks = ["draft"]\naccess_list = [[]]\n'


def parsed(text: str, **rules: Any) -> tuple[Any, Any, Any]:
    plan = parse_plan(text, RULES.model_copy(update=rules))
    return plan.model_id, plan.subtasks, plan.access_list


def refusal(text: str, **rules: Any) -> PlanError:
    with pytest.raises(PlanError) as caught:
        parse_plan(text, RULES.model_copy(update=rules))
    return caught.value


SAME_PLAN = {
    "plain": LISTS,
    "plural names": 'model_ids = [1, 0]\nsubtasks = ["a", ""]\naccess_lists = [[], [0]]',
    "models and singular": 'models = [1, 0]\nsubtask = ["a", ""]\naccess_list = [[], [0]]',
    "colons": 'model_id: [1, 0]\nsubtasks: ["a", ""]\naccess_list: [[], [0]]',
    "colon and equals": 'models: [1, 0]\nsubtasks = ["a", ""]\naccess_lists :[[], [0]]',
    "tight": "model_id=[1,0]subtasks=['a','']access_list=[[],[0]]",
    "another order": 'access_list = [[], [0]]\nsubtasks = ["a", ""]\nmodel_id = [1, 0]',
    "several lines": 'model_id = [\n  1,\n  0,\n]\nsubtasks =\n["a",\n ""]\naccess_list = [ [ ] ,\t[ 0 , ] , ]',
    "windows lines": LISTS.replace("\n", "\r\n"),
    "triple quotes": LISTS.replace('"a"', '"""a"""').replace('""]', "'''''']"),
    "fenced": f"```python\n{LISTS}\n```",
    "three blocks": "\n".join(f"```\n{line}\n```" for line in LISTS.split("\n")),
    "prose around": f"I choose two.\n{LISTS}\nThat is all: [see above], 'done'.",
    "comment after": LISTS.replace("\n", "  # as said\n"),
    "after think": f"<think>two steps</think>{LISTS}",
    "draft in think": f"<think>{DRAFT}</think>\n{LISTS}",
    "two thinks": f"<think>{DRAFT}</think> {DRAFT} <think>{DRAFT}</think>\n{LISTS}",
    "only the closing tag": f"{DRAFT}</think>\n{LISTS}",
    "last one wins": f"{DRAFT}No:\n{LISTS}",
    "last of each name": f'models=[3]\naccess_lists=[[]]\nsubtasks=["x"]\nNo:\n{LISTS}',
    "malformed draft": f"model_id = [1, oops\nsubtasks = ['\n{LISTS}",
    "malformed drafts": "model_id = [1, oops\nsubtasks = ['\naccess_list = [[], [\n" * 100 + LISTS,
    "name without a list": f"The model_id = is next, subtasks: follow.\n{LISTS}",
    "longer words": f"{LISTS}\nsubmodels = [9]\nmy_models = [9]\nmodel_idx = [9]\naccess_listing: [9]",
}


@pytest.mark.parametrize("text", SAME_PLAN.values(), ids=SAME_PLAN)
def test_forms_of_one_plan(text: str) -> None:
    assert parsed(text) == TWO_STEPS


ENTRIES = {
    "all": (lists("[0, 0]", '["", ""]', '[[], "all"]'), ((0, 0), ("", ""), ((), "all"))),
    "all in a list": (lists("[0, 0]", '["", ""]', "[['all'], [\"all\"]]"), ((0, 0), ("", ""), ("all", "all"))),
    "names in an instruction": (
        lists(subtasks='["models = [7], then access_list: [[9]]"]'),
        ((0,), ("models = [7], then access_list: [[9]]",), ((),)),
    ),
    "escapes": (lists(subtasks=r'["\"\u00e9\n\\d\d]"]'), ((0,), ('"é\n\\d\\d]',), ((),))),
    "text after the bracket": (lists("[0][1] + [2] # or so"), ((0,), ("a",), ((),))),
    "highest id": (lists("[3]"), ((3,), ("a",), ((),))),
    "order of access": (
        lists("[0, 0, 0]", '["", "", ""]', "[[], [], [1, 0]]"),
        ((0,) * 3, ("",) * 3, ((), (), (1, 0))),
    ),
}


@pytest.mark.parametrize(("text", "plan"), ENTRIES.values(), ids=ENTRIES)
def test_entries(text: str, plan: Any) -> None:
    assert parsed(text) == plan


# Each with the code, the list and the index of its error.
HUGE = "9" * 5000
INVALID: dict[str, tuple[str, str, str | None, int | None]] = {
    "nothing": ("", "missing_list", "model_id", None),
    "prose": ("Ask both and compare.", "missing_list", "model_id", None),
    "no model_id": (LISTS.replace("model_id", "workers"), "missing_list", "model_id", None),
    "no subtasks": (LISTS.replace("subtasks", "tasks"), "missing_list", "subtasks", None),
    "no access_list": (LISTS.replace("access_list", "access"), "missing_list", "access_list", None),
    "unclosed think": (f"  <think>\n{LISTS}", "missing_list", "model_id", None),
    "lists only in think": (f"<think>{LISTS}</think>", "missing_list", "model_id", None),
    "one list only in think": (f"<think>model_id = [0]</think>{LISTS[18:]}", "missing_list", "model_id", None),
    "one list between thoughts": (f"</think>model_id = [0]</think>{LISTS[18:]}", "missing_list", "model_id", None),
    "comment inside": (lists("[0, # first\n]"), "not_literal", "model_id", None),
    "malformed last": (f"{LISTS}\nmodel_id = [0, 1", "not_literal", "model_id", None),
    "unquoted": (lists(subtasks="[do it]"), "not_literal", "subtasks", None),
    "unclosed string": (lists(subtasks='["a]'), "not_literal", "subtasks", None),
    "line break in a string": (lists(subtasks='["a\nb"]'), "not_literal", "subtasks", None),
    "NUL in a string": (lists(subtasks='["a\0b"]'), "not_literal", "subtasks", None),
    "f-string": (lists(subtasks='[f"{1}"]'), "not_literal", "subtasks", None),
    "call": (lists("[int(0)]"), "not_literal", "model_id", None),
    "code": (lists("[__import__('os').getpid()]"), "not_literal", "model_id", None),
    "comprehension": (lists("[0 for x in y]"), "not_literal", "model_id", None),
    "tuple": (lists(access="[()]"), "not_literal", "access_list", None),
    "dictionary": (lists(access="[{}]"), "not_literal", "access_list", None),
    "arithmetic": (lists("[1-1]"), "not_literal", "model_id", None),
    "comma alone": (lists("[,]"), "not_literal", "model_id", None),
    "too deep": (lists(access="[[[]]]"), "bad_access", "access_list", None),
    "bool id": (lists("[0, True]", '["", ""]', "[[], []]"), "bad_model_id", "model_id", 1),
    "float id": (lists("[1.0]"), "bad_model_id", "model_id", 0),
    "text id": (lists('["0"]'), "bad_model_id", "model_id", 0),
    "None id": (lists("[None]"), "bad_model_id", "model_id", 0),
    "list id": (lists("[0, [1]]", '["", ""]', "[[], []]"), "bad_model_id", "model_id", 1),
    "complex id": (lists("[1j]"), "bad_model_id", "model_id", 0),
    "negative id": (lists("[0, -1]", '["", ""]', "[[], []]"), "bad_model_id", "model_id", 1),
    "id out of range": (lists("[0, 4]", '["", ""]', "[[], []]"), "bad_model_id", "model_id", 1),
    "20 digits": (lists("[0, 99999999999999999999]", '["", ""]', "[[], []]"), "bad_model_id", "model_id", 1),
    "5000 digits": (lists(f"[0, {HUGE}]", '["", ""]', "[[], []]"), "bad_model_id", "model_id", None),
    "5000 hex digits": (lists(f"[0, 0x{'f' * 5000}]", '["", ""]', "[[], []]"), "bad_model_id", "model_id", 1),
    "infinite id": (lists("[1e999]"), "bad_model_id", "model_id", 0),
    "number as instruction": (lists("[0, 0]", '["a", 1]', "[[], []]"), "bad_subtask", "subtasks", 1),
    "None as instruction": (lists(subtasks="[None]"), "bad_subtask", "subtasks", 0),
    "list as instruction": (lists(subtasks='[["a"]]'), "bad_subtask", "subtasks", 0),
    "bytes as instruction": (lists(subtasks='[b"a"]'), "bad_subtask", "subtasks", 0),
    "half of a surrogate pair": (lists(subtasks=r'["\ud83d"]'), "bad_subtask", "subtasks", 0),
    "hex digits as instruction": (lists(subtasks=f"[0x{'f' * 5000}]"), "bad_subtask", "subtasks", 0),
    "itself": (lists("[0, 0]", '["", ""]', "[[], [1]]"), "bad_access", "access_list", 1),
    "itself at the start": (lists(access="[[0]]"), "bad_access", "access_list", 0),
    "later": (lists("[0, 0]", '["", ""]', "[[1], []]"), "bad_access", "access_list", 0),
    "negative step": (lists("[0, 0]", '["", ""]', "[[], [-1]]"), "bad_access", "access_list", 1),
    "bool step": (lists("[0, 0]", '["", ""]', "[[], [False]]"), "bad_access", "access_list", 1),
    "float step": (lists("[0, 0]", '["", ""]', "[[], [0.0]]"), "bad_access", "access_list", 1),
    "step twice": (lists("[0, 0]", '["", ""]', "[[], [0, 0]]"), "bad_access", "access_list", 1),
    "number": (lists("[0, 0]", '["", ""]', "[[], 0]"), "bad_access", "access_list", 1),
    "another word": (lists("[0, 0]", '["", ""]', '[[], "none"]'), "bad_access", "access_list", 1),
    "all and more": (lists("[0, 0]", '["", ""]', '[[], ["all", 0]]'), "bad_access", "access_list", 1),
    "None as access": (lists(access="[None]"), "bad_access", "access_list", 0),
    "hex digits as step": (lists(access=f"[[0x{'f' * 5000}]]"), "bad_access", "access_list", 0),
    "fewer subtasks": (lists("[0, 0]", '["a"]', "[[], []]"), "length_mismatch", "subtasks", None),
    "a comma forgotten": (lists("[0, 0]", '["a" "b"]', "[[], []]"), "length_mismatch", "subtasks", None),
    "more access": (lists("[0]", '["a"]', "[[], []]"), "length_mismatch", "access_list", None),
    "no steps": (lists("[]", "[]", "[]"), "empty_plan", None, None),
    "one list empty": (lists("[0]", "[]", "[[]]"), "length_mismatch", "subtasks", None),
    "six steps": (lists("[0,0,0,0,0,0]", '["","","","","",""]', "[[],[],[],[],[],[]]"), "too_many_steps", None, None),
}


@pytest.mark.parametrize(("text", "code", "list_name", "index"), INVALID.values(), ids=INVALID)
def test_refusals(text: str, code: str, list_name: str | None, index: int | None) -> None:
    error = refusal(text)
    assert (error.code, error.index) == (code, index)
    assert error.list_name == list_name or code == "too_many_steps"
    assert 10 < len(str(error)) < 200


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("model_id = [0 # first", "model_id holds a comment"),
        ("model_id = [0", "model_id is not closed by ]"),
        ("model_id = ['a\nb']", "model_id holds a string that is not closed on its line"),
        ("model_id = [[[0]]]", "model_id nests brackets too deeply"),
        ("model_id = [x]", "model_id is not a plain Python list"),
    ],
)
def test_faults_of_a_list_are_named(text: str, says: str) -> None:
    assert says in str(refusal(f'subtasks = [""] access_list = [[]] {text}'))


# id 4 of a pool of four is the Conductor itself, where it is offered
CONDUCTOR: dict[str, tuple[str, bool, bool, str | None, int | None]] = {
    "last": (lists("[0, 4]", '["", ""]', '[[], "all"]'), True, False, None, None),
    "not offered": (lists("[0, 4]", '["", ""]', "[[], []]"), False, True, "bad_model_id", 1),
    "not last": (lists("[4, 0]", '["", ""]', "[[], []]"), True, True, "bad_model_id", 0),
    "twice": (lists("[0, 4, 4]", '["", "", ""]', "[[], [], []]"), True, True, "bad_model_id", 1),
    "alone": (lists("[4]"), True, False, "bad_model_id", 0),
    "alone with an answer": (lists("[4]"), True, True, None, None),
    "beyond it": (lists("[5]"), True, True, "bad_model_id", 0),
    "empty": (lists("[]", "[]", "[]"), True, False, "empty_plan", None),
    "empty with an answer": (lists("[]", "[]", "[]"), False, True, None, None),
}


@pytest.mark.parametrize(("text", "conductor", "answered", "code", "index"), CONDUCTOR.values(), ids=CONDUCTOR)
def test_conductor_and_empty_plans(
    text: str, conductor: bool, answered: bool, code: str | None, index: int | None
) -> None:
    rules = {"conductor": conductor, "answered": answered}
    if code is None:
        parsed(text, **rules)
    else:
        error = refusal(text, **rules)
        assert (error.code, error.index) == (code, index)


def test_odd_literals_make_no_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parsed(lists(subtasks=r'["a\d+\("]'))[1] == (r"a\d+\(",)
        assert refusal(lists("[1or 0]")).code == "not_literal"


@given(plans())
def test_rendered_plans_parse_back(plan: Plan) -> None:
    assert parse_plan(render_plan(plan), RULES) == plan
    assert len([line for line in render_plan(plan).split("</think>")[-1].splitlines() if line]) == 3


@given(plans())
def test_plans_survive_json(plan: Plan) -> None:
    assert Plan.model_validate(json.loads(plan.model_dump_json())) == plan


@given(plans())
def test_sees_is_what_the_access_list_says(plan: Plan) -> None:
    for i, access in enumerate(plan.access_list):
        assert plan.sees(i) == tuple(j for j in range(i) if access == "all" or j in access)


def test_reasoning_is_what_stands_before_the_lists() -> None:
    assert parse_plan(f"<think>\nTwo steps.\n</think>\n\n```python\n{LISTS}\n```", RULES).reasoning == "Two steps."
    assert parse_plan(f"Two steps.\n\n{LISTS}", RULES).reasoning == "Two steps."
    assert parse_plan(LISTS, RULES).reasoning == ""


def test_a_plan_of_the_callers_is_checked_too() -> None:
    two = {"model_id": (0, 0), "subtasks": ("", "")}
    for access, code in [(((), (1,)), "bad_access"), (((),), "length_mismatch"), (((), (0, 0)), "bad_access")]:
        with pytest.raises(PlanError) as caught:
            Plan(**two, access_list=access)
        assert caught.value.code == code
    with pytest.raises(PlanError, match="numbered 0 to 1"):
        check_rules(Plan(model_id=(2,), subtasks=("",), access_list=((),)), PlanRules(workers=2))
