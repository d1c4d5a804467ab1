"""Judging answers: one call for every kind of question.

    async with Graders(processes=2) as graders:
        verdict = await graders.grade(question, answer)

Math, multiple choice and text are judged in worker processes, code in sandboxes; the event loop only waits.
"""

import asyncio
import hashlib
import json
from collections import OrderedDict
from types import TracebackType

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.grading.code_io import grade_code_io
from conductor_plugin.grading.code_tests import grade_code_tests
from conductor_plugin.grading.processes import GradingProcess, ProcessLost
from conductor_plugin.grading.verdict import Verdict
from conductor_plugin.sandbox import SandboxFailed, SandboxUnavailable

CACHED = 50_000
MAX_ANSWER = 1_000_000
_CANARY = ("math", r"\frac{1}{2}", r"\boxed{0.5}", ())


class Graders:
    """Grading processes and sandboxes, at most `processes` of both at a time; nothing starts before it is needed.

    `allow_unsafe` runs answers' code with the rights of this process where no safe sandbox is. Use it in one
    event loop. Verdicts are remembered by question and answer, but for `infrastructure`.
    """

    def __init__(self, processes: int = 2, *, allow_unsafe: bool = False) -> None:
        if processes < 1:
            raise ValueError("processes must be at least 1")
        self._all = [GradingProcess() for _ in range(processes)]
        self._idle = list(self._all)
        self._turn = asyncio.Semaphore(processes)
        self._allow_unsafe = allow_unsafe
        self._verdicts: OrderedDict[bytes, Verdict] = OrderedDict()

    async def __aenter__(self) -> "Graders":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the processes. Another `grade` would start new ones."""
        for process in self._all:
            await process.stop()

    async def grade(self, question: Question, answer: str) -> Verdict:
        """What the question's grader says of an answer, the whole text that a model gave.

        Never raises for what an answer holds or does. `infrastructure` if it could not be judged: no sandbox, or
        grading processes that end although the answer is not to blame. Cancelling ends what runs for it.
        """
        # Half a surrogate pair is no text, and comes from models all the same.
        answer = answer[-MAX_ANSWER:].encode("utf-8", "replace").decode()
        key = _key(question, answer)
        if key in self._verdicts:
            self._verdicts.move_to_end(key)
            return self._verdicts[key]
        async with self._turn:
            verdict = await self._judge(question, answer)
        if verdict.outcome != "infrastructure":
            self._verdicts[key] = verdict
            if len(self._verdicts) > CACHED:
                self._verdicts.popitem(last=False)
        return verdict

    async def _judge(self, question: Question, answer: str) -> Verdict:
        if question.grader not in ("code_io", "code_tests"):
            return await self._in_process(question, answer)
        grade_code = grade_code_io if question.grader == "code_io" else grade_code_tests
        try:
            return await grade_code(question.gold, answer, allow_unsafe=self._allow_unsafe)
        except (SandboxUnavailable, SandboxFailed) as error:
            return Verdict(outcome="infrastructure", detail=str(error))

    async def _in_process(self, question: Question, answer: str) -> Verdict:
        """Twice if need be. What ends a process both times is the answer, if a fresh one then judges another."""
        process = self._idle.pop()
        try:
            for _ in range(2):
                try:
                    return await process.judge(question.grader, _gold(question), answer, question.options)
                except ProcessLost as error:
                    why = str(error)
            try:
                well = (await process.judge(*_CANARY)).outcome == "right"
            except ProcessLost:
                well = False
            if well:
                return Verdict(outcome="wrong", detail=f"comparing it ended two grading processes ({why})")
            return Verdict(outcome="infrastructure", detail=f"no grading process works ({why})")
        finally:
            self._idle.append(process)


def _gold(question: Question) -> str:
    """What a grading process is told of what is right; a family's scorer reads the whole question."""
    return question.model_dump_json() if question.grader == "reasoning_gym" else str(question.gold)


def _key(question: Question, answer: str) -> bytes:
    gold = question.gold if question.grader in ("code_io", "code_tests") else _gold(question)
    content = json.dumps([question.grader, gold, question.options, answer], sort_keys=True)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()
