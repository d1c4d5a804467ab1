"""Which questions can be graded here: the reference solutions of a code benchmark are run before anybody is asked.

What a reference needs may be missing (a library, the network, a display). No answer could be right then, so that
such questions are neither asked nor counted, and the report says how many are left.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import distributions

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.errors import ConductorError
from conductor_plugin.evaluation.evaluate import Task
from conductor_plugin.evaluation.store import Store
from conductor_plugin.evaluation.tables import Table
from conductor_plugin.grading.selfcheck import run_references
from conductor_plugin.grading.verdict import Verdict
from conductor_plugin.models import Frozen
from conductor_plugin.worker_spec import digest


class References(Frozen):
    """Of one benchmark: how many questions have a reference, and why those cannot be graded whose reference fails."""

    benchmark: str
    questions: int
    failed: dict[str, str]

    @property
    def sentence(self) -> str:
        """What the report says."""
        left = self.questions - len(self.failed)
        return (
            f"{self.benchmark}: {left} of {self.questions} gradeable here, and only those were asked and count; of the "
            "others the reference solution itself fails."
        )


async def only_gradeable(tasks: Sequence[Task], store: Store, processes: int) -> tuple[list[Task], list[References]]:
    """The tasks whose questions can be graded here, and what was found about each benchmark that has references.

    `processes` of them are run at a time. The store keeps their verdicts: they are run again only where the
    environment is another one. ConductorError `nothing_gradeable` if no question is left.
    """
    questions = {task.question.id: task.question for task in tasks}
    checked = [q for q in questions.values() if q.grader == "code_tests" and "reference" in q.metadata]
    here, turn = _environment() if checked else "", asyncio.Semaphore(processes)

    async def judged(question: Question) -> Verdict:
        async with turn:
            return await _verdict(question, store, here)

    verdicts = await asyncio.gather(*map(judged, checked))
    failed = {q.id: v.detail for q, v in zip(checked, verdicts, strict=True) if v.outcome != "right"}
    if failed and len(failed) == len(questions):
        [(why, _)] = Counter(failed.values()).most_common(1)
        raise ConductorError(
            f"none of the {len(questions)} questions can be graded here, since their reference solutions fail; most "
            f"often: {why}",
            code="nothing_gradeable",
        )
    found = []
    for benchmark, count in Counter(question.benchmark for question in checked).items():
        own = {q.id: failed[q.id] for q in checked if q.benchmark == benchmark and q.id in failed}
        found.append(References(benchmark=benchmark, questions=count, failed=own))
    return [task for task in tasks if task.question.id not in failed], found


async def _verdict(question: Question, store: Store, here: str) -> Verdict:
    key = digest([here, question.gold, question.metadata["reference"]], 64)
    if (kept := await store.aget("reference", key)) is not None:
        return Verdict.model_validate(kept)
    program = question.gold["prompt"] + question.metadata["reference"]
    found = await run_references([question], [program], processes=1)
    verdict = found.failed.get(question.id, Verdict(outcome="right"))
    if verdict.outcome != "infrastructure":
        await store.aput("reference", key, verdict.model_dump(mode="json"), question=digest(question.id))
    return verdict


def _environment() -> str:
    """What decides whether a program runs: the interpreter and what is installed."""
    return digest([sys.version, sorted({(one.name, one.version) for one in distributions()})])


def reference_failures(found: Sequence[References]) -> list[Table]:
    """Why references fail here, the most frequent reason first."""
    lines = [
        (references.benchmark, why, count)
        for references in found
        for why, count in sorted(Counter(references.failed.values()).items(), key=lambda item: (-item[1], item[0]))
    ]
    return (
        [Table("Why reference solutions fail here", ("benchmark", "the last it said", "questions"), lines)]
        if lines
        else []
    )
