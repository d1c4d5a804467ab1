"""What the proof on two cores trained, as the folder that the package brings: model, families, model card."""

import shutil
from pathlib import Path

from conductor_plugin.benchmarks import reasoning_gym
from conductor_plugin.planners.known import Known
from conductor_plugin.planners.manifest import TrainedRules
from conductor_plugin.pool import Pool
from training.config import TrainConfig
from training.export import Precision, export
from training.families import TRAINED, questions
from training.items import WORDINGS
from training.known import fit_known

TRIED = 24
"""Held-out questions that the export must plan as torch does."""
WORDED = 60
"""Questions of each family from which its wording is learnt."""
LIMITS = {
    "scratch": "It plans what these families ask, in words like theirs, and was measured on no other questions. "
    "A question of three parts gets two steps: training has none of three.",
    "pretrained": "It plans what these families ask, and was measured on no other questions. It has not learnt to ask "
    "in turn: a chained question gets one step, which is wrong, where it is not refused.",
}
PRECISIONS: dict[str, Precision] = {"scratch": "fp32", "pretrained": "fp16"}
RECIPES = {
    "scratch": "`make learn`: a tokenizer and a Llama from nothing, a cold start on the format alone, and GRPO on the "
    "grades of whole workflows in stages (`training/README.md`). Its instructions to workers are four fixed phrases.",
    "pretrained": "`python -m training.learn --config smollm2`: an adapter (LoRA), a cold start on the format alone, "
    "and GRPO on the grades of whole workflows in stages (`training/README.md`). Its instructions to workers are four "
    "fixed phrases and sentences of the question.",
}


def ship(config: TrainConfig, model: Path, folder: Path, pool: Pool, run: str, figures: str) -> Path:
    """Export the model to the folder, which is given back, in the place of an earlier run's. InputError as `export`."""
    shutil.rmtree(folder, ignore_errors=True)
    asked = [question.text for question in questions("held-out", TRIED // len(TRAINED))]
    export(
        model,
        folder,
        pool=pool,
        questions=asked,
        run=run,
        prompt=config.prompt,
        rules=TrainedRules.model_validate(config.rules.model_dump()),
        max_tokens=config.grpo.max_completion_tokens,
        families=known_families(),
        taught=taught_families(config),
        precision=PRECISIONS[config.model.kind],
        card={
            "data": "Items of reasoning-gym in three wordings, alone and in chains of two (`training/families.py`).",
            "recipe": RECIPES[config.model.kind],
            "figures": figures,
            "limits": LIMITS[config.model.kind],
        },
    )
    return folder


def known_families() -> Known:
    """The families that training may see, by their wording; strangers are reasoning-gym's families of other items."""
    inside = {family.name: [question.text for question in questions("train", WORDED, [family])] for family in TRAINED}
    items = {f"rg:{item}" for item in WORDINGS}
    strangers = {
        name: [question.text for question in reasoning_gym.load(name, limit=4)]
        for name in reasoning_gym.families()
        if name not in items
    }
    return fit_known(inside, strangers)


def taught_families(config: TrainConfig) -> list[str]:
    """Those that the configuration's lessons are about: a model that learnt single questions plans no chained ones."""
    subjects = {lesson.subject for lesson in config.lessons}
    return [family.name for family in TRAINED if subjects & {None, "chained" if family.chained else "single"}]
