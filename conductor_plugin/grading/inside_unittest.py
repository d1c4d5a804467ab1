"""Runs inside the sandbox: BigCodeBench's unittest.TestCase, in one process with the answer's code.

They must share it: the tests patch what the code imports and look at objects that it returns. So the report goes
to a descriptor of its own after a mark, with the number of tests that ran and succeeded; stdout is nobody's word.
Against an answer that searches this process's memory for the mark there is no defence in one process; against
the known cheats there is: printing, early exits, skips, patched test classes, results that say they are equal.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import types
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

MAX_LOOKED_AT = 10_000


class Result(unittest.TestResult):
    """Counts successes, which neither a skip nor an expected failure is."""

    def __init__(self) -> None:
        super().__init__()
        self.successes = 0
        self.first = ""

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.successes += 1

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self.first = self.first or f"{test}: {err[0].__name__}: {err[1]}"
        super().addError(test, err)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.first = self.first or f"{test}: {err[1]}"
        super().addFailure(test, err)


def main(job: dict[str, Any]) -> None:
    """Run the tests on the answer; report how many ran and succeeded, and what failed first."""
    report, this_process = os.dup(1), os.getpid()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    module = types.ModuleType("__test__")
    module.__file__ = os.path.join(os.getcwd(), "__test__.py")
    sys.modules["__test__"] = module
    watched = (unittest.TestCase, unittest.TestResult, unittest.TestSuite, unittest.TestLoader, Result)
    before = [dict(vars(kind)) for kind in watched]
    result, said = Result(), ""
    try:
        exec(compiled(job["programs"]), module.__dict__)
        entry = job["entry_point"]
        module.__dict__[entry] = honest(module.__dict__[entry])
        exec(compile(job["test"], "tests.py", "exec", dont_inherit=True), module.__dict__)
        unittest.TestLoader().loadTestsFromModule(module).run(result)
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
    if any(before[n] != dict(vars(kind)) for n, kind in enumerate(watched)):
        said = "the answer changed unittest"
    if os.getpid() != this_process:
        os._exit(0)  # the answer forked: one report is enough
    told = {"run": result.testsRun, "successes": result.successes, "said": (said or result.first)[:500]}
    os.write(report, (job["mark"] + json.dumps(told)).encode())
    os._exit(0)  # threads that the answer left running are not waited for


def compiled(programs: list[str]) -> types.CodeType:
    """The first that compiles; the error of the last if none does."""
    for program in programs[:-1]:
        with contextlib.suppress(Exception):
            return compile(program, "answer.py", "exec", dont_inherit=True)
    return compile(programs[-1], "answer.py", "exec", dont_inherit=True)


def honest(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, refusing results that decide themselves what they are equal to."""
    if not isinstance(function, types.FunctionType):
        return function

    @functools.wraps(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        look(result, [MAX_LOOKED_AT])
        return result

    return wrapper


def look(value: Any, left: list[int], depth: int = 0) -> None:
    """AssertionError for an object, in containers as well, whose comparison the answer wrote."""
    left[0] -= 1
    if left[0] < 0 or depth > 5:
        return
    kind = type(value)
    if any(_is_own(kind, name) for name in ("__eq__", "__ne__")):
        raise AssertionError(f"the answer returns a {kind.__name__}, which says itself what it is equal to")
    if isinstance(value, dict):
        value = [*dict.keys(value), *dict.values(value)]
    elif isinstance(value, (set, frozenset)):
        value = list(value)
    if isinstance(value, (list, tuple)):
        for item in value:
            look(item, left, depth + 1)


def _is_own(kind: type, name: str) -> bool:
    method = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    if issubclass(kind, mock.NonCallableMock):
        return type(method).__name__ not in ("MagicProxy", "wrapper_descriptor")
    if kind.__module__ == "unittest.mock":
        return kind.__name__ == "_ANY"
    code = getattr(method, "__code__", None)
    # Libraries lie in files outside of the work directory; generated methods of theirs belong to their modules.
    if code is None or (os.path.isabs(code.co_filename) and not code.co_filename.startswith(os.getcwd())):
        return not isinstance(method, (types.FunctionType, types.WrapperDescriptorType, type(None))) and (
            kind.__module__ == "__test__"
        )
    return kind.__module__ not in sys.modules or kind.__module__ == "__test__" or code.co_filename == "answer.py"
