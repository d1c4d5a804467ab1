"""The Python runner: runs the code that its instruction, a visible step or the question holds, in a sandbox.

The code is the last fenced block (``` or ~~~, marked python, py or not at all) of the instruction; else of the
latest visible step that has one; else of the question. An instruction that is itself Python with a call of print
counts, too.
The answer is what the code prints, or one line that says how it failed.

    params: {timeout_s: 10, memory_mb: 512, allow_unsafe: false}

`allow_unsafe` runs code that a model wrote with the rights of this process, where no safe sandbox is.
"""

import ast
import textwrap

from pydantic import Field, ValidationError

from conductor_plugin.code_blocks import python_blocks
from conductor_plugin.context import WorkerReply, WorkerRequest
from conductor_plugin.errors import PermanentError, TransientError
from conductor_plugin.models import Frozen
from conductor_plugin.sandbox import Limits, SandboxFailed, SandboxResult, SandboxUnavailable, run_code
from conductor_plugin.sandbox.model import MIB
from conductor_plugin.worker_spec import WorkerSpec
from conductor_plugin.workers import REFUSAL

MAX_OUTPUT = 20_000
"""Characters of an answer: what the other tools take as input."""
MAX_ERROR = 500
MAX_BARE = 20_000
SILENT = "The code ran without an error and printed nothing."

_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}


class Params(Frozen):
    """What a pool file may set: seconds on the clock, MiB of memory, and whether code may run unconfined."""

    timeout_s: float = Field(default=10.0, gt=0, le=3600)
    memory_mb: int = Field(default=512, ge=32, le=65_536)
    allow_unsafe: bool = False


async def answer(spec: WorkerSpec, request: WorkerRequest) -> WorkerReply:
    """What the code prints, stripped and cut at MAX_OUTPUT characters; the refusal if there is no code. Costs nothing.

    PermanentError `no_sandbox` where no backend is safe and `allow_unsafe` is not set, `bad_request` for params;
    TransientError `sandbox_failed` where a sandbox could not be started.
    """
    params = _params(spec)
    code = find_code(request)
    if code is None:
        return WorkerReply(output=REFUSAL)
    limits = Limits(timeout_s=params.timeout_s, memory_bytes=params.memory_mb * MIB)
    try:
        result = await run_code(code, limits=limits, allow_unsafe=params.allow_unsafe)
    except SandboxUnavailable as error:
        raise PermanentError(str(error), code=error.code) from None
    except SandboxFailed as error:
        raise TransientError(str(error), code=error.code) from None
    return WorkerReply(output=_told(result, limits))


def find_code(request: WorkerRequest) -> str | None:
    """The code that the request asks to run, or None."""
    for text in (request.subtask, *(step.output for step in reversed(request.seen)), request.question):
        if blocks := _blocks(text):
            return blocks[-1]
        if text is request.subtask and _is_bare_code(text):
            return text
    return None


def _blocks(text: str) -> list[str]:
    """The closed blocks of Python, without what their lines are all indented by."""
    return [textwrap.dedent(code) for code, closed in python_blocks(text) if closed]


def _is_bare_code(text: str) -> bool:
    """Whether it is Python, and not a sentence that happens to be: it prints something."""
    if "print(" not in text or len(text) > MAX_BARE:
        return False
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(isinstance(function, ast.Name) and function.id == "print" for function in calls)


def _told(result: SandboxResult, limits: Limits) -> str:
    if result.killed_for == "time":
        return f"timed out after {limits.timeout_s:g} s"
    if result.killed_for == "memory":
        return f"stopped: it took more than {limits.memory_bytes // MIB} MB of memory"
    if result.killed_for == "output":
        return f"stopped: it printed more than {limits.output_bytes:,} bytes"
    if result.killed_for is not None:
        return f"stopped: it wrote too much ({result.killed_for})"
    if result.exit_code:
        return _error(result)
    output = result.stdout.strip()
    if len(output) > MAX_OUTPUT:
        return f"{output[:MAX_OUTPUT]}… ({len(output) - MAX_OUTPUT:,} more characters)"
    return output or SILENT


def _error(result: SandboxResult) -> str:
    """The line that names the exception: the first of the last traceback that is not indented."""
    if result.exit_code > 128 and not result.stderr.strip():
        number = result.exit_code - 128
        return f"ended by signal {_SIGNALS.get(number, number)}"
    lines = [line.rstrip() for line in result.stderr.splitlines() if line.strip()]
    if not lines:
        return f"exited with code {result.exit_code}"
    start = max((i for i, line in enumerate(lines) if line.startswith("Traceback (")), default=-1) + 1
    traced = start > 0 or lines[0].startswith("  File ")
    line = next((line for line in lines[start:] if traced and not line[0].isspace()), lines[-1].strip())
    return line if len(line) <= MAX_ERROR else f"{line[:MAX_ERROR]}…"


def _params(spec: WorkerSpec) -> Params:
    try:
        return Params.model_validate(spec.params)
    except ValidationError as error:
        first = error.errors()[0]
        name = f"params.{first['loc'][0]} of worker {spec.name!r}"
        if first["type"] == "extra_forbidden":
            sentence = f"{name} is unknown to kind python, which takes {', '.join(Params.model_fields)}"
        else:
            sentence = f"{name}: {first['msg'][0].lower()}{first['msg'][1:]}"
        raise PermanentError(sentence, code="bad_request") from None
