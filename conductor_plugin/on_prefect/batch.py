"""The flow `conductor-batch`: many questions in one flow run, answers written as they come.

On Prefect's SQLite default many flow runs at once stall one another; one flow run with many tasks does not.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect import flow

from conductor_plugin.budget import BUDGET, Budget
from conductor_plugin.conduct import conduct
from conductor_plugin.context import Message
from conductor_plugin.errors import InputError
from conductor_plugin.home import reason_of
from conductor_plugin.labels import label_of
from conductor_plugin.models import Frozen
from conductor_plugin.on_prefect.blocks import resolve_pool
from conductor_plugin.on_prefect.engine import prefect_engine
from conductor_plugin.on_prefect.flow import remember
from conductor_plugin.on_prefect.scope import SCOPE, flow_run_id, start_scope
from conductor_plugin.on_prefect.seal import open_seal, refuse_text, server_may_see
from conductor_plugin.on_prefect.storage import check_storage
from conductor_plugin.options import AnswerOptions, prepare
from conductor_plugin.receipt import Answer, total

# Who hears of each answer in this process (the CLI's progress bar).
ANSWERED: ContextVar[Callable[[Answer], None] | None] = ContextVar("answered", default=None)


class BatchQuestion(Frozen):
    """One line of a batch file; `id` defaults to the line's number."""

    id: str
    question: str
    history: tuple[Message, ...] = ()


class BatchSummary(Frozen):
    """What a batch came to, questions answered by an earlier start of it included."""

    questions: int
    completed: int
    not_completed: int
    answered_before: int
    cost_usd: float | None
    results: str


@flow(name="conductor-batch", persist_result=True, result_serializer="json")
async def conductor_batch(
    questions: str,
    results: str,
    pool: str | dict[str, Any] | None = None,
    options: AnswerOptions | None = None,
    concurrency: int = 8,
) -> BatchSummary:
    """Answer every question of a JSONL file, so many at a time; each answer is a line of `results` at once.

    Args:
        questions: Path of a file with a JSON object a line: `question`, and optionally `id` and `history`.
        results: Path of the file that answers are added to. Questions that it has a completed answer to are
            skipped, so that a batch goes on where it stopped.
        pool: As for the flow `conductor`.
        options: As for the flow `conductor`; the budget is for the whole batch, the deadline for each question.
        concurrency: How many questions are in progress at a time.
    """
    options = options or AnswerOptions()
    members, planner = prepare(await resolve_pool(pool), options)
    label = label_of(members, options.label)
    seal = None if server_may_see(members, label) else await open_seal(label)
    if seal and options.plan is not None:
        raise refuse_text(label)
    asked = read_batch(Path(questions))
    before = completed_ids(Path(results))
    await check_storage()
    scope = start_scope(options.reuse, seal)
    BUDGET.set(_budget(options.budget_usd, Path(results)))
    slots = asyncio.Semaphore(concurrency)
    statuses: list[str] = []  # and no more of an answer than is counted: all of them need not fit into memory
    costs: list[float | None] = []

    async def one(item: BatchQuestion) -> None:
        async with slots:
            SCOPE.set(replace(scope, question=item.id))
            answer = await conduct(
                item.question,
                pool=members,
                planner=planner,
                history=item.history,
                max_steps=options.max_steps,
                max_rounds=options.max_rounds,
                run_all=options.run_all,
                label=options.label,
                deadline_s=options.deadline_s,
                engine=prefect_engine(),
            )
        answer = answer.model_copy(update={"flow_run_id": flow_run_id()})
        append(Path(results), {"id": item.id, **answer.to_json()})
        await remember(members, answer)
        statuses.append(answer.status)
        costs.append(answer.usage.cost_usd)
        if tell := ANSWERED.get():
            tell(answer)

    try:
        async with asyncio.TaskGroup() as group:
            with seal.results() if seal else contextlib.nullcontext():
                for item in asked:
                    if item.id not in before:
                        group.create_task(one(item))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    completed = statuses.count("completed")
    return BatchSummary(
        questions=len(asked),
        completed=completed + len(before),
        not_completed=len(statuses) - completed,
        answered_before=len(before),
        cost_usd=total(costs),
        results=results,
    )


def _budget(usd: float | None, results: Path) -> Budget | None:
    """The batch's budget, less what its earlier answers took. InputError if nobody knows what one of them took."""
    if usd is None:
        return None
    budget = Budget(usd)
    for record in _records(results.read_text(encoding="utf-8"), results) if results.exists() else ():
        cost = record["usage"]["cost_usd"]
        if cost is None:
            raise InputError(
                f"nobody knows what the answer {record['id']!r} in {results} took, so that the budget cannot be "
                "kept; name another results file, or set no budget",
                code="unknown_price",
            )
        budget.count(cost)
    return budget


def append(path: Path, record: dict[str, Any]) -> None:
    """Add one line to a results file; it is in the file when this returns. InputError if it cannot be."""
    try:
        with path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(record, ensure_ascii=False) + "\n")
    except OSError as error:
        raise _unusable(path, error) from None


def _unusable(path: Path, error: Exception) -> InputError:
    reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else reason_of(error)
    return InputError(
        f"cannot keep answers in {path}: {reason}; make room there, or name another results file",
        code="results_unusable",
    )


def read_batch(path: Path) -> list[BatchQuestion]:
    """The questions of a batch file. InputError names the line that is wrong."""
    try:
        lines = _lines(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"cannot read the batch file {path}: {reason}", code="batch_unreadable") from None
    questions = [_question(number, line, path) for number, line in enumerate(lines, 1) if line.strip()]
    if not questions:
        raise InputError(f"{path} holds no question; write one JSON object a line", code="batch_bad_line")
    ids = [question.id for question in questions]
    if twice := next((name for name in ids if ids.count(name) > 1), None):
        raise InputError(f"{path}: the id {twice!r} stands twice", code="batch_bad_line")
    return questions


def _lines(text: str) -> list[str]:
    """The lines of a JSONL file; `str.splitlines` would also split at separators that JSON allows in a text."""
    return text.removesuffix("\n").split("\n") if text else []


def _question(number: int, line: str, path: Path) -> BatchQuestion:
    try:
        content = json.loads(line)
        question = BatchQuestion.model_validate({"id": str(number), **content, **_text_id(content)})
    except (ValueError, TypeError):
        question = None
    if question is None or not question.question.strip():
        raise InputError(
            f'{path}, line {number}: write a JSON object like {{"id": "q1", "question": "…"}} '
            '(optionally with "history": [{"role": …, "content": …}])',
            code="batch_bad_line",
        )
    return question


def _text_id(content: dict[str, Any]) -> dict[str, str]:
    return {"id": str(content["id"])} if isinstance(content.get("id"), int) else {}


def completed_ids(path: Path) -> set[str]:
    """The questions that a results file has completed answers to.

    A last line that a killed process left half written is cut off: its question is asked again. InputError if
    any other line is no answer, since the file then is not a batch's, or if the file takes no answers: that is
    found before any is paid for.
    """
    try:
        with path.open("ab+") as file:
            file.seek(0)
            content = file.read()
            whole = content[: content.rfind(b"\n") + 1]
            file.truncate(len(whole))
        text = whole.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(path, error) from None
    return {record["id"] for record in _records(text, path) if record["status"] == "completed"}


def _records(text: str, path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_lines(text), 1):
        try:
            record = json.loads(line)
            _ = record["id"], record["status"], record["usage"]["cost_usd"]
        except (ValueError, TypeError, KeyError):
            raise InputError(
                f"{path}, line {number} is no answer of a batch; name another results file", code="batch_bad_results"
            ) from None
        yield record
