"""How large a plan text may be, and how little work it makes: linear in its length, whatever it holds."""

import contextlib
import functools
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductor_plugin import plan_text
from conductor_plugin.errors import PlanError
from conductor_plugin.plan import Plan, PlanRules, parse_plan
from conductor_plugin.plan_text import MAX_BYTES
from tests.unit.strategies import lists, within_cpu

LISTS = lists()


def read(text: str, max_steps: int = 5) -> Plan | PlanError:
    try:
        return parse_plan(text, PlanRules(workers=4, max_steps=max_steps))
    except PlanError as error:
        return error


def code(text: str, max_steps: int = 5) -> str:
    """The code of the text's error; empty if it is a plan."""
    result = read(text, max_steps)
    return result.code if isinstance(result, PlanError) else ""


@pytest.mark.parametrize("letter", ["x", "é", "😀"])
def test_three_lists_hold_at_most_64_kib_together(letter: str) -> None:
    empty = len("[0]" + '[""]' + "[[]]")
    fits, rest = divmod(MAX_BYTES - empty, len(letter.encode()))
    assert code(lists(subtasks=f'["{letter * fits + "y" * rest}"]')) == ""
    assert code(lists(subtasks=f'["{letter * fits + "y" * rest}y"]')) == "too_long"


TOO_LONG = {
    "one string": lists(subtasks=f'["{"x" * 70_000}"]'),
    "a string over many lines": lists(subtasks='["""' + "x\n" * 40_000 + '"""]'),
    "many lines": lists(access="[\n" + "[],\n" * 20_000 + "]"),
    "two lists": lists(f"[{' ' * 40_000}0]", f'["{"x" * 40_000}"]'),
}


@pytest.mark.parametrize("text", TOO_LONG.values(), ids=TOO_LONG)
def test_longer_lists_are_refused(text: str) -> None:
    assert code(text) == "too_long"


def test_entries_are_counted_before_anything_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ast.literal_eval", lambda source: pytest.fail("evaluated"))
    error = read(lists("[" + "0," * 20_000 + "]"))
    assert isinstance(error, PlanError)
    assert (error.code, error.list_name) == ("too_many_steps", "model_id")
    assert "20000" in str(error)
    assert "5" in str(error)


def test_max_steps_is_the_callers() -> None:
    six = lists("[0,0,0,0,0,0,]", '["","","","","",""]', "[[],[],[],[],[],[]]")
    assert [code(six, n) for n in (5, 6, 7)] == ["too_many_steps", "", ""]


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
def test_a_megabyte_does_not_hang_the_parser(make: Callable[[int], str]) -> None:
    """The guard against work that the counted characters below do not see; a quadratic parser takes hours."""
    assert within_cpu(60, functools.partial(read, make(1_000_000)))


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
        with contextlib.suppress(PlanError):  # refusing a text that goes on and on is a way to stop reading it
            plan_text.find_lists(text)
        return counting.work

    return scan


@pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES)
def test_characters_are_scanned_a_few_times_each(make: Callable[[int], str], scanned: Callable[[str], int]) -> None:
    for n in (20_000, 40_000):
        text = make(n)
        assert scanned(text) <= 10 * len(text) + 4 * MAX_BYTES


PIECES = ["models=[", " models:['", *("'", '"', "'''", '"""', "\\", "[", "]", "\n", "0", "#"), "[]" * 10, " " * 30]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join))
def test_any_text_repeated_is_scanned_a_few_times(scanned: Callable[[str], int], piece: str) -> None:
    text = piece * (10_000 // len(piece))
    assert scanned(text) <= 10 * len(text) + 4 * MAX_BYTES
