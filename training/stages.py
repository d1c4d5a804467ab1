"""What each stage of a training run does: prepare -> cold start -> GRPO -> evaluate -> register.

The run's folder is the only thing that they share (see `grpo` for what GRPO keeps in it):

    cold-start/         the model that GRPO starts from, where the configuration has a cold start
    model/              what GRPO made of it
    planner/            the same, exported for `--planner conductor:FOLDER`
    evaluation.sqlite   samples and rows of the held-out questions, so that nothing is paid for twice
"""

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from conductor_plugin.errors import BudgetError, ConductorError, InputError
from conductor_plugin.evaluation.evaluate import System, evaluate, tasks_of
from conductor_plugin.evaluation.rows import Row
from conductor_plugin.evaluation.store import Store
from conductor_plugin.evaluation.tables import share
from conductor_plugin.planners.base import Planner
from conductor_plugin.planners.default_conductor import default_folder
from conductor_plugin.planners.manifest import PromptSettings, TrainedRules, read_manifest
from conductor_plugin.planners.named import conductor_in
from conductor_plugin.planners.trained_conductor import check_pool
from conductor_plugin.pool import Pool
from training.config import TrainConfig, load_config
from training.questions import Split, load_questions
from training.supervise import Stage, StageOptions, read_result

Result = dict[str, Any]
AT_ONCE = 64


def settings(options: StageOptions) -> TrainConfig:
    """The configuration with what the options override."""
    config = load_config(options.config)
    return config if options.budget_usd is None else config.model_copy(update={"budget_usd": options.budget_usd})
