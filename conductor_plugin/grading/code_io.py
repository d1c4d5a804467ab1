"""Code judged by inputs and outputs (LiveCodeBench): a program's stdin and stdout, a function's arguments and result.

The expected outputs never enter the sandbox: what comes out is data, compared here, so that no object can say of
itself that it is equal and no exit code counts.
"""

import json
import secrets
from decimal import Decimal, InvalidOperation
from typing import Any

from conductor_plugin.grading.answer_code import LIMITS, ended, find_code
from conductor_plugin.grading.extract import dedented
from conductor_plugin.grading.verdict import Verdict
from conductor_plugin.sandbox import run_code

MAX_NUMBER = 5000
_PRELUDE = """
from typing import *
from collections import *
from functools import *
from itertools import *
from heapq import *
from bisect import *
from math import *
import collections, functools, itertools, heapq, bisect, math, string, re, sys, random, operator, copy, datetime
from builtins import pow  # the one of math knows no modulus
sys.setrecursionlimit(50000)
"""
"""LiveCodeBench's own harness imports these names before the answer."""

_CALL = """
import json, os, sys
_out = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what the function prints is not its result
with open("call.json") as _file:
    _call = json.load(_file)
_names = {"__name__": "answer"}
with open("answer.py") as _file:
    exec(compile(_file.read(), "answer.py", "exec"), _names)
_owner = _names["Solution"]() if "Solution" in _names else None
_function = getattr(_owner, _call["function"]) if hasattr(_owner, _call["function"]) else _names[_call["function"]]
_result = _function(*_call["arguments"])
_text = json.dumps(_result, default=lambda value: sorted(value) if isinstance(value, (set, frozenset)) else list(value))
with os.fdopen(_out, "w") as _file:
    _file.write(_call["mark"] + _text)
"""


async def grade_code_io(gold: dict[str, Any], answer: str, *, allow_unsafe: bool = False) -> Verdict:
    """Run the answer's code on each test until one fails.

    gold: {"tests": [{"input", "output", "kind": "stdin" or "function"}], "function": name or None, "starter_code"}.
    A function's input has one JSON value a line for each argument, its output is JSON.
    SandboxUnavailable, SandboxFailed if the code could not be run.
    """
    code = find_code(answer)
    if code is None:
        return Verdict(outcome="unparsed", detail="the answer holds no code")
    code = dedented(code)
    if not gold["tests"]:
        return Verdict(outcome="infrastructure", extracted=code, detail="the question has no tests")
    for number, test in enumerate(gold["tests"], 1):
        run = _called if test["kind"] == "function" else _fed
        if why := await run(code, gold, test, allow_unsafe):
            return Verdict(outcome="wrong", extracted=code, detail=f"test {number} of {len(gold['tests'])}: {why}")
    return Verdict(outcome="right", extracted=code, detail=f"{len(gold['tests'])} tests")


async def _fed(code: str, gold: dict[str, Any], test: dict[str, str], allow_unsafe: bool) -> str:
    """Why a program fails a stdin test, or nothing."""
    result = await run_code(code, stdin=test["input"], limits=LIMITS, allow_unsafe=allow_unsafe)
    if result.killed_for or result.exit_code:
        return ended(result)
    return "" if same_output(test["output"], result.stdout) else "another output"


async def _called(code: str, gold: dict[str, Any], test: dict[str, str], allow_unsafe: bool) -> str:
    """Why a function fails a test, or nothing."""
    mark = secrets.token_hex(16)
    arguments = [json.loads(line) for line in test["input"].splitlines() if line.strip()]
    call = {"function": gold["function"], "arguments": arguments, "mark": mark}
    files = {"answer.py": _PRELUDE + code, "call.json": json.dumps(call)}
    result = await run_code(_CALL, files=files, limits=LIMITS, allow_unsafe=allow_unsafe)
    if not result.stdout.startswith(mark):
        return ended(result)
    try:
        value = json.loads(result.stdout[len(mark) :])
        return "" if _plain(value) == _plain(json.loads(test["output"])) else "another result"
    except (ValueError, RecursionError) as error:
        return f"a result that cannot be read ({type(error).__name__})"


def same_output(expected: str, printed: str) -> bool:
    """Line by line, without blanks at the ends: equal words, or equal numbers, with every digit that they have."""
    one, other = ([line.split() for line in text.strip().splitlines()] for text in (expected, printed))
    return len(one) == len(other) and all(map(_same_line, one, other))


def _same_line(one: list[str], other: list[str]) -> bool:
    return len(one) == len(other) and all(a == b or _same_number(a, b) for a, b in zip(one, other, strict=True))


def _same_number(one: str, other: str) -> bool:
    if max(len(one), len(other)) > MAX_NUMBER or "_" in one + other:
        return False
    try:
        return Decimal(one) == Decimal(other)
    except InvalidOperation:
        return False


def _plain(value: Any) -> Any:
    """Python takes true for 1; JSON does not."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return ("bool", value) if isinstance(value, bool) else value
