"""What each stage of a training run does: prepare -> cold start -> GRPO -> evaluate -> register.

The first three are what `conductor train` does (`pipeline`). The run's folder is the only thing that stages share (see
`grpo` for what GRPO keeps in it):

    cold_start/         the model that GRPO starts from, where the configuration has a cold start
    model/              what GRPO made of it
    planner/            the same, exported for `--planner conductor:FOLDER`
    evaluation.sqlite   samples and rows of the held-out questions, so that nothing is paid for twice
"""

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.errors import BudgetError, ConductorError, InputError
from conductor_plugin.evaluation.evaluate import System, evaluate, tasks_of
from conductor_plugin.evaluation.ledger import Ledger
from conductor_plugin.evaluation.rows import Row
from conductor_plugin.evaluation.statistics import accuracy, marks, mean_of, parse_rate
from conductor_plugin.evaluation.store import Store
from conductor_plugin.planners import DEFAULT_TEMPLATE
from conductor_plugin.planners.base import Planner
from conductor_plugin.planners.default_conductor import default_folder
from conductor_plugin.planners.known import Known
from conductor_plugin.planners.manifest import TrainedRules, read_manifest
from conductor_plugin.planners.named import conductor_in
from conductor_plugin.planners.template import TemplatePlanner, fill, load_template
from conductor_plugin.planners.trained_conductor import places_in
from conductor_plugin.pool import Pool
from conductor_plugin.worker_spec import digest
from training.config import TrainConfig, check_one_run, load_config
from training.models import OF_THE_PACKAGE, is_adapter
from training.questions import load_questions
from training.supervise import Stage, StageOptions, read_result, result_path, write_json

Result = dict[str, Any]
CANDIDATE, CURRENT = "candidate", "current"
AT_ONCE = 64
WORST_RATE = 0.05  # of a detector of known families that is worth having
TRIED = 8  # held-out questions that an export must plan as torch does


def settings(options: StageOptions) -> TrainConfig:
    """The configuration with what the options override."""
    config = load_config(options.config)
    return config if options.budget_usd is None else config.model_copy(update={"budget_usd": options.budget_usd})


def prepare(options: StageOptions) -> Result:
    """Read all that the run needs. InputError for whatever can be seen to be wrong before anything is paid for."""
    from training.grpo import training_pool

    config = settings(options)
    check_one_run(config)
    pool, split = training_pool(config), load_questions(config.questions)
    return {
        "workers": [worker.name for worker in pool.workers],
        "train": len(split.train),
        "held_out": len(split.held_out),
        "iterations": config.grpo.iterations,
        "rollouts": config.groups * config.grpo.rollouts,
    }


def start_cold(options: StageOptions) -> Result:
    """The cold start, where the configuration has one."""
    from training.pipeline import cold_started

    config = settings(options)
    return {"start": str(cold_started(config, Path(options.folder), print)) if config.cold_start else config.model.name}


def learn(options: StageOptions) -> Result:
    """GRPO, from its last checkpoint where there is one. ConductorError `paused` if the guard pauses it."""
    from training.pipeline import run_training

    finished = run_training(settings(options), Path(options.folder), on_note=print)
    if finished.status == "paused":
        raise ConductorError(f"the guard paused the run after step {finished.step}: {finished.reason}", code="paused")
    if finished.status == "stopped_budget":
        raise BudgetError(finished.reason, code="budget")
    return {"steps": finished.step}


def judge(options: StageOptions) -> Result:
    """Export what was learnt, and answer the held-out questions with it and with the planner that it would replace."""
    from training.grpo import training_pool

    config, folder = settings(options), Path(options.folder)
    if (kind := _kind(config, folder / "model")) is not None:
        return {"skipped": f"{kind} is not exported: whole Llamas, and adapters on {OF_THE_PACKAGE}, run as a planner"}
    pool, held_out = training_pool(config), list(load_questions(config.questions).held_out.values())
    if not held_out:
        return {"skipped": "no set of questions has held_out, so that there is nothing to judge it by"}
    candidate = conductor_in(str(_exported(config, pool, held_out, folder)))
    planners: dict[str, Planner] = {CANDIDATE: candidate, CURRENT: current_planner(pool)}
    rows = _answered(config, pool, planners, held_out, folder)
    return {name: _figures([row for row in rows if row.system == name]) for name in planners} | {
        "rows": [row.model_dump(mode="json") for row in rows]
    }


def register(options: StageOptions) -> Result:
    """Make the candidate the default planner if it was asked for, and if it beats the current one by the margin."""
    from training.promote import decide, promote

    folder = Path(options.folder)
    judged = read_result(folder, "evaluate") or {}
    if "skipped" in judged:
        return {"promoted": False, "sentence": judged["skipped"]}
    rows = [Row.model_validate(row) for row in judged.get("rows", ())]
    ours, theirs = ([row for row in rows if row.system == name] for name in (CANDIDATE, CURRENT))
    decision = decide(ours, theirs, options.margin)
    if not options.promote:
        return {"promoted": False, "sentence": f"promotion was not asked for; {decision.sentence}"}
    if not decision.promote:
        return {"promoted": False, "sentence": decision.sentence}
    place = promote(folder / "planner", decision.model_dump(mode="json"))
    return {"promoted": True, "sentence": decision.sentence, "folder": str(place)}


FUNCTIONS: Mapping[Stage, Callable[[StageOptions], Result]] = {
    "prepare": prepare,
    "cold-start": start_cold,
    "grpo": learn,
    "evaluate": judge,
    "register": register,
}


def done(stage: Stage, options: StageOptions) -> Result:
    """What the stage came to; it is done now if it is not yet, and its result left in the folder."""
    path = result_path(Path(options.folder), stage)
    if (found := read_result(Path(options.folder), stage)) is None:
        found = FUNCTIONS[stage](options)
        if os.environ.get("RANK", "0") == "0":  # of several processes, one speaks for all
            write_json(path, found)
    return found


def _kind(config: TrainConfig, model: Path) -> str | None:
    """What a saved model is, in words; None if it is something that this package runs."""
    if is_adapter(model):
        return None if config.model.name == OF_THE_PACKAGE else f"an adapter on {config.model.name}"
    architecture = json.loads((model / "config.json").read_text(encoding="utf-8"))["model_type"]
    return None if architecture == "llama" else str(architecture)


def _exported(config: TrainConfig, pool: Pool, held_out: Sequence[Question], folder: Path) -> Path:
    from training.export import export

    target = folder / "planner"
    if target.exists():
        return target
    export(
        folder / "model",
        target,
        pool=pool,
        questions=[question.text for question in held_out[:TRIED]],
        run=f"{folder.resolve().name}-{digest([str(folder.resolve()), config.model_dump(mode='json')], 8)}",
        prompt=config.prompt,
        rules=TrainedRules.model_validate(config.rules.model_dump()),
        max_tokens=config.grpo.max_completion_tokens,
        subsets=config.subsets is not None,
        families=_known(config),
        card={"data": ", ".join(str(one.name or one.file) for one in config.questions)},
    )
    return target


def _known(config: TrainConfig) -> Known | None:
    """The families of questions that it was trained on, a benchmark being one; strangers are reasoning-gym's others.

    None where a family has too few questions, or where wording does not tell families from others (a benchmark of
    people's questions has no wording of its own): a planner must not refuse by a guess that errs so often.
    """
    from conductor_plugin.benchmarks import reasoning_gym
    from training.known import FEWEST, fit_known

    inside: dict[str, list[str]] = {}
    for question in load_questions(config.questions).train.values():
        inside.setdefault(question.benchmark, []).append(question.text)
    if any(len(texts) < FEWEST for texts in inside.values()):
        return None
    others = [name for name in reasoning_gym.families() if name not in inside]
    known = fit_known(inside, {name: [q.text for q in reasoning_gym.load(name, limit=4)] for name in others})
    return known if max(known.rates.false_reject, known.rates.false_accept) <= WORST_RATE else None


def current_planner(pool: Pool) -> Planner:
    """What a candidate would replace: the default Conductor if it fits the pool, else the pool's template, or solve."""
    spec = pool.planner
    workers = spec.workers if spec else ()
    try:
        places_in(pool, read_manifest(default_folder()), workers, "the default")
        return conductor_in(workers=workers)
    except InputError:
        pass
    name = spec.name if spec and spec.kind == "template" and spec.name else DEFAULT_TEMPLATE
    try:
        fill(load_template(name), pool, name)
    except InputError:  # the run's pool may lack workers that the template names
        name = DEFAULT_TEMPLATE
    return TemplatePlanner(template=name)


def _answered(
    config: TrainConfig, pool: Pool, planners: Mapping[str, Planner], questions: Sequence[Question], folder: Path
) -> list[Row]:
    from conductor_plugin.grading import Graders

    systems = [
        System(name, planner, pool, max_rounds=config.rules.max_rounds, max_steps=config.rules.max_steps)
        for name, planner in planners.items()
    ]
    store = Store(f"sqlite:///{folder / 'evaluation.sqlite'}")
    budget = None if config.budget_usd is None else Ledger(config.budget_usd, store, "evaluation")

    async def answer() -> list[Row]:
        async with Graders(processes=os.cpu_count() or 1) as graders:
            tasks = tasks_of(systems, questions, 1)
            return await evaluate(tasks, store=store, grader=graders, concurrency=AT_ONCE, budget=budget)

    try:
        return asyncio.run(answer())
    finally:
        store.close()


def _figures(rows: Sequence[Row]) -> Result:
    found = accuracy(marks(rows))
    return {
        "accuracy": found.mean if found else None,
        "questions": found.questions if found else 0,
        "parse_rate": parse_rate(rows),
        "calls": mean_of(rows, "calls"),
        "steps": mean_of(rows, "steps"),
    }
