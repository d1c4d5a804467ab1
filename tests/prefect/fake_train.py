"""The flow `conductor-train`, whose stages are the stand-in of tests/training/fake_trainer.py: no model is trained.

The parameter `config` is what its GRPO stage does, a script of that file.
"""

import sys

import training.flow
from training.flow import conductor_train


def fake_command(stage, options):
    script = options.config if stage == "grpo" else "done"
    return [sys.executable, "-m", "tests.training.fake_trainer", stage, options.folder, script]


training.flow.stage_command = fake_command

__all__ = ["conductor_train"]
