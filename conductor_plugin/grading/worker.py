"""A grading process: `python -P -m conductor_plugin.grading.worker`. One JSON line a request, one a reply.

It bounds itself: memory by its address space, and an answer's processor time by two timers. The first raises in
Python code; the second, for computations inside C that never come back to Python, ends the process.
"""

import json
import os
import resource
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

from conductor_plugin.grading.verdict import Verdict

CPU_SECONDS = 3.0
"""Processor time for one answer; symbolic monsters end here."""
LAST_CPU_SECONDS = 5.0
MEMORY_BYTES = 1280 * 2**20


class OutOfTime(BaseException):
    """No library's `except Exception` may swallow it."""


def judge(grader: str, gold: str, answer: str, options: list[str]) -> Verdict:
    """One answer judged in this process, in bounded time if `serve` has set the timers."""
    from conductor_plugin.grading.choice import grade_choice
    from conductor_plugin.grading.math import grade_math
    from conductor_plugin.grading.text import grade_text

    if grader == "reasoning_gym":
        return _by_family(gold, answer)
    if grader == "choice":
        return grade_choice(gold, answer, options)
    return grade_math(gold, answer) if grader == "math" else grade_text(gold, answer)


def _by_family(question: str, answer: str) -> Verdict:
    """By the family's own scorer, which needs the whole question."""
    from conductor_plugin.benchmarks.question import Question
    from conductor_plugin.benchmarks.reasoning_gym import final, score

    extracted = final(answer)
    if not extracted:
        return Verdict(outcome="unparsed")
    right = score(Question.model_validate_json(question), answer)
    return Verdict(outcome="right" if right else "wrong", extracted=extracted[:1000])


def serve() -> None:
    """Answer requests until stdin closes or the parent is gone."""
    replies = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints must not be taken for a reply
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()
    signal.signal(signal.SIGPROF, _out_of_time)
    _write(replies, b'{"ready": true}\n')
    for line in sys.stdin.buffer:
        verdict, sound = _bounded(json.loads(line))
        _write(replies, verdict.model_dump_json().encode() + b"\n")
        if not sound:
            return  # what ran out of memory halfway may have left anything behind


def _bounded(request: list[Any]) -> tuple[Verdict, bool]:
    """The verdict, and whether this process is fit for another."""
    signal.setitimer(signal.ITIMER_VIRTUAL, LAST_CPU_SECONDS)  # its signal ends the process
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS, 0.5)  # again, should the first be swallowed
    try:
        return judge(*request), True
    except OutOfTime:
        return _wrong(request, f"not equal within {CPU_SECONDS:g} s of processor time"), True
    except MemoryError:
        return _wrong(request, f"not equal within {MEMORY_BYTES >> 20} MiB of memory"), False
    except Exception as error:  # sympy raises anything at all about an answer that is none
        return _wrong(request, f"could not be compared ({type(error).__name__})"), True
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _wrong(request: list[Any], detail: str) -> Verdict:
    from conductor_plugin.grading.extract import final_answer

    signal.setitimer(signal.ITIMER_PROF, 0)
    return Verdict(outcome="wrong", extracted=final_answer(request[2]), detail=detail)


def _out_of_time(number: int, frame: FrameType | None) -> None:
    raise OutOfTime


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


if __name__ == "__main__":
    serve()
