"""`conductor train`: train a Conductor, or say what that may take. `training/` is found by name: no wheel ships it."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import click

from conductor_plugin.cli.options import Positive, json_option
from conductor_plugin.errors import InputError

STOPPED = 3
INSTALL = 'training needs more packages: pip install "prefect-conductor[train,evaluate]"'


@click.command()
@click.option("--config", "source", required=True, metavar="FILE|NAME", help="paper, adaptive, lora, cpu, … or a file.")
@click.option("--folder", metavar="DIR", help="Where the run is kept. Default: runs/NAME.")
@click.option("--quote", "quote_only", is_flag=True, help="Print what it may take, and run nothing.")
@click.option("--budget-usd", type=Positive(), help="Hard cap on the workers' calls, over all starts of the run.")
@click.option(
    "--resume/--fresh", default=True, help="Go on where the run in the folder ended, or refuse if it has one."
)
@json_option
def train(
    source: str, folder: str | None, quote_only: bool, budget_usd: float | None, resume: bool, as_json: bool
) -> int:
    """Train a Conductor by GRPO on real workflows. Exit code 3: paused by its guard, or stopped by the budget."""
    config = _training("config").load_config(source)
    if budget_usd is not None:
        config = config.model_copy(update={"budget_usd": budget_usd})
    place = Path(folder or f"runs/{Path(source).stem}")
    return _quote(config, place, as_json) if quote_only else _train(config, place, resume, as_json)


def _training(module: str) -> Any:
    """A module of `training/`. InputError `no_training` where that is not, `not_installed` where a package is not."""
    if Path("training/pipeline.py").exists() and (root := str(Path.cwd())) not in sys.path:
        sys.path.append(root)  # a checkout's root: console scripts do not look there
    try:
        return importlib.import_module(f"training.{module}")
    except ModuleNotFoundError as error:
        missing = error.name or ""
    if missing.partition(".")[0] != "training":
        raise InputError(f"{INSTALL} ({missing} is missing)", code="not_installed")
    raise InputError(
        "conductor train needs the repository's folder training/, which no wheel ships: run it from the root of a "
        "checkout, or in the image",
        code="no_training",
    )


def _quote(config: Any, folder: Path, as_json: bool) -> int:
    from conductor_plugin.calls import typical_calls

    quotes, grpo, questions = _training("quote"), _training("grpo"), _training("questions")
    pool = grpo.training_pool(config)
    asked = list(questions.load_questions(config.questions).train.values())
    offer = quotes.quote_training(config, pool, asked, typical_calls(pool), folder)
    if as_json:
        print(json.dumps({"schema": 1, "error": None, "quote": offer.model_dump(mode="json")}, ensure_ascii=False))
    else:
        print("\n".join(quotes.quote_lines(offer)))
    return 0


def _train(config: Any, folder: Path, resume: bool, as_json: bool) -> int:
    def told(step: int, figures: Any) -> None:
        names = ("reward_mean", "parse_rate", "right_given_valid", "plan_length", "worker_entropy", "dead_groups")
        shown = " ".join(f"{name} {figures[name]:.3f}" for name in names if name in figures)
        print(f"{step}/{config.grpo.iterations} {shown}", file=sys.stderr, flush=True)

    def note(sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)

    finished = _training("pipeline").run_training(config, folder, resume=resume, on_step=told, on_note=note)
    if as_json:
        print(json.dumps({"schema": 1, "error": None, "training": finished.model_dump(mode="json")}))
    else:
        print(_said(finished, folder))
    return 0 if finished.status == "finished" else STOPPED


def _said(finished: Any, folder: Path) -> str:
    if finished.status == "finished":
        return f"trained in {finished.step} iterations; the model is in {folder / 'model'}, its curves in {folder}"
    reason = f"{finished.status} after {finished.step} iterations: {finished.reason}"
    return f"{reason}; the same command goes on from {finished.checkpoint or 'the start'}"
