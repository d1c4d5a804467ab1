"""The flow `conductor`: a question in, an Answer out, each step a Prefect task.

prefect deployment run conductor/answer --param question="…"
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Failed

from conductor_plugin.calls import record_calls
from conductor_plugin.conduct import conduct, permitted_pool
from conductor_plugin.context import Message
from conductor_plugin.errors import InputError
from conductor_plugin.labels import label_of
from conductor_plugin.on_prefect.approve import approver
from conductor_plugin.on_prefect.artifact import write_artifact
from conductor_plugin.on_prefect.blocks import resolve_pool
from conductor_plugin.on_prefect.cover import cover_answer, covered
from conductor_plugin.on_prefect.crashes import refuse_crash_loop
from conductor_plugin.on_prefect.engine import hear, prefect_engine
from conductor_plugin.on_prefect.scope import flow_run_id, start_scope
from conductor_plugin.on_prefect.seal import Asked, Seal, open_seal, read_question, refuse_text, server_may_see
from conductor_plugin.on_prefect.stopped import settled, told_to
from conductor_plugin.on_prefect.storage import check_storage
from conductor_plugin.options import AnswerOptions, AtLeastOne, AtLeastZero, Positive, Reuse, prepare
from conductor_plugin.pool import Pool
from conductor_plugin.receipt import Answer


@flow(name="conductor", persist_result=True, result_serializer="json")
async def conductor(
    question: str | None = None,
    question_ref: str | None = None,
    pool: str | dict[str, Any] | None = None,
    planner: str | None = None,
    plan: str | None = None,
    history: Sequence[Message] = (),
    only: Sequence[str] = (),
    exclude: Sequence[str] = (),
    blind: bool = False,
    few_shot: str = "default",
    max_steps: AtLeastOne = 5,
    max_rounds: AtLeastZero = 0,
    run_all: bool = False,
    label: str | None = None,
    budget_usd: Positive | None = None,
    deadline_s: Positive | None = None,
    reuse: Reuse = "run",
    approve: bool = False,
) -> Answer | State[Answer]:
    """Answer a question by a planned workflow over a pool of models and tools.

    Args:
        question: What to answer.
        question_ref: A stored question instead, by the reference that `conductor store` printed: the way for
            questions whose label is above the clearance of Prefect's server (CONDUCTOR_SERVER_CLEARANCE).
        pool: Path of a pool file, `block/NAME` of a ConductorPool block, or a pool's content. Default: the
            embedded pool.
        planner: `template:NAME`, a litellm model string, or a compared system (see README). Default: the pool's own.
        plan: A completion to run instead of asking a planner.
        history: Earlier chat messages, each with `role` and `content`.
        only: Names or tags of the workers to use. Default: all.
        exclude: Names or tags of the workers to leave out.
        blind: Show a prompted planner ordinals alone, without the pool's descriptions.
        few_shot: The set of example plans for a prompted planner, or `none`.
        max_steps: The most steps of a plan that a model writes; a template has its own.
        max_rounds: How often the Conductor may plan again after the first round.
        run_all: Also run steps that cannot reach the answer.
        label: The question's data label. Default: that of `question_ref`, or the pool's lowest.
        budget_usd: The most that planner and workers may cost, a hard cap.
        deadline_s: Seconds after which calls in flight are cancelled and the run stops.
        reuse: Whose stored results may stand in for a call: this run's own (`run`), those of any run with the
            same inputs (`always`), or nobody's (`never`).
        approve: Pause when there is a plan, with its quote, until a person resumes the run with a yes.

    Returns:
        The Answer; without its texts where the server is not cleared for them. One without success is the data
        of a Failed state, so that its receipt is kept.
    """
    await refuse_crash_loop()
    asked, label = await _asked(question, question_ref, history, plan, label)
    options = AnswerOptions(
        planner=planner,
        plan=asked.plan,
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
        approve=approve,
    )
    whole_pool = await resolve_pool(pool)
    label = label_of(whole_pool, label)
    if server_may_see(whole_pool, label):
        answer = await _answer(asked, whole_pool, options, None)
    elif question_ref is None:
        raise refuse_text(label)
    else:
        answer = await _answer_sealed(asked, whole_pool, options, await open_seal(label))
    if answer.status == "completed":
        return answer
    assert answer.error is not None
    return Failed(message=f"{answer.status}: {answer.error.message}", data=answer)


async def _asked(
    question: str | None,
    reference: str | None,
    history: Sequence[Message],
    plan: str | None,
    label: str | None,
) -> tuple[Asked, str | None]:
    """What is asked, from the parameters or from the labelled storage, and its label as far as it is told."""
    if (question is None) == (reference is None):
        raise InputError("give either question or question_ref", code="bad_option")
    if reference is None:
        assert question is not None
        return Asked(question=question, history=tuple(history), plan=plan), label
    asked, stored_label = await read_question(reference)
    if history or plan is not None or label not in (None, stored_label):
        raise InputError(
            f"question_ref brings its history, its plan and its label, {stored_label}; leave out `history`, `plan` "
            "and `label`",
            code="bad_option",
        )
    return asked, stored_label


async def _answer_sealed(asked: Asked, pool: Pool, options: AnswerOptions, seal: Seal) -> Answer:
    """The covered answer; the whole one lies in the labelled storage."""
    try:
        with seal.results():
            answer = await _answer(asked, pool, options, seal)
        await seal.keep_answer(answer)
    except Exception as error:
        raise covered(error, seal) from None
    return cover_answer(answer, seal)


async def _answer(asked: Asked, pool: Pool, options: AnswerOptions, seal: Seal | None) -> Answer:
    members, planner = prepare(pool, options)
    await check_storage()
    start_scope(options.reuse, seal)
    engine = prefect_engine()
    if options.approve:
        permitted = permitted_pool(members, planner, options.label or members.labels[0])
        engine = replace(engine, approve=approver(asked, permitted, options.run_all))
    told: list[Answer] = []
    running = conduct(
        asked.question,
        pool=members,
        planner=planner,
        history=asked.history,
        max_steps=options.max_steps,
        max_rounds=options.max_rounds,
        run_all=options.run_all,
        label=options.label,
        budget_usd=options.budget_usd,
        deadline_s=options.deadline_s,
        engine=engine,
        on_event=told_to(told, hear, flow_run_id),
    )

    async def write(answer: Answer) -> None:
        if seal:
            await write_artifact(seal.cover(asked.question), cover_answer(answer, seal))
        else:
            await write_artifact(asked.question, answer)

    answer = await settled(running, write, told)
    answer = answer.model_copy(update={"flow_run_id": flow_run_id()})
    await remember(members, answer)
    try:
        await write(answer)
    except Exception as error:  # an answer that was paid for is not lost for its artifact
        get_run_logger().warning("The run's artifact could not be written: %s", type(error).__name__)
    return answer


async def remember(pool: Pool, answer: Answer) -> None:
    """Keep the figures of the answer's calls for later quotes."""
    try:
        await asyncio.to_thread(record_calls, pool, answer)
    except Exception as error:  # nor is it lost for that
        get_run_logger().warning("The calls' figures could not be kept for quotes: %s", type(error).__name__)
