"""The flows `conductor-train` and `conductor-retrain`: the stages of a training run, each a task with its own process.

    prepare -> cold start -> GRPO -> evaluate -> register

What a stage came to lies in the run's folder, so that a run that is started again, by an automation or a person, goes
on with the stage that was not finished, and GRPO from its last checkpoint.
"""

from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.client.schemas.objects import State
from prefect.events import emit_event
from prefect.states import Failed

from conductor_plugin.errors import InputError
from conductor_plugin.models import Frozen
from conductor_plugin.on_prefect.crashes import refuse_crash_loop
from conductor_plugin.on_prefect.scope import flow_run_id
from conductor_plugin.options import Positive
from training.progress import Progress
from training.supervise import Stage, StageFailed, StageOptions, accelerate_file, run_stage, stage_command

PAUSED = "conductor.training.paused"
RESTARTS = 3
RESTART_SECONDS = 2.0  # the memory that killed a process may be free again


class TrainingSummary(Frozen):
    """What a training run came to: the steps of GRPO, held-out accuracies as shares, and whether it was promoted."""

    folder: str
    steps: int
    accuracy: float | None
    current_accuracy: float | None
    promoted: bool
    sentence: str


@flow(name="conductor-train", persist_result=True, result_serializer="json")
async def conductor_train(
    config: str,
    folder: str,
    budget_usd: Positive | None = None,
    promote: bool = False,
    margin: float = 0.02,
    processes: int | None = None,
    accelerate: str | None = None,
) -> TrainingSummary | State[TrainingSummary]:
    """Train a Conductor: prepare, cold start, GRPO, evaluate, register. Run again, it goes on where it was.

    Args:
        config: A configuration's name (`cpu`, `paper`, …) or the path of a YAML file.
        folder: Where the run keeps everything; one folder is one run. On storage that outlives the machine, if the
            run is to go on on another one.
        budget_usd: A hard cap over all starts of the run, instead of the configuration's.
        promote: Make it the default planner if it beats the current one on the held-out questions.
        margin: By how much it must, as a share.
        processes: How many processes share GRPO's steps, one for each GPU. Default: one, or as `accelerate` says.
        accelerate: How they are launched: a file of training/accelerate by its name (`2-gpus`, …), or a path.
    """
    await refuse_crash_loop()
    if not 0 <= margin < 1:
        raise InputError(f"margin is a share between 0 and 1, not {margin}", code="bad_option")
    if processes is not None and processes < 1:
        raise InputError(f"processes is at least 1, not {processes}", code="bad_option")
    if accelerate is not None:
        accelerate_file(accelerate)
    options = StageOptions(
        config=config,
        folder=folder,
        budget_usd=budget_usd,
        promote=promote,
        margin=margin,
        processes=processes,
        accelerate=accelerate,
    )
    return await _all_stages(options)


@flow(name="conductor-retrain", persist_result=True, result_serializer="json")
async def conductor_retrain(
    config: str,
    folder: str,
    budget_usd: Positive | None = None,
    margin: float = 0.02,
    processes: int | None = None,
    accelerate: str | None = None,
) -> TrainingSummary | State[TrainingSummary]:
    """Train anew, in a folder of its own inside `folder`, and promote what is better; for a schedule.

    Args:
        config: As for `conductor-train`.
        folder: The runs' folders are made in it, each named after its flow run.
        budget_usd: As for `conductor-train`, for this run alone.
        margin: As for `conductor-train`.
        processes, accelerate: As for `conductor-train`.
    """
    run = flow_run_id() or "local"
    whole: Any = conductor_train.fn
    summary: TrainingSummary | State[TrainingSummary] = await whole(
        config,
        str(Path(folder) / run),
        budget_usd=budget_usd,
        promote=True,
        margin=margin,
        processes=processes,
        accelerate=accelerate,
    )
    return summary


async def _all_stages(options: StageOptions) -> TrainingSummary | State[TrainingSummary]:
    try:
        prepared = await _stage("prepare", options)
        await _stage("cold-start", options)
        learnt = await _stage("grpo", options, prepared["iterations"])
        judged = await _stage("evaluate", options)
        registered = await _stage("register", options)
    except StageFailed as error:
        if error.code != "paused":
            raise
        tell_paused(options.folder, str(error))
        return Failed(message=f"paused: {error}")
    return TrainingSummary(
        folder=options.folder,
        steps=learnt["steps"],
        accuracy=judged.get("candidate", {}).get("accuracy"),
        current_accuracy=judged.get("current", {}).get("accuracy"),
        promoted=registered["promoted"],
        sentence=registered["sentence"],
    )


async def _stage(stage: Stage, options: StageOptions, iterations: int = 0) -> dict[str, Any]:
    do: Any = stage_task.with_options(name=stage, task_run_name=stage)
    result: dict[str, Any] = await do(stage, options, iterations)
    return result


def _was_killed(task: Any, task_run: Any, state: State[Any]) -> bool:
    """A process that was killed goes on from its last checkpoint; what said why it ended would end so again."""
    return isinstance(state.data, StageFailed) and state.data.code == "stage_killed"


@task(persist_result=False, retries=RESTARTS, retry_delay_seconds=RESTART_SECONDS, retry_condition_fn=_was_killed)
async def stage_task(stage: Stage, options: StageOptions, iterations: int) -> dict[str, Any]:
    """One stage in its process. The folder, not Prefect's storage, says whether it is done."""
    folder = Path(options.folder)
    progress = Progress(folder, iterations) if stage == "grpo" else None
    command = stage_command(stage, options)
    result = await run_stage(stage, command, folder, progress.look if progress else None)
    if progress:
        await progress.look()  # a stage that was done before shows its course, too
        await progress.draw()
    shown = {name: value for name, value in result.items() if name != "rows"}
    get_run_logger().info("%s: %s", stage, shown)
    return result


def tell_paused(folder: str, reason: str) -> None:
    """An event that an automation can act on: somebody has to look at the run before more is spent on it."""
    run = flow_run_id()
    resource = {"prefect.resource.id": f"prefect.flow-run.{run}" if run else f"conductor.training.{folder}"}
    emit_event(PAUSED, resource=resource, payload={"folder": folder, "reason": reason})
