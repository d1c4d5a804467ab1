"""Runs inside the sandbox: HumanEval's check(candidate), with the answer's code in a process of its own.

The tests see a stand-in, and the results that come back are data (marshal knows no other types): no object
of the answer is ever compared, and nothing that the answer's process prints or exits with is a report. The report
goes to this process's stdout, after a mark that the other process never sees. Standard library only.
"""

from __future__ import annotations

import builtins
import ctypes
import marshal
import subprocess
import sys
from typing import Any

PR_SET_DUMPABLE = 4
MAX_REPLY = 2**26

ANSWER = r"""
import json, marshal, os, sys
requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
sys.path[:], entry = marshal.loads(requests.read(int.from_bytes(requests.read(8), "big")))
null = os.open(os.devnull, os.O_RDWR)
os.dup2(null, 0)
os.dup2(null, 1)

def plain(value, depth=0):
    for kind in (bool, int, float, complex, str, bytes, type(None)):
        if isinstance(value, kind):
            return value if type(value) is kind else kind(value)
    if depth > 100:
        raise TypeError("the result is nested too deep")
    if isinstance(value, dict):
        return {plain(name, depth + 1): plain(item, depth + 1) for name, item in value.items()}
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            return kind([plain(item, depth + 1) for item in value])
    if type(value).__module__ == "numpy":
        return plain(value.tolist(), depth + 1)
    raise TypeError(f"a result of type {type(value).__name__} cannot be compared")

def compiled(programs):
    for program in programs[:-1]:
        try:
            return compile(program, "answer.py", "exec", dont_inherit=True)
        except Exception:
            pass
    return compile(programs[-1], "answer.py", "exec", dont_inherit=True)

names = {"__name__": "answer"}
with open("answer.json", encoding="utf-8") as file:
    programs = json.load(file)
exec(compiled(programs), names)
function = names[entry]
while True:
    try:
        arguments, named = marshal.loads(requests.read(int.from_bytes(requests.read(8), "big")))
    except EOFError:
        break
    try:
        reply = marshal.dumps(["value", plain(function(*arguments, **named))])
    except Exception as error:
        reply = marshal.dumps(["error", type(error).__name__, str(error)[:1000]])
    replies.write(len(reply).to_bytes(8, "big") + reply)
    replies.flush()
"""


class Answer:
    """The function under test, in the other process."""

    def __init__(self, entry_point: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-X", "utf8", "-X", "int_max_str_digits=0", "-c", ANSWER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        self._send([list(sys.path), entry_point])

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        assert self._process.stdout is not None
        self._send([arguments, named])
        size = int.from_bytes(self._process.stdout.read(8), "big")
        if not 0 < size <= MAX_REPLY:
            raise AssertionError("the answer's process gave no result")
        kind, *content = marshal.loads(self._process.stdout.read(size))
        if kind == "value":
            return content[0]
        error = getattr(builtins, str(content[0]), RuntimeError)
        raise (error if isinstance(error, type) and issubclass(error, Exception) else RuntimeError)(content[1])

    def _send(self, content: list[Any]) -> None:
        assert self._process.stdin is not None
        message = marshal.dumps(content)
        try:
            self._process.stdin.write(len(message).to_bytes(8, "big") + message)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise AssertionError("the answer's process has ended") from None


def main(job: dict[str, Any]) -> None:
    """Run check on the stand-in; say "passed", or what failed."""
    # The answer's process runs as the same user: it must not read this one's memory or descriptors.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    answer = Answer(job["entry_point"])
    names: dict[str, Any] = {"__name__": "tests"}
    try:
        exec(compile(job["prompt"], "prompt.py", "exec", dont_inherit=True), names)
        names[job["entry_point"]] = answer
        exec(compile(job["test"], "tests.py", "exec", dont_inherit=True), names)
        names["check"](answer)
        said = "passed"
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"[:500]
    print(job["mark"] + said, flush=True)
