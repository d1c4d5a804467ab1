"""GRPO on real workflows: `train(config, folder)` runs, or goes on where an earlier start was killed.

folder/config.json           what is trained; another configuration is refused
folder/checkpoints/          TRL's; the last complete one is resumed from
folder/calls.sqlite, tape/   what was paid for and what was sampled, so that nothing is paid for twice
folder/ledger.sqlite         what the budget has seen
folder/log.jsonl             the figures of each step
folder/rollouts.jsonl        each completion with its plan, reward, calls and cost
folder/model/                the trained model and its tokenizer
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.budget import Budget
from conductor_plugin.cli.train import INSTALL
from conductor_plugin.errors import BudgetError, InputError
from conductor_plugin.evaluation.evaluate import Grader
from conductor_plugin.models import Frozen
from conductor_plugin.pool import Pool, load_pool
from training.arguments import grpo_arguments
from training.config import TrainConfig
from training.generation import not_there
from training.guard import measure, reason_to_pause
from training.paid import PaidCalls
from training.questions import load_questions, rows
from training.records import Records, last_checkpoint
from training.reward import Outcome, Rewarder, Rollout
from training.tape import Tape

if TYPE_CHECKING:
    from training.rehearsal import Rehearsal
    from training.trainer import LogProbs, Sampler

Told = Callable[[int, Mapping[str, float]], None]


class Finished(Frozen):
    """How a start of a run ended; after `paused` or `stopped_budget` another start goes on from the checkpoint."""

    status: Literal["finished", "paused", "stopped_budget"]
    step: int
    reason: str = ""
    checkpoint: str | None = None


def train(
    config: TrainConfig,
    folder: Path,
    *,
    start: Path | str | None = None,
    resume: bool = True,
    questions: Mapping[str, Question] | None = None,
    grader: Callable[[], Grader] | None = None,
    sampler: "Sampler | None" = None,
    log_probs: "LogProbs | None" = None,
    rehearsal: "Rehearsal | None" = None,
    on_step: Told = lambda step, figures: None,
    on_note: Callable[[str], None] = lambda sentence: None,
) -> Finished:
    """Run GRPO to its end, to a pause, or to the end of its budget.

    Args:
        start: Folder of the model to start from, a cold start's say; default: the configuration's `model.name`.
        resume: Go on from the last complete checkpoint, if there is one; else the folder must be new.
        questions: Instead of those that the configuration names.
        grader: Makes the grader, in the event loop that it is used in; default: `Graders`.
        sampler, log_probs: Faster ones than TRL's, see `trainer`.
        rehearsal: What of the cold start is held in place.
        on_step: Told the figures of each step.
        on_note: Told sentences for a person: what was screened out, a parse rate that is low.

    InputError `not_installed`, `config_changed`, `folder_used`, `parse_rate_low`, `nothing_to_learn`, and those of the
    pool and the questions.
    """
    records = Records(folder, _process())
    records.begin(config, resume=resume)
    pool = training_pool(config)
    asked = dict(questions) if questions is not None else load_questions(config.questions).train
    rewarder = make_rewarder(config, pool, asked, folder, grader)
    hooks = {"sampler": sampler, "log_probs": log_probs, "rehearsal": rehearsal}
    try:
        return _train(config, records, rewarder, start, hooks, on_step, on_note)
    finally:
        rewarder.paid.close()


def _process() -> int:
    """Which of the launcher's processes this is."""
    return int(os.environ.get("RANK", "0"))


def training_pool(config: TrainConfig) -> Pool:
    """The pool that the configuration names."""
    pool = load_pool(None if config.pool == "embedded" else config.pool).subset(config.only)
    pool.check_keys(leave_out="by naming the others in the configuration's `only`")
    return pool


def make_rewarder(
    config: TrainConfig,
    pool: Pool,
    questions: Mapping[str, Question],
    folder: Path,
    grader: Callable[[], Grader] | None = None,
) -> Rewarder:
    """The rewards of a run, with what its folder remembers of calls and budget."""
    return Rewarder(
        config,
        pool,
        questions,
        paid=PaidCalls(folder / "calls.sqlite"),
        grader=grader or _graders,
        budget=_ledger(config, pool, folder),
    )


def _graders() -> Grader:
    from conductor_plugin.grading import Graders

    return Graders(processes=os.cpu_count() or 1)


def _ledger(config: TrainConfig, pool: Pool, folder: Path) -> Budget | None:
    """The cap over all starts of the run; InputError if a price that it needs is unknown."""
    if config.budget_usd is None:
        return None
    from conductor_plugin.evaluation.ledger import Ledger
    from conductor_plugin.evaluation.store import Store
    from conductor_plugin.planners import make_planner
    from conductor_plugin.pricing import check_priced

    check_priced(pool, make_planner(pool, "random"))
    return Ledger(config.budget_usd, Store(f"sqlite:///{folder / 'ledger.sqlite'}"), "training")


def _train(
    config: TrainConfig,
    records: Records,
    rewarder: Rewarder,
    start: Path | str | None,
    hooks: Mapping[str, Any],
    on_step: Told,
    on_note: Callable[[str], None],
) -> Finished:
    try:
        from datasets import Dataset
        from transformers import PrinterCallback

        from training.before import open_gate, screened
        from training.models import load_model, place_of
        from training.trainer import ConductorTrainer
    except ImportError as error:
        raise InputError(f"{INSTALL} ({error.name} is missing)", code="not_installed") from None
    if start is None and config.model.kind == "scratch":
        raise InputError("a model from scratch starts from its cold start; give its folder", code="bad_option")
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # rollout_func is young; the tests watch it
    arguments = grpo_arguments(config, records.checkpoints)
    checkpoint = last_checkpoint(records.checkpoints)
    if _step_of(checkpoint) == config.grpo.iterations and (records.folder / "model").exists():
        return Finished(status="finished", step=config.grpo.iterations, checkpoint=str(checkpoint))
    model, tokenizer, adapter = load_model(config, start or place_of(config))
    tape = Tape(records.folder / "tape", arguments.process_index)
    watch = _watch(config, records, tape, on_step)
    try:
        trainer = ConductorTrainer(
            config=config,
            rewarder=rewarder,
            tape=tape,
            **hooks,
            model=model,
            processing_class=tokenizer,
            peft_config=adapter,
            reward_funcs=[rewarder.reward_function(_keeper(config, records, rewarder.pool))],
            train_dataset=Dataset.from_list(rows(config, rewarder.pool, rewarder.questions)),
            args=arguments,
            callbacks=[watch],
        )
    except (ImportError, ConnectionError) as error:
        raise not_there(config.generation, error) from None
    trainer.remove_callback(PrinterCallback)
    records.rewind(_step_of(checkpoint))
    try:
        if checkpoint is None:
            open_gate(trainer, on_note)
        kept = screened(trainer, records.folder)
        if len(kept) < len(rewarder.questions):
            trainer.train_dataset = Dataset.from_list(rows(config, rewarder.pool, kept))
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    except BudgetError as error:
        return _ended(trainer, records, "stopped_budget", str(error))
    finally:
        trainer.begin(rewarder.close()).result()
    if watch.reason:
        return _ended(trainer, records, "paused", watch.reason)
    trainer.save_model(str(records.folder / "model"))
    tokenizer.save_pretrained(str(records.folder / "model"))
    return _ended(trainer, records, "finished", "")


def _ended(trainer: Any, records: Records, status: Any, reason: str) -> Finished:
    checkpoint = last_checkpoint(records.checkpoints)
    step = int(trainer.state.global_step)
    return Finished(status=status, step=step, reason=reason, checkpoint=str(checkpoint) if checkpoint else None)


def _step_of(checkpoint: Path | None) -> int:
    return int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0


def _keeper(
    config: TrainConfig, records: Records, pool: Pool
) -> Callable[[Sequence[Rollout], Sequence[Outcome]], Mapping[str, float]]:
    """Writes a batch's rollouts down and measures them."""
    size, names = config.grpo.rollouts, [worker.name for worker in pool.workers]

    def keep(rollouts: Sequence[Rollout], outcomes: Sequence[Outcome]) -> Mapping[str, float]:
        records.rollouts(rollouts, outcomes)
        return measure([outcomes[i : i + size] for i in range(0, len(outcomes), size)], names)

    return keep


def _watch(config: TrainConfig, records: Records, tape: Tape, on_step: Told) -> Any:
    """The callback that logs each step, marks checkpoints as complete, and pauses the run where the guard says so."""
    from accelerate import PartialState
    from transformers import TrainerCallback

    class Watch(TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.history: list[Mapping[str, float]] = []
            self.reason: str | None = None

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.began = time.perf_counter()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if "parse_rate" not in logs:
                return
            figures = {name: value for name, value in logs.items() if isinstance(value, int | float)}
            figures["seconds/step"] = time.perf_counter() - self.began
            if state.is_world_process_zero:
                records.log(state.global_step, figures)
                on_step(state.global_step, figures)
            self.history.append(figures)  # equal in all processes: those that share a run must pause it together
            self.reason = reason_to_pause(self.history, config.guard)
            if self.reason:
                control.should_training_stop = control.should_save = True

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            PartialState().wait_for_everyone()  # each process writes a part
            if state.is_world_process_zero:
                records.mark(state.global_step)
            tape.forget(state.global_step)

    return Watch()
