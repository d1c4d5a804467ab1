"""`conductor train-baseline`: the compared routers that learn, trained on a benchmark's questions."""

import asyncio
import os
from pathlib import Path

import click

from conductor_plugin.cli.options import Positive, pool_options


@click.command("train-baseline")
@click.argument("name")
@click.option("--benchmark", "benchmarks", multiple=True, required=True, metavar="NAME", help="Train on its questions.")
@click.option("--data", metavar="FILE", help="Questions of the benchmark in its own format, instead of a download.")
@pool_options
@click.option("--limit", type=click.IntRange(min=1), help="How many questions of each benchmark.")
@click.option("--seed", default=0, show_default=True, help="Which questions, and the training's own draws.")
@click.option("--encoder", default="tfidf", show_default=True, help="tfidf, minilm, or a Hugging Face model.")
@click.option(
    "--iterations",
    type=click.IntRange(min=1),
    help="Passes over the questions (masrouter, default 5) or generations of 32 x 16 runs (trinity, default 60).",
)
@click.option("--budget-usd", type=Positive(), help="Hard cap on the workers' calls.")
@click.option("--store", metavar="URL", help="The sample store. Default: $CONDUCTOR_STORE, or SQLite in its home.")
@click.option("--out", "folder", required=True, metavar="DIR", help="Where it is saved; then --planner NAME:DIR.")
def train_baseline(
    name: str,
    benchmarks: tuple[str, ...],
    data: str | None,
    pool_file: str | None,
    only: tuple[str, ...],
    exclude: tuple[str, ...],
    limit: int | None,
    seed: int,
    encoder: str,
    iterations: int | None,
    budget_usd: float | None,
    store: str | None,
    folder: str,
) -> int:
    """Train NAME: smoothie, routerdc, masrouter or trinity. Samples that are in the store are not paid for again."""
    from conductor_plugin import benchmarks as sets
    from conductor_plugin.budget import BUDGET, Budget
    from conductor_plugin.errors import InputError
    from conductor_plugin.evaluation.store import Store
    from conductor_plugin.evaluation.train import BASELINES, Trials
    from conductor_plugin.evaluation.train import train_baseline as train
    from conductor_plugin.grading import Graders
    from conductor_plugin.planners import make_planner
    from conductor_plugin.pool import load_pool
    from conductor_plugin.pricing import check_priced

    if name not in BASELINES:
        raise InputError(f"there is no baseline {name!r} to train; there are {', '.join(BASELINES)}", code="bad_option")
    if data and len(benchmarks) != 1:
        raise InputError("--data is a file of one benchmark; name that one alone", code="bad_option")
    pool = load_pool(pool_file).subset(only, exclude)
    pool.check_keys()
    if budget_usd is not None:
        check_priced(pool, make_planner(pool, "random"))
    path = Path(data) if data else None
    questions = [q for one in benchmarks for q in sets.load(one, data=path, limit=limit, seed=seed)]

    async def run() -> None:
        BUDGET.set(Budget(budget_usd) if budget_usd is not None else None)
        async with Graders(processes=os.cpu_count() or 1) as graders:
            trials = Trials(pool, questions, Store(store or os.environ.get("CONDUCTOR_STORE")), graders)
            await train(
                name,
                pool,
                questions,
                trials,
                encoder=encoder,
                seed=seed,
                folder=Path(folder),
                iterations=iterations,
            )

    asyncio.run(run())
    print(f"{name} is trained on {len(questions)} questions and lies in {folder}; use --planner {name}:{folder}")
    return 0
