"""Whatever a planner writes is a plan or a PlanError, in work that grows with the text and not with its square."""

import functools
import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from conductor_plugin import plan_text
from conductor_plugin.errors import PlanError
from conductor_plugin.plan import Plan, PlanRules, parse_plan, render_plan
from tests.unit.strategies import FRAGMENTS, plans, tricky_texts, within_cpu

RULES = PlanRules(workers=4, conductor=True, answered=True)
CODES = {
    *("missing_list", "not_literal", "too_long", "too_many_steps", "length_mismatch"),
    *("bad_model_id", "bad_access", "bad_subtask", "empty_plan"),
}
LISTS = 'model_id = [0]\nsubtasks = ["a"]\naccess_list = [[]]\n'


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
    lists = render_plan(plan.model_copy(update={"reasoning": ""}))
    result = parse_plan(f"{thought}</think>{lists}", RULES)
    assert result.model_copy(update={"reasoning": ""}) == plan.model_copy(update={"reasoning": ""})


@given(plans(), tricky_texts())
def test_no_prose_after_it_changes_the_plan(plan: Plan, prose: str) -> None:
    prose = prose.replace("[", "(").replace("think", "")
    assert parse_plan(f"{render_plan(plan)}\n{prose}", RULES) == plan


# Each makes a text of about n characters that has cost some parser more than linear time.
FAMILIES: dict[str, Callable[[int], str]] = {
    "brackets": lambda n: "[" * n,
    "closing brackets": lambda n: "]" * n,
    "nested": lambda n: "model_id=" + "[" * (n // 2) + "]" * (n // 2),
    "pairs": lambda n: "model_id=[" + "[]" * (n // 2),
    "open lists": lambda n: "models=[" * (n // 8),
    "closed lists": lambda n: "models=[0] " * (n // 11),
    "filled lists": lambda n: ("models=[" + "0, " * 300 + "] ") * (n // 910),
    "open strings": lambda n: "models=['" * (n // 9),
    "mixed quotes": lambda n: "models=['models=[\"" * (n // 18),
    "quotes": lambda n: "models=['" + "\"'" * (n // 2),
    "triple quotes": lambda n: "models=['''" * (n // 11),
    "mixed triple quotes": lambda n: "models=['''models=[\"\"\"" * (n // 22),
    "open triple quotes": lambda n: (r"models=[\''' " + " " * 50) * (n // 63),
    "escaped quotes": lambda n: (r"models=[\" " + " " * 50) * (n // 61),
    "backslashes": lambda n: "models=['" + "\\" * n,
    "escapes in open strings": lambda n: ("models=['" + r"\'" * 25 + "\n") * (n // 60),
    "lists behind triple quotes": lambda n: (' "models=["""' + "[]" * 26) * (n // 64),
    "lists behind both quotes": lambda n: (" 'models=['''" + "[]0" * 17) * (n // 64),
    "comments": lambda n: "models=[# " * (n // 10),
    "comment lines": lambda n: "models=[\n" + "# 0,\n" * (n // 5),
    "one long string": lambda n: "models=['" + "x" * n,
    "names": lambda n: "models subtasks access_list " * (n // 28),
    "blanks after a name": lambda n: "models" + " " * n,
    "blanks after an equals sign": lambda n: "models =" + "\n" * n,
    "blanks before the lists": lambda n: " " * n + "x " + LISTS,
    "line breaks before the lists": lambda n: "\n" * n + "x " + LISTS,
    "fences before the lists": lambda n: "``` " * (n // 4) + LISTS,
    "think tags": lambda n: "<think></think>" * (n // 15) + LISTS,
    "think tags in think tags": lambda n: "<think" * (n // 7) + ">" * (n // 7) + " " + LISTS,
    "closing tags in each other": lambda n: "</think" * (n // 8) + ">" * (n // 8) + " " + LISTS,
    "names in a string": lambda n: LISTS.replace('"a"', '"' + "models=[" * (min(n, 60_000) // 8) + '"'),
}


@pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES)
def test_a_megabyte_is_read_within_seconds(make: Callable[[int], str]) -> None:
    """A hundred times what a linear parser takes, and a hundredth of what a quadratic one does."""
    assert within_cpu(5, functools.partial(check, make(1_000_000)))


class CountingPattern:
    """A compiled pattern that adds up the characters that its matches, and failed attempts at a string, went over."""

    def __init__(self, pattern: "plan_text.re.Pattern[str]") -> None:
        self.pattern, self.work = pattern, 0

    def match(self, text: str, start: int, limit: int) -> "plan_text.re.Match[str] | None":
        found = self.pattern.match(text, start, limit)
        if found:
            self.work += found.end() - start
        elif text[start] in "'\"":
            end = -1 if text[start : start + 3] in ("'''", '"""') else text.find("\n", start, limit)
            self.work += (limit if end < 0 else end) - start
        return found


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    """How many characters are scanned to find the lists of a text."""
    counting = CountingPattern(plan_text._TOKEN)
    monkeypatch.setattr(plan_text, "_TOKEN", counting)

    def scan(text: str) -> int:
        counting.work = 0
        plan_text.find_lists(text)
        return counting.work

    return scan


@pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES)
def test_characters_are_scanned_a_few_times_each(make: Callable[[int], str], scanned: Callable[[str], int]) -> None:
    for n in (50_000, 100_000):
        text = make(n)
        assert scanned(text) <= 10 * len(text)


HOSTILE = [
    "models=[",
    " models:['",
    "'",
    '"',
    "'''",
    '"""',
    "\\",
    "[]" * 10,
    "''" * 10,
    " " * 30,
    "[",
    "]",
    "\n",
    "0",
    "#",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=6).map("".join))
def test_any_text_repeated_is_scanned_a_few_times(scanned: Callable[[str], int], piece: str) -> None:
    text = piece * (5_000 // len(piece))
    assert scanned(text) <= 10 * len(text)


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
    lists = {"model_id": "0", "subtasks": '"a"', "access_list": "[]"} | {name: expression}
    check("\n".join(f"{name} = [{entry}]" for name, entry in lists.items()))
