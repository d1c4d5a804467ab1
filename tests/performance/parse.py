"""Parsing against `ast.literal_eval` of the three lists alone; parse + compile; texts of 1 MB.

Bars: parse at most 3x literal_eval; parse + compile under 250 us; any 1 MB text under 100 ms.
"""

import ast
import contextlib
import time

from conductor_plugin.errors import PlanError
from conductor_plugin.graph import compile_plan
from conductor_plugin.plan import PlanRules, parse_plan
from tests.performance.timing import best_of

RULES = PlanRules(workers=3)
LISTS = (
    "[0, 2, 1]",
    '["Extract the quantities named in the problem and write one equation for each of them, with its unit. List what '
    'is asked.", "Solve the equations above step by step, and substitute each root back into the statement before you '
    'keep it.", "Verify the solution above against the original statement, then give the final number only, in the '
    'form asked."]',
    '[[], [0], "all"]',
)
REASONING = (
    "The problem has two parts, so one model extracts what is given and another one solves it; a third one is worth "
    "its cost as a check, since the arithmetic invites slips. "
) * 4
COMPLETION = f"<think>{REASONING}</think>\nmodel_id = {LISTS[0]}\nsubtasks = {LISTS[1]}\naccess_list = {LISTS[2]}\n"
LINES = "\nmodel_id = [0]\nsubtasks = ['a']\naccess_list = [[]]"
MEGABYTE = 10**6
HOSTILE = {
    "brackets": "[" * MEGABYTE,
    "deep list": "model_id = " + "[" * MEGABYTE + LINES,
    "unclosed lists": "models=[" * (MEGABYTE // 8),
    "unclosed strings": "models=['" * (MEGABYTE // 9),
    "mixed quotes": "models=[ ' models=[ \" " * (MEGABYTE // 22),
    "closed lists": "models=[] " * (MEGABYTE // 10),
    "an unclosed list of closed ones": "models=[ " + "models=[] " * (MEGABYTE // 10),
    "triple quotes": 'models=["""' + '""x' * (MEGABYTE // 3),
    "backslashes": 'models=["' + "\\" * MEGABYTE,
    "comments": "models=[#" * (MEGABYTE // 9),
    "valid ints": "model_id = [" + "1," * (MEGABYTE // 2) + "]\nsubtasks = ['a']\naccess_list = [[]]",
    "valid strings": "model_id = [0]\nsubtasks = [" + "'a'," * (MEGABYTE // 4) + "]\naccess_list = [[]]",
    "one long string": "model_id = [0]\nsubtasks = ['" + "a" * MEGABYTE + "']\naccess_list = [[]]",
    "long reasoning": "<think>" + "a " * (MEGABYTE // 2) + "</think>" + LINES,
    "think tags": "<think>" * (MEGABYTE // 7),
    "blanks": "models" + " " * MEGABYTE + LINES,
}


def main() -> None:
    """Print the figures."""
    literal = best_of(lambda: [ast.literal_eval(text) for text in LISTS])
    parse = best_of(lambda: parse_plan(COMPLETION, RULES))
    both = best_of(lambda: compile_plan(parse_plan(COMPLETION, RULES)))
    print(f"completion of {len(COMPLETION)} characters")
    print(f"literal_eval of its lists {literal * 1e6:.1f} us, parse {parse * 1e6:.1f} us, ratio {parse / literal:.2f}")
    print(f"parse + compile {both * 1e6:.1f} us")
    worst = max(HOSTILE, key=lambda name: _once(HOSTILE[name]))
    for name, text in HOSTILE.items():
        print(f"1 MB of {name}: {_once(text) * 1e3:.1f} ms{'  (slowest)' if name == worst else ''}")


def _once(text: str) -> float:
    started = time.perf_counter()
    with contextlib.suppress(PlanError):
        parse_plan(text, RULES)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
