"""The executor's step and the planner's call, answered from the store where they were paid for before."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from conductor_plugin.context import WorkerReply, build_messages
from conductor_plugin.evaluation.store import Store
from conductor_plugin.graph import CallStep
from conductor_plugin.in_flight import once
from conductor_plugin.planners.base import Planner, PlanRequest, Proposal, propose_once
from conductor_plugin.policy import with_retries
from conductor_plugin.rounds import Engine, policy_of
from conductor_plugin.step import StepJob, StepResult, request_for, run_step_with_retries
from conductor_plugin.worker_spec import digest

MOST_REPEATS = 1000


@dataclass
class Sampled:
    """One system's run on one question, in one repeat.

    Repeats draw samples of their own: a plan's sample i of a call is, in repeat r, the sample r + i · MOST_REPEATS. So
    no two repeats share one, whatever each of them plans, and the single worker's repeat r is the very sample r that
    all other systems see.
    """

    store: Store
    repeat: int = 0
    planning_s: float = 0.0

    def engine(self) -> Engine:
        """How `conduct` plans and steps."""
        return Engine(propose=self.propose, step=self.step)

    async def step(self, job: StepJob, visible: Sequence[StepResult]) -> StepResult:
        """Execute the step, unless the store has its sample."""
        if job.worker is None or not isinstance(job.step, CallStep):  # a reduce step has no worker, and costs nothing
            return await run_step_with_retries(job, visible)
        sample = self.repeat + job.step.sample * MOST_REPEATS
        # The worker is told as well: a local model's seed hangs on it.
        worker, job = job.worker.key, replace(job, step=job.step.model_copy(update={"sample": sample}))
        request = request_for(job, visible)
        messages = digest([m.model_dump() for m in build_messages(request)], 64)
        key = digest([worker, messages, sample], 64)

        async def pay() -> dict[str, Any]:
            began = time.perf_counter()
            result = await run_step_with_retries(job, visible)
            return {
                "reply": result.reply.model_dump(mode="json"),
                "attempts": result.attempts,
                "latency_s": time.perf_counter() - began,
                "sample": sample,
            }

        record = await _once(self.store, "sample", key, pay, worker=worker, question=messages)
        return StepResult(
            index=job.index,
            subtask=request.subtask,
            reply=WorkerReply.model_validate(record["reply"]),
            attempts=record["attempts"],
            took_s=record["latency_s"],
        )

    async def propose(self, planner: Planner, request: PlanRequest) -> Proposal:
        """Ask the planner, unless the store has its proposal. One that asks no model costs nothing to ask again."""
        if not hasattr(planner, "llm"):
            return await propose_once(planner, request)
        shown = [type(planner).__name__, settings_of(planner), request.model_dump(mode="json"), self.repeat]

        async def pay() -> dict[str, Any]:
            began = time.perf_counter()
            proposal = await with_retries(lambda: propose_once(planner, request), policy_of(planner))
            return {"proposal": proposal.model_dump(mode="json"), "latency_s": time.perf_counter() - began}

        record = await _once(self.store, "plan", digest(shown, 64), pay)
        self.planning_s += record["latency_s"]
        return Proposal.model_validate(record["proposal"])


def settings_of(planner: Any) -> Any:
    """What decides a planner's plans, JSON-able."""
    return planner.model_dump(mode="json") if hasattr(planner, "model_dump") else repr(planner)


# Calls that are being paid for, by store and key: who asks for one of them meanwhile waits for it.
_flying: dict[tuple[str, str, str], asyncio.Task[dict[str, Any]]] = {}


async def _once(
    store: Store, kind: str, key: str, pay: Callable[[], Awaitable[dict[str, Any]]], **fields: str
) -> dict[str, Any]:
    """The stored record, or that of the one call of `pay` that all who ask now share."""

    async def pay_and_keep() -> dict[str, Any]:
        return await store.aput(kind, key, await pay(), **fields)

    return await once(_flying, (store.url, kind, key), lambda: store.aget(kind, key), pay_and_keep)
