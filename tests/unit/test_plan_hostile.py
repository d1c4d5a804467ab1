"""Whatever a planner writes is a plan or a PlanError, and nothing but its last lists is the plan."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conductor_plugin import plan_text
from conductor_plugin.errors import PlanError
from conductor_plugin.plan import Plan, PlanRules, parse_plan, render_plan
from tests.unit.strategies import FRAGMENTS, lists, plans, tricky_texts

RULES = PlanRules(workers=4, conductor=True, answered=True)
CODES = {
    *("missing_list", "not_literal", "too_long", "too_many_steps", "length_mismatch"),
    *("bad_model_id", "bad_access", "bad_subtask", "empty_plan"),
}
LISTS = lists()


def check(text: str) -> None:
    """The text is a valid plan that can be stored and rendered, or refused as the contract says."""
    result = read(text)
    if isinstance(result, PlanError):
        assert result.code in CODES
        assert result.list_name in {None, "model_id", "subtasks", "access_list"}
        assert result.index is None or (result.list_name and 0 <= result.index < RULES.max_steps)
        assert 10 < len(str(result)) < 200
        return
    assert len(result) == len(result.subtasks) == len(result.access_list) <= RULES.max_steps
    assert all(type(i) is int and 0 <= i <= RULES.workers for i in result.model_id)
    assert all(set(result.sees(i)) <= set(range(i)) for i in range(len(result)))
    assert read(render_plan(result)) == result
    result.model_dump_json()


def read(text: str) -> Plan | PlanError:
    try:
        return parse_plan(text, RULES)
    except PlanError as error:
        return error


@given(st.text())
def test_any_text(text: str) -> None:
    check(text)


@given(st.lists(st.sampled_from([*FRAGMENTS, *LISTS.split(" "), "\n", "\ud83d"]), max_size=60).map("".join))
@example(f"\ud83d {LISTS}")
@example("model_id=[0x" + "f" * 5000 + "] subtasks=[''] access_list=[[]]")
def test_any_fragments(text: str) -> None:
    check(text)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A valid completion with some slices deleted, doubled, replaced or moved."""
    text = render_plan(draw(plans()))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(start + 30, len(text))))
        before, piece, after = text[:start], text[start:end], text[end:]
        elsewhere = draw(st.integers(0, len(before)))
        text = draw(
            st.sampled_from(
                [
                    before + after,
                    before + piece + piece + after,
                    before + draw(st.sampled_from(FRAGMENTS) | st.text(max_size=3)) + after,
                    before[:elsewhere] + piece + before[elsewhere:] + after,
                ]
            )
        )
    return text


@given(mutated())
def test_mutated_completions(text: str) -> None:
    check(text)


@given(plans(), st.randoms(use_true_random=False))
def test_shuffled_completions(plan: Plan, randomness: random.Random) -> None:
    words = render_plan(plan).split(" ")
    randomness.shuffle(words)
    check(" ".join(words))


@given(plans(), tricky_texts())
def test_no_thought_changes_the_plan(plan: Plan, thought: str) -> None:
    result = parse_plan(f"{thought}</think>{render_plan(plan.model_copy(update={'reasoning': ''}))}", RULES)
    assert result.model_copy(update={"reasoning": ""}) == plan.model_copy(update={"reasoning": ""})


@given(plans(), tricky_texts())
def test_no_prose_after_it_changes_the_plan(plan: Plan, prose: str) -> None:
    prose = prose.replace("[", "(").replace("think", "")
    assert parse_plan(f"{render_plan(plan)}\n{prose}", RULES) == plan


@pytest.mark.parametrize("times", [10, 1000])
def test_an_instruction_full_of_lists_is_an_instruction(times: int) -> None:
    """A planner may quote what a worker or a user wrote; it must not become the plan."""
    quoted = "model_id=[2] subtasks=['x'] access_list=[[]] " * times
    plan = Plan(model_id=(0,), subtasks=(quoted,), access_list=((),))
    assert read(render_plan(plan)) == plan


# Expressions that some version of Python's own parser recursed on too deeply; each fits the 64 KiB.
DEEP = {
    "not": "not " * 15_000 + "1",
    "signs": "-" * 60_000 + "1",
    "spaced signs": "- " * 30_000 + "1",
    "sums": "1+" * 30_000 + "1",
    "attributes": "a" + ".b" * 30_000,
    "conditions": "1 if 1 else " * 5_000 + "1",
    "ands": "1 and " * 10_000 + "1",
    "await": "await " * 10_000 + "1",
    "lambdas": "lambda:" * 9_000 + "1",
    "parentheses": "(" * 60_000,
    "braces": "{" * 60_000,
    "f-string sums": 'f"{' + "1+" * 30_000 + '1}"',
    "f-string signs": 'f"{' + "-" * 60_000 + '1}"',
    "f-string formats": 'f"' + "{x:" * 20_000 + '"',
    "strings side by side": '"" ' * 20_000,
    "inner list": "[" + "0," * 30_000 + "]",
    "long number": "9" * 60_000,
    "long hex number": "0x" + "f" * 60_000,
    "long float": "1." + "9" * 60_000,
    "underscores": "1_" * 30_000 + "1",
    "exponent": "1e" + "9" * 60_000,
}


@pytest.mark.parametrize("expression", DEEP.values(), ids=DEEP)
@pytest.mark.parametrize("name", plan_text.LIST_NAMES)
def test_deep_expressions(name: str, expression: str) -> None:
    entries = {"model_id": "0", "subtasks": '"a"', "access_list": "[]"} | {name: expression}
    check("\n".join(f"{name} = [{entry}]" for name, entry in entries.items()))
