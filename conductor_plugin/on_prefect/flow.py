"""The flow `conductor`: a question in, an Answer out, each step a Prefect task.

prefect deployment run conductor/answer --param question="…"
"""

import os
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.states import Failed

from conductor_plugin.conduct import conduct
from conductor_plugin.context import Message
from conductor_plugin.labels import SERVER_CLEARANCE, check_server, label_of
from conductor_plugin.on_prefect import tasks
from conductor_plugin.on_prefect.artifact import write_artifact
from conductor_plugin.on_prefect.blocks import resolve_pool
from conductor_plugin.on_prefect.crashes import refuse_crash_loop
from conductor_plugin.on_prefect.stopped import settled, told_to
from conductor_plugin.options import AnswerOptions, Positive, Reuse, prepare
from conductor_plugin.receipt import Answer, PlannerRecord, error_record
from conductor_plugin.rounds import Engine, Listener, PlanRefused, RoundJob, RoundResult, run_round

# Who hears of steps starting and finishing in this process (the CLI's progress display). Not a flow
# parameter: those must be JSON.
LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@flow(name="conductor", persist_result=True, result_serializer="json")
async def conductor(
    question: str,
    pool: str | dict[str, Any] | None = None,
    planner: str | None = None,
    plan: str | None = None,
    history: Sequence[dict[str, str]] = (),
    only: Sequence[str] = (),
    exclude: Sequence[str] = (),
    blind: bool = False,
    few_shot: str = "default",
    max_steps: int = 5,
    max_rounds: int = 0,
    run_all: bool = False,
    label: str | None = None,
    budget_usd: Positive | None = None,
    deadline_s: Positive | None = None,
    reuse: Reuse = "run",
) -> Answer | State[Answer]:
    """Answer a question by a planned workflow over a pool of models and tools.

    Args:
        question: What to answer.
        pool: Path of a pool file, `block/NAME` of a ConductorPool block, or a pool's content. Default: the
            embedded pool.
        planner: `template:NAME` or a litellm model string. Default: the pool's own.
        plan: A completion to run instead of asking a planner.
        history: Earlier chat messages, each with `role` and `content`.
        only: Names or tags of the workers to use. Default: all.
        exclude: Names or tags of the workers to leave out.
        blind: Show a prompted planner ordinals alone, without the pool's descriptions.
        few_shot: The set of example plans for a prompted planner, or `none`.
        max_steps: The most steps that a plan may have.
        max_rounds: How often the Conductor may plan again after the first round.
        run_all: Also run steps that cannot reach the answer.
        label: The question's data label. Default: the pool's lowest. Above the clearance of Prefect's server
            (CONDUCTOR_SERVER_CLEARANCE) nothing is run.
        budget_usd: The most that planner and workers may cost, a hard cap.
        deadline_s: Seconds after which calls in flight are cancelled and the run stops.
        reuse: Whose stored results may stand in for a call: this run's own (`run`), those of any run with the
            same inputs (`always`), or nobody's (`never`).

    Returns:
        The Answer. One without success is the data of a Failed state, so that its receipt is kept.
    """
    await refuse_crash_loop()
    options = AnswerOptions(
        planner=planner,
        plan=plan,
        only=tuple(only),
        exclude=tuple(exclude),
        blind=blind,
        few_shot=few_shot,
        max_steps=max_steps,
        max_rounds=max_rounds,
        run_all=run_all,
        label=label,
        budget_usd=budget_usd,
        deadline_s=deadline_s,
        reuse=reuse,
    )
    members, chosen = prepare(await resolve_pool(pool), options)
    check_server(members, label_of(members, label), os.environ.get(SERVER_CLEARANCE))
    tasks.REUSE.set(reuse)
    told: list[Answer] = []
    running = conduct(
        question,
        pool=members,
        planner=chosen,
        history=tuple(Message.model_validate(message) for message in history),
        max_steps=max_steps,
        max_rounds=max_rounds,
        run_all=run_all,
        label=label,
        budget_usd=budget_usd,
        deadline_s=deadline_s,
        engine=prefect_engine(),
        on_event=told_to(told, _hear, flow_run_id),
    )
    answer = await settled(running, question, told)
    answer = answer.model_copy(update={"flow_run_id": flow_run_id()})
    try:
        await write_artifact(question, answer)
    except Exception as error:  # an answer that was paid for is not lost for its artifact
        get_run_logger().warning("The run's artifact could not be written: %s", type(error).__name__)
    if answer.status == "completed":
        return answer
    assert answer.error is not None
    return Failed(message=f"{answer.status}: {answer.error.message}", data=answer)


# The later round that is about to run and who hears of it. No parameters of the subflow: those are shown in the
# UI and limited in size, and a round's outputs are neither.
_ROUND: ContextVar[tuple[RoundJob, Listener]] = ContextVar("round")


@flow(name="conductor-round", persist_result=True, result_serializer="json", validate_parameters=False)
async def conductor_round(number: int) -> RoundResult | State[RoundResult]:
    """A later round of a question, as a subflow of `conductor`. Failed unless completed: a retry runs it again."""
    job, on_event = _ROUND.get()
    result = await run_round(job, prefect_engine(), on_event)
    if result.error is None:
        return result
    return Failed(message=f"{result.status}: {result.error.message}", data=result)


async def _as_subflow(job: RoundJob, engine: Engine, on_event: Listener) -> RoundResult:
    number = len(job.earlier)
    token, scope = _ROUND.set((job, on_event)), tasks.ROUND.set(f"{flow_run_id()} {number}")
    try:
        state: Any = await conductor_round.with_options(flow_run_name=f"round-{number}")(number, return_state=True)
        result = await state.result(raise_on_failure=False)
        if isinstance(result, BaseException):
            raise result
        assert isinstance(result, RoundResult)
        return result
    except Exception as error:  # what earlier rounds answered is not lost for it
        return RoundResult(planner=PlannerRecord(name=job.planner.name), status="failed", error=error_record(error))
    finally:
        _ROUND.reset(token)
        tasks.ROUND.reset(scope)


def prefect_engine() -> Engine:
    """Plans and steps as tasks, later rounds as subflows."""
    return Engine(propose=tasks.propose, step=tasks.step, round=_as_subflow)


def flow_run_id() -> str | None:
    """The id of the flow run that is running in this context."""
    context = FlowRunContext.get()
    return str(context.flow_run.id) if context and context.flow_run else None


def _hear(event: object) -> None:
    if isinstance(event, PlanRefused):
        get_run_logger().warning("The planner's attempt held no valid plan: %s", event.error)
    listener = LISTENER.get()
    if listener is not None:
        listener(event)
