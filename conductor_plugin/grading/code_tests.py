"""Code judged by unit tests: HumanEval's check(candidate) and BigCodeBench's unittest.TestCase."""

import ast
import json
import secrets
from pathlib import Path
from typing import Any

from conductor_plugin.grading.answer_code import ended, find_code, programs
from conductor_plugin.grading.verdict import Verdict
from conductor_plugin.sandbox import Limits, SandboxResult, run_code
from conductor_plugin.sandbox.model import MIB

LIMITS = Limits(timeout_s=60.0, memory_bytes=4096 * MIB, disk_bytes=256 * MIB, processes=256, open_files=512)
CHECK_LIMITS = LIMITS.model_copy(update={"timeout_s": 15.0})
"""HumanEval's references take a tenth of a second."""
_CHECK = Path(__file__).with_name("inside_check.py").read_text()
_UNITTEST = Path(__file__).with_name("inside_unittest.py").read_text()


async def grade_code_tests(gold: dict[str, Any], answer: str, *, allow_unsafe: bool = False) -> Verdict:
    """Run the tests on the answer's last block of Python, a completion of the prompt or the whole function.

    gold: {"test": source of the tests, "entry_point", "prompt": what is to be completed, "style": "check" or
    "unittest"}. SandboxUnavailable, SandboxFailed if nothing could be run.
    """
    code = find_code(answer)
    if code is None:
        return Verdict(outcome="unparsed", detail="the answer holds no code")
    whole = programs(gold["prompt"], code, gold["entry_point"])
    return await grade_programs(gold, whole, extracted=code, allow_unsafe=allow_unsafe)


async def grade_programs(
    gold: dict[str, Any], programs: list[str], *, extracted: str | None = None, allow_unsafe: bool = False
) -> Verdict:
    """The same for whole programs, of which the first that compiles is run as it is."""
    run = _check if gold["style"] == "check" else _unittest
    why = await run(gold, programs, allow_unsafe)
    return Verdict(outcome="wrong" if why else "right", extracted=extracted, detail=why)


async def _check(gold: dict[str, Any], programs: list[str], allow_unsafe: bool) -> str:
    """Why it fails, or nothing."""
    mark = secrets.token_hex(16)
    job = {
        "entry_point": gold["entry_point"],
        "prompt": _prelude(gold["prompt"]),
        "test": gold["test"],
        "mark": mark,
    }
    code = f"{_CHECK}\nmain({job!r})\n"
    result = await run_code(
        code, files={"answer.json": json.dumps(programs)}, limits=CHECK_LIMITS, allow_unsafe=allow_unsafe
    )
    report = _report(result, mark)
    return ended(result) if report is None else "" if report.strip() == "passed" else report.strip()


async def _unittest(gold: dict[str, Any], programs: list[str], allow_unsafe: bool) -> str:
    """Why it fails, or nothing."""
    mark = secrets.token_hex(16)
    job = {"entry_point": gold["entry_point"], "programs": programs, "test": gold["test"], "mark": mark}
    code = f"{_UNITTEST}\nmain({job!r})\n"
    result = await run_code(code, limits=LIMITS, allow_unsafe=allow_unsafe)
    report = _report(result, mark)
    if report is None:
        return ended(result)
    try:
        told = json.loads(report)
    except ValueError:
        return "something else was written to the report"
    expected = count_tests(gold["test"])
    if told["run"] == told["successes"] == expected and not told["said"]:
        return ""
    return told["said"] or f"{told['successes']} of {expected} tests succeeded, {told['run']} ran"


def _report(result: SandboxResult, mark: str) -> str | None:
    """What stands after the mark; None unless the run came so far, and reported once."""
    if result.killed_for or result.stdout.count(mark) != 1:
        return None
    return result.stdout.split(mark)[1]


def count_tests(source: str) -> int:
    """How many test methods the classes of a test file have: what must have run, whoever reports it."""
    classes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    found = {
        (name, method.name)
        for name, node in classes.items()
        for method in node.body
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.name.startswith("test")
    }
    return len(found)


def _prelude(prompt: str) -> str:
    """The prompt's imports and helpers, which the tests call as well; its last function without a body."""
    for text in (prompt, f"{prompt}\n    pass\n"):
        try:
            compile(text, "prompt.py", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
        return text
    return ""
