"""A whole run, as `conductor train` starts it: cold start, GRPO, curves. Each start goes on where the last ended."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from conductor_plugin.cli.train import INSTALL
from conductor_plugin.errors import InputError
from conductor_plugin.home import published
from training.config import TrainConfig, check_one_run
from training.curves import plot
from training.grpo import Finished, Told, train, training_pool
from training.questions import load_questions
from training.records import Records

if TYPE_CHECKING:
    from training.trainer import LogProbs, Sampler

Say = Callable[[str], None]


def run_training(
    config: TrainConfig,
    folder: Path,
    *,
    resume: bool = True,
    on_step: Told = lambda step, figures: None,
    on_note: Say = lambda sentence: None,
) -> Finished:
    """Prepare, cold start where the configuration has one, GRPO, and curves of the log.

    Without a GPU, a Llama is sampled and scored by the fast hooks, which are tested to be equal to the plain ones.
    InputError `has_lessons`, and the errors of `train`.
    """
    check_one_run(config)
    Records(folder).begin(config, resume=resume)
    start = cold_started(config, folder, on_note) if config.cold_start else None
    sampler, log_probs = _fast(config)
    finished = train(
        config, folder, start=start, sampler=sampler, log_probs=log_probs, on_step=on_step, on_note=on_note
    )
    plot(folder)
    return finished


def cold_started(config: TrainConfig, run: Path, on_note: Say) -> Path:
    """The folder of the model that knows the format: made once in the run's folder, whole or not at all."""
    folder = run / "cold_start"
    if folder.exists():
        return folder
    try:
        from training.cold_start import cold_start
    except ImportError as error:
        raise InputError(f"{INSTALL} ({error.name} is missing)", code="not_installed") from None
    questions = list(load_questions(config.questions).train.values())

    def told(step: int, loss: float) -> None:
        if step % 50 == 0:
            on_note(f"cold start, step {step}: loss {loss:.3f}")

    return published(folder, lambda place: cold_start(config, training_pool(config), questions, place, on_step=told))


def _fast(config: TrainConfig) -> "tuple[Sampler | None, LogProbs | None]":
    """The fast hooks, on a machine without a GPU, for a Llama whose prompts are one text; else None."""
    import torch
    from transformers import AutoConfig

    from training.models import place_of

    if torch.cuda.is_available() or config.prompt.style != "short" or config.generation:
        return None, None
    if config.model.kind == "pretrained" and AutoConfig.from_pretrained(place_of(config)).model_type != "llama":
        return None, None
    from training.fast.logps import shared_log_probs
    from training.fast.sampler import FastSampler

    return FastSampler(), shared_log_probs
