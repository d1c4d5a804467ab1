"""The code of an answer, and what a sandboxed run of it looks like from outside."""

import re

from conductor_plugin.grading.extract import dedented, last_code_block
from conductor_plugin.sandbox import Limits, SandboxResult
from conductor_plugin.sandbox.model import MIB

LIMITS = Limits(timeout_s=10.0, memory_bytes=1024 * MIB, processes=128, open_files=256, output_bytes=8 * MIB)
"""For one test of a set's stdin tests; unit tests get more time."""


_CODE_LINE = re.compile(
    r"^(?:import \w|from [\w.]+ import |(?:async )?def \w+\(|class \w+[:(]|print\(|\w+ = |[ \t]+return\b)", re.MULTILINE
)

_FUTURE = re.compile(r"^from __future__ import .*$", re.MULTILINE)


def find_code(answer: str) -> str | None:
    """The last block of Python, else the whole answer if it looks like nothing but code.

    Nothing here compiles it: that is for the sandbox, since it may take long, or all of the stack.
    """
    block = last_code_block(answer)
    if block is not None:
        return block
    return answer if "```" not in answer and _CODE_LINE.search(answer) else None


def programs(prompt: str, code: str, entry_point: str) -> list[str]:
    """What the whole program may be, the likeliest first; the first that compiles is run.

    Code that defines the function stands after the prompt all the same: the sets' prompts hold imports and helpers
    that it may lean on. Other code completes the prompt, and may have lost the indent of its lines or of the first.
    """
    whole = dedented(code)
    if re.search(
        rf"^(?:(?:async )?def {re.escape(entry_point)}\s*\(|{re.escape(entry_point)}\s*=)", whole, re.MULTILINE
    ):
        first = "".join(f"{line}\n" for line in _FUTURE.findall(whole))  # they must stand before all else
        rest = _FUTURE.sub("", whole)
        return [f"{first}{prompt}\n    pass\n\n{rest}", f"{first}{prompt}\n\n{rest}", whole]
    return [f"{prompt}{body}" for body in (code, _indented(whole), f"    {code.lstrip()}")]


def ended(result: SandboxResult) -> str:
    """How a run that gave no result ended, in a few words."""
    if result.killed_for:
        return f"stopped for its {result.killed_for}"
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    return f"{lines[-1].strip()[:200]}" if lines else f"ended early with code {result.exit_code}"


def _indented(code: str) -> str:
    return "".join(f"    {line}" if line.strip() else line for line in code.splitlines(keepends=True))
