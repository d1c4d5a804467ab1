"""`conductor answer --batch FILE`: many questions, one flow run, a progress bar."""

import asyncio
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from conductor_plugin.cli.screen import plain
from conductor_plugin.options import AnswerOptions


def run_batch(
    questions: str, results: str | None, pool: str | None, options: AnswerOptions, concurrency: int, as_json: bool
) -> int:
    """Answer the file's questions; 0 if all of them have an answer now, else 1."""
    results = results or str(Path(questions).with_suffix(".answers.jsonl"))
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        summary = _run(questions, results, pool, options, concurrency, progress)
    if as_json:
        print(json.dumps({"schema": 1, "error": None, "batch": summary.model_dump(mode="json")}, ensure_ascii=False))
    else:
        again = f", {summary.answered_before} of them before" if summary.answered_before else ""
        cost = "unknown" if summary.cost_usd is None else f"{summary.cost_usd:.4f}"
        print(f"{summary.completed} of {summary.questions} questions answered{again}; USD {cost}; in {results}")
    return 0 if summary.completed == summary.questions else 1


def _run(
    questions: str, results: str, pool: str | None, options: AnswerOptions, concurrency: int, progress: Progress
) -> Any:
    from conductor_plugin.on_prefect.history import embedded_server, whole_history

    async def run() -> Any:
        from conductor_plugin.on_prefect.batch import ANSWERED, completed_ids, conductor_batch, read_batch
        from conductor_plugin.on_prefect.storage import UNKEPT

        asked, before = read_batch(Path(questions)), completed_ids(Path(results))
        bar = progress.add_task("answers", total=len(asked), completed=len(before))
        ANSWERED.set(lambda answer: progress.advance(bar))
        UNKEPT.set(lambda sentence: progress.console.print(plain(sentence), style="dim", markup=False, soft_wrap=True))
        async with whole_history():
            state: Any = await conductor_batch(questions, results, pool, options, concurrency, return_state=True)
            return await state.result(raise_on_failure=False)

    with embedded_server():
        result = asyncio.run(run())
    if isinstance(result, BaseException):
        raise result
    return result
