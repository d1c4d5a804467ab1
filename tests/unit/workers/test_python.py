"""The Python runner: which code it finds, and what it says about running it."""

import pytest

from conductor_plugin.context import NO_ANSWER, Seen, WorkerRequest
from conductor_plugin.errors import PermanentError, TransientError
from conductor_plugin.sandbox import Limits, SandboxFailed, SandboxResult, SandboxUnavailable, probe
from conductor_plugin.worker_spec import WorkerSpec
from conductor_plugin.workers import REFUSAL, python
from tests.sandbox.machine import MUST


def spec(**params: object) -> WorkerSpec:
    # Not validated: the kind may be built, or not yet.
    return WorkerSpec.model_construct(name="python", kind="python", params=params)


def request(subtask: str = "", *outputs: str, question: str = "How much?") -> WorkerRequest:
    seen = tuple(Seen(index=i, subtask="write code", output=output) for i, output in enumerate(outputs))
    return WorkerRequest(question=question, subtask=subtask, seen=seen)


def block(code: str, mark: str = "```python") -> str:
    return f"Here it is:\n{mark}\n{code}\n{mark[:3]}\nGood luck."


@pytest.fixture
def sandbox() -> None:
    if not probe().safe:
        (pytest.fail if MUST else pytest.skip)(probe().sentence)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (request(block("a = 1")), "a = 1"),
        (request("Run this.", block("a = 1")), "a = 1"),
        (request("Run this.", block("a = 1"), block("b = 2")), "b = 2"),
        (request("Run this.", block("a = 1"), "The code is good."), "a = 1"),
        (request("Run this.", block("a = 1"), NO_ANSWER), "a = 1"),
        (request(block("c = 3"), block("a = 1"), question=block("q = 0")), "c = 3"),
        (request("Run this.", "nothing", question=block("q = 0")), "q = 0"),
        (request(block("a = 1") + "\n" + block("b = 2")), "b = 2"),
        (request(block("a = 1", "```")), "a = 1"),
        (request(block("a = 1", "```py")), "a = 1"),
        (request(block("a = 1", "```Python3")), "a = 1"),
        (request(block("a = 1", "~~~python")), "a = 1"),
        (request("1. First\n   ```python\n   if a:\n       b\n   ```"), "if a:\n    b"),
        (request("````python\nx = '''\n```\n'''\n````"), "x = '''\n```\n'''"),
        (request("```python\r\na = 1\r\nb = 2\r\n```"), "a = 1\nb = 2"),
        (request(block("a = 1") + "\n" + block("ls -l", "```bash")), "a = 1"),
        (request(block("a = 1") + "\n```python\n\n```"), "a = 1"),
        (request("print(2 + 2)"), "print(2 + 2)"),
        (request("for i in range(3):\n    print(i)", block("a = 1")), "for i in range(3):\n    print(i)"),
        (request("```python\nunfinished = "), None),
        (request(block("ls", "```bash")), None),
        (request("Call print(x) on it."), None),
        (request("What is 2 + 2?"), None),
        (request("x"), None),
        (request(""), None),
        (request("print(" * 100_000), None),
        (request("```\n" * 200_001), None),
    ],
)
def test_which_code_is_run(asked: WorkerRequest, found: str | None) -> None:
    assert python.find_code(asked) == found


async def test_no_code_is_refused_without_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object, **__: object) -> SandboxResult:
        raise AssertionError("nothing was to be run")

    monkeypatch.setattr(python, "run_code", never)
    reply = await python.answer(spec(), request("Solve it."))
    assert reply.output == REFUSAL
    assert (reply.cost_usd, reply.prompt_tokens, reply.completion_tokens, reply.model) == (0.0, 0, 0, None)


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("print(6 * 7)", "42"),
        ("print()\nprint('a\\n b')\n", "a\n b"),
        ("x = 1", python.SILENT),
        ("print('   ')", python.SILENT),
        ("print(1)\n1 / 0", "ZeroDivisionError: division by zero"),
        ("raise ValueError('two\\nlines')", "ValueError: two"),
        ("class Odd(Exception):\n    pass\nraise Odd", "Odd"),
        ("x = = 1", "SyntaxError: invalid syntax"),
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
        ("import sys\nsys.exit('wrong input')", "wrong input"),
        ("import sys\nsys.exit(3)", "exited with code 3"),
        ("import ctypes\nctypes.string_at(0)", "ended by signal SIGSEGV"),
        ("import time\ntime.sleep(9)", "timed out after 1.5 s"),
        ("x = bytearray(1 << 30)", "MemoryError"),
        ("while True:\n    print('x' * 100_000)", "stopped: it printed more than 1,048,576 bytes"),
        ("print(2 ** 20000 % 1000)", "376"),
        ("import math\nprint(len(str(math.factorial(3000))))", "9131"),
        ("print(input())", "EOFError: EOF when reading a line"),
    ],
)
@pytest.mark.usefixtures("sandbox")
async def test_what_it_says(code: str, output: str) -> None:
    reply = await python.answer(spec(timeout_s=1.5, memory_mb=256), request(block(code)))
    assert reply.output == output


@pytest.mark.usefixtures("sandbox")
async def test_long_output_is_cut() -> None:
    reply = await python.answer(spec(), request("print('x' * 100_000)"))
    assert reply.output == "x" * 20_000 + "… (80,000 more characters)"
    reply = await python.answer(spec(), request("print(0)\nraise ValueError('x' * 100_000)"))
    assert len(reply.output) < 600


@pytest.mark.usefixtures("sandbox")
async def test_memory_of_several_processes() -> None:
    code = "import os, time\nfor _ in range(3): os.fork()\nx = bytearray(os.urandom(1) * (60 << 20))\ntime.sleep(3)"
    reply = await python.answer(spec(memory_mb=128), request(block(code)))
    assert reply.output == "stopped: it took more than 128 MB of memory"


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        (
            {"timeout": 3},
            "params.timeout of worker 'python' is unknown to kind python, which takes timeout_s, memory_mb",
        ),
        ({"timeout_s": 0}, "params.timeout_s of worker 'python': input should be greater than 0"),
        ({"memory_mb": "much"}, "params.memory_mb of worker 'python': input should be a valid integer"),
    ],
)
async def test_params_are_checked(params: dict[str, object], sentence: str) -> None:
    with pytest.raises(PermanentError, match=sentence) as caught:
        await python.answer(spec(**params), request("print(1)"))
    assert caught.value.code == "bad_request"


async def test_params_reach_the_sandbox_and_errors_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[object] = []

    async def run(code: str, *, limits: Limits, allow_unsafe: bool) -> SandboxResult:
        called.append((code, limits.timeout_s, limits.memory_bytes, allow_unsafe))
        raise (SandboxUnavailable if len(called) == 1 else SandboxFailed)("install it")

    monkeypatch.setattr(python, "run_code", run)
    params = {"timeout_s": 2, "memory_mb": 64, "allow_unsafe": True}
    for error, code in ((PermanentError, "no_sandbox"), (TransientError, "sandbox_failed")):
        with pytest.raises(error, match="install it") as caught:
            await python.answer(spec(**params), request("print(1)"))
        assert caught.value.code == code
    assert called[0] == ("print(1)", 2.0, 64 * 2**20, True)
