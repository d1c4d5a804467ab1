"""The code of an answer, and what a sandboxed run of it looks like from outside."""

from conductor_plugin.grading.extract import dedented, last_code_block
from conductor_plugin.sandbox import Limits, SandboxResult
from conductor_plugin.sandbox.model import MIB

LIMITS = Limits(timeout_s=10.0, memory_bytes=1024 * MIB, processes=128, open_files=256, output_bytes=8 * MIB)
"""For one test of a set's stdin tests; unit tests get more time."""


def find_code(answer: str) -> str | None:
    """The last block of Python, else the whole answer if it is nothing but code."""
    block = last_code_block(answer)
    if block is not None:
        return block
    return answer if answer.strip() and "```" not in answer and _compiles(dedented(answer)) else None


def completed(prompt: str, code: str, entry_point: str) -> str:
    """The whole program: the code if it defines the function itself, else the prompt continued by the code.

    The prompt stands before a whole function, too: the sets' prompts hold imports and helpers that it may lean on.
    """
    whole = dedented(code)
    if f"def {entry_point}(" in whole and _compiles(whole):
        return f"{prompt}\n    pass\n\n{whole}" if _compiles(f"{prompt}\n    pass\n") else whole
    for body in (code, _indented(whole)):
        if _compiles(prompt + body):
            return prompt + body
    return f"{prompt}{code}"


def ended(result: SandboxResult) -> str:
    """How a run that gave no result ended, in a few words."""
    if result.killed_for:
        return f"stopped for its {result.killed_for}"
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    return f"{lines[-1].strip()[:200]}" if lines else f"ended early with code {result.exit_code}"


def _indented(code: str) -> str:
    return "".join(f"    {line}" if line.strip() else line for line in code.splitlines(keepends=True))


def _compiles(code: str) -> bool:
    try:
        compile(code, "answer.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return False
    return True
