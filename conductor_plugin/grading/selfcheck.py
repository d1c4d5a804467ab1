"""Graders judged: gold against gold, and which references this machine can run at all."""

import asyncio
from collections.abc import Sequence

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.grading.code_tests import grade_programs
from conductor_plugin.grading.graders import Graders
from conductor_plugin.grading.verdict import Verdict
from conductor_plugin.models import Frozen
from conductor_plugin.sandbox import SandboxFailed, SandboxUnavailable


class SelfCheck(Frozen):
    """How many questions there are, and the verdicts of those whose own gold is not right."""

    questions: int
    failed: dict[str, Verdict]

    @property
    def gradeable(self) -> int:
        """How many questions can be graded here; only they count in a report."""
        return self.questions - len(self.failed)


async def gold_against_gold(questions: Sequence[Question], graders: Graders) -> SelfCheck:
    r"""Judge each question's gold text as an answer: in a box for math, after "Answer:" for the others."""

    def said(question: Question) -> str:
        return rf"\boxed{{{question.gold}}}" if question.grader == "math" else f"Answer: {question.gold}"

    verdicts = await asyncio.gather(*(graders.grade(question, said(question)) for question in questions))
    return _found(questions, verdicts)


async def run_references(
    questions: Sequence[Question], references: Sequence[str], *, processes: int = 2, allow_unsafe: bool = False
) -> SelfCheck:
    """Run each reference program (the whole program, prompt included) through its question's `code_tests`."""
    if len(questions) != len(references):
        raise ValueError("there must be one reference for each question")
    turn = asyncio.Semaphore(processes)

    async def judge(question: Question, program: str) -> Verdict:
        async with turn:
            try:
                return await grade_programs(question.gold, [program], allow_unsafe=allow_unsafe)
            except (SandboxUnavailable, SandboxFailed) as error:
                return Verdict(outcome="infrastructure", detail=str(error))

    verdicts = await asyncio.gather(*map(judge, questions, references))
    return _found(questions, verdicts)


def _found(questions: Sequence[Question], verdicts: Sequence[Verdict]) -> SelfCheck:
    pairs = zip(questions, verdicts, strict=True)
    failed = {question.id: verdict for question, verdict in pairs if verdict.outcome != "right"}
    return SelfCheck(questions=len(questions), failed=failed)
