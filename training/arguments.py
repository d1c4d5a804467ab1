"""From a configuration to TRL's arguments. Where a figure of the recipe differs from TRL's default, it is set here.

The paper's GRPO averages over each completion's tokens, then over completions (`loss_type` grpo; TRL's default is
dapo), divides by the group's deviation (`scale_rewards` group), and makes one update from what it has sampled
(`num_iterations` 1), so that clipping at 0.2 binds only where the sampler's probabilities differ from the model's.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from conductor_plugin.errors import InputError
from training.config import TrainConfig
from training.generation import vllm_arguments

if TYPE_CHECKING:
    from trl import GRPOConfig


def grpo_arguments(config: TrainConfig, folder: Path, *, processes: int | None = None) -> "GRPOConfig":
    """The arguments of a run whose checkpoints go to `folder`.

    InputError `bad_batch` if the batches do not come out, `bad_generation` as `vllm_arguments`.

    `processes` is how many share an iteration (default: as the launcher says).
    """
    import torch
    from trl import GRPOConfig

    spec = config.grpo
    count = processes or _world_size()
    backward, rows = batches(config, count)
    return GRPOConfig(
        output_dir=str(folder),
        max_steps=spec.iterations,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=backward,
        steps_per_generation=backward,
        num_generations=spec.rollouts,
        num_iterations=1,
        max_completion_length=spec.max_completion_tokens,
        temperature=spec.temperature,
        top_p=1.0,
        top_k=0,
        learning_rate=spec.lr,
        lr_scheduler_type=spec.schedule,
        warmup_steps=spec.warmup_ratio,
        optim="adamw_torch",
        adam_beta1=spec.betas[0],
        adam_beta2=spec.betas[1],
        weight_decay=0.0,
        beta=spec.beta,
        epsilon=spec.clip,
        loss_type="grpo",
        scale_rewards="group",
        importance_sampling_level="token",
        mask_truncated_completions=False,
        entropy_coef=spec.entropy_bonus,
        gradient_checkpointing=spec.gradient_checkpointing,
        bf16=spec.bf16,
        seed=spec.seed,
        shuffle_dataset=False,  # `questions.rows` has the order, and a second round behind its first
        use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=torch.cuda.is_available(),
        logging_steps=1,
        logging_first_step=False,
        save_strategy="steps",
        save_steps=spec.save_every,
        save_total_limit=2,
        report_to="none",
        disable_tqdm=True,
        **vllm_arguments(config.generation, count),
    )


def batches(config: TrainConfig, processes: int) -> tuple[int, int]:
    """(backward passes of one optimiser step, rows that one process reads for each of them).

    Of the rows that are read, those of spare groups are left out again before the backward passes, which then have
    `grpo.batch` completions each.
    """
    spec = config.grpo
    if processes > 1 and (config.sampling.spare or config.sampling.screen or spec.by_length):
        raise InputError(
            "sampling.spare, sampling.screen and grpo.by_length need one process, which sees whole groups",
            code="bad_batch",
        )
    if config.recursion and (spec.questions % processes or config.forced % processes):
        raise InputError(
            f"recursion needs as many whole questions, and forced ones, in each of the {processes} processes: "
            f"{spec.questions} questions with {config.forced} forced do not come out; use fewer processes",
            code="bad_batch",
        )
    trained = (spec.questions + config.forced) * spec.rollouts
    read = config.groups * spec.rollouts
    if trained % (spec.batch * processes) or read % (trained // spec.batch):
        raise InputError(
            f"grpo.batch {spec.batch} on {processes} processes does not divide the {trained} completions of an "
            f"iteration ({read} with the spare ones); choose one that does",
            code="bad_batch",
        )
    backward = trained // (spec.batch * processes)
    return backward, read // (backward * processes)


def _world_size() -> int:
    """As the launcher says. Asking accelerate would set up its state before TRL's arguments do, which know how."""
    return int(os.environ.get("WORLD_SIZE", "1"))
