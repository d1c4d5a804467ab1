"""A person approves a plan before it is run: on the command line's own terminal, or in Prefect's UI.

There the flow run pauses and shows the plan with its quote; who resumes it says yes or no. A run that is started
again after a crash does not ask for the same plan twice.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import apause_flow_run
from prefect.input import RunInput
from prefect.results import get_result_store
from pydantic import Field

from conductor_plugin.calls import typical_calls
from conductor_plugin.drawing import terminal
from conductor_plugin.graph import compile_steps
from conductor_plugin.on_prefect.artifact import quoted
from conductor_plugin.on_prefect.scope import SCOPE
from conductor_plugin.on_prefect.seal import Asked
from conductor_plugin.pool import Pool
from conductor_plugin.quote import Quote, quote, quote_lines
from conductor_plugin.rounds import PlanReady

PATIENCE_S = 7 * 24 * 3600
"""Seconds that a paused run waits; nobody's answer then is a no."""

# Who is asked in this process, instead of Prefect's UI (the command line sets it).
ASK: ContextVar[Callable[[PlanReady, Quote], Awaitable[bool]] | None] = ContextVar("ask", default=None)


class Approval(RunInput):
    """The form that Prefect's UI shows when the paused run is resumed."""

    approve: bool = Field(default=False, description="Run this plan?")


def approver(asked: Asked, pool: Pool, run_all: bool) -> Callable[[PlanReady], Awaitable[bool]]:
    """What asks for a plan's approval; `pool` is the one that its numbers refer to."""

    async def approve(ready: PlanReady) -> bool:
        store, key = get_result_store(), SCOPE.get().key(["approved", ready.round, ready.plan.model_dump()])
        if key and await store.aexists(key):
            return True
        offer = await asyncio.to_thread(_quote, asked, pool, run_all, ready)
        ask = ASK.get()
        yes = await (ask(ready, offer) if ask else _pause(_describe(ready, offer, pool)))
        if yes and key:
            await store.awrite(obj=True, key=key)
        return yes

    return approve


def _quote(asked: Asked, pool: Pool, run_all: bool, ready: PlanReady) -> Quote:
    return quote(
        compile_steps(ready.steps),
        pool=pool,
        question=asked.question,
        history=asked.history,
        typical=typical_calls(pool),
        run_all=run_all,
    )


async def _pause(description: str) -> bool:
    form = Approval.with_initial_data(description=description)
    try:
        filled = await apause_flow_run(wait_for_input=form, timeout=PATIENCE_S, poll_interval=2)
    except FlowPauseTimeout:
        return False
    return filled.approve


def _describe(ready: PlanReady, offer: Quote, pool: Pool) -> str:
    """The plan and its quote as markdown. Instructions are a model's: in a code block they stay text."""
    seal = SCOPE.get().seal
    texts = (seal.cover(text) if seal else text for text in ready.plan.subtasks)
    steps = [f"step {i}: {' '.join(text.split())}" for i, text in enumerate(texts)]
    return quoted("\n".join([terminal(compile_steps(ready.steps), pool), "", *steps, "", *quote_lines(offer)]))
