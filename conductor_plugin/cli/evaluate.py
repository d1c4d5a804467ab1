"""`conductor evaluate`: the flow `conductor-evaluate`, run in this process with a progress bar."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import click

from conductor_plugin.cli.options import Positive, json_option, pool_options, quiet_prefect
from conductor_plugin.errors import InputError


@click.command()
@click.option("--benchmark", "benchmarks", multiple=True, required=True, metavar="NAME", help="math500, rg:gcd, …")
@click.option(
    "--system", "systems", multiple=True, metavar="NAME", help="As --planner, or all (the default), or planner."
)
@click.option("--data", metavar="FILE", help="Questions of the benchmark in its own format, instead of a download.")
@pool_options
@click.option("--repeats", default=1, show_default=True, type=click.IntRange(1, 1000))
@click.option("--limit", type=click.IntRange(min=1), help="How many questions of each benchmark.")
@click.option("--seed", default=0, show_default=True, help="Which questions.")
@click.option("--blind", is_flag=True, help="Show a prompted planner ordinals alone.")
@click.option("--judge", metavar="NAME", help="A worker that judges short answers too, beside the rules (RLPR).")
@click.option("--concurrency", default=64, show_default=True, type=click.IntRange(1, 10_000))
@click.option("--budget-usd", type=Positive(), help="Hard cap over this run and all that resume it.")
@click.option(
    "--store", metavar="URL", help="The sample store. Default: $CONDUCTOR_STORE, or SQLite in $CONDUCTOR_HOME."
)
@click.option("--retry-failed", is_flag=True, help="Make rows anew that failed for their infrastructure.")
@click.option("--quote", "quote_only", is_flag=True, help="Print what it may take, and ask nobody.")
@click.option("--out", "folder", default="evaluation", show_default=True, metavar="DIR", help="Where the report goes.")
@json_option
def evaluate(store: str | None, quote_only: bool, as_json: bool, pool_file: str | None, **given: Any) -> int:
    """Compare systems on benchmarks' questions: answer, grade, and write a report. Goes on where it stopped."""
    given["systems"] = given["systems"] or ("all",)
    if store:
        os.environ["CONDUCTOR_STORE"] = store
    quiet_prefect()
    if quote_only:
        return _quote(pool_file, as_json, **given)
    summary = _run({**given, "pool": pool_file})
    if as_json:
        print(
            json.dumps({"schema": 1, "error": None, "evaluation": summary.model_dump(mode="json")}, ensure_ascii=False)
        )
        return 0
    print(_first_lines(Path(summary.report)))
    cost, judge = ("unknown" if usd is None else f"{usd:.4f}" for usd in (summary.cost_usd, summary.judge_usd))
    costs = f"USD {cost}, the judge's {judge}" if given["judge"] else f"USD {cost}"
    print(f"{summary.rows} rows, {summary.right} right, {summary.failed} failed, {costs}; in {summary.report}")
    return 0


def _quote(pool_file: str | None, as_json: bool, **given: Any) -> int:
    from conductor_plugin.calls import typical_calls
    from conductor_plugin.evaluation.evaluate import missing_tasks
    from conductor_plugin.evaluation.judge import judge_of
    from conductor_plugin.evaluation.quote import quote_evaluation
    from conductor_plugin.evaluation.references import only_gradeable
    from conductor_plugin.evaluation.store import Store
    from conductor_plugin.on_prefect.blocks import resolve_pool
    from conductor_plugin.on_prefect.evaluate import prepare_tasks
    from conductor_plugin.quote import range_lines

    async def offer() -> Any:
        whole = await resolve_pool(pool_file)
        pool = whole.subset(given["only"], given["exclude"])
        judge = judge_of(whole, given["judge"]) if given["judge"] else None
        names = ("benchmarks", "systems", "data", "repeats", "limit", "seed", "blind")
        store = Store(os.environ.get("CONDUCTOR_STORE"))
        prepared = prepare_tasks(pool, **{name: given[name] for name in names}, judge=judge)
        tasks, _ = await only_gradeable(prepared, store, os.cpu_count() or 1)
        left = missing_tasks(tasks, store, retry_failed=given["retry_failed"])
        return await quote_evaluation(left, typical_calls(whole), concurrency=given["concurrency"])

    found = asyncio.run(offer())
    if as_json:
        print(json.dumps({"schema": 1, "error": None, "quote": found.model_dump(mode="json")}, ensure_ascii=False))
        return 0
    hours = "unknown" if found.hours is None else f"{found.hours:.2f}"
    notes = [f"note: {sentence}" for sentence in found.unknown]
    print("\n".join([f"{found.rows} rows to make", *range_lines(found), f"hours      {hours}", *notes]))
    return 0


def _run(parameters: dict[str, Any]) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from conductor_plugin.on_prefect.history import embedded_server, whole_history

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())

    async def run(progress: Progress) -> Any:
        from conductor_plugin.on_prefect.evaluate import PROGRESS, conductor_evaluate

        bar = progress.add_task("rows", total=None)
        PROGRESS.set(lambda told: progress.update(bar, total=told) if isinstance(told, int) else progress.advance(bar))
        async with whole_history():
            state: Any = await conductor_evaluate(**parameters, return_state=True)
            return await state.result(raise_on_failure=False)

    with Progress(*columns, console=console, disable=not console.is_terminal) as progress, embedded_server():
        result = asyncio.run(run(progress))
    if isinstance(result, BaseException):
        raise result
    return result


def _first_lines(report: Path) -> str:
    """The advice and the first table: what a person wants to know first."""
    try:
        text = report.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read the report {report}: {error.strerror}", code="report_missing") from None
    return "\n## ".join(text.split("\n## ")[:3])
