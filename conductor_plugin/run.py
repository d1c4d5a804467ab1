"""The one executor: `run_graph` walks a graph as data flow.

A step starts the moment its inputs are there; there are no level barriers. What calls a worker is handed
in: the flow hands a Prefect task, everything else the plain coroutine with retries.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conductor_plugin.context import Message, WorkerReply
from conductor_plugin.errors import BudgetError, WorkerError
from conductor_plugin.graph import (
    CallStep,
    ConductorStep,
    ReduceStep,
    Step,
    answer_step,
    compile_steps,
    critical_path,
    needed_steps,
)
from conductor_plugin.pool import Pool
from conductor_plugin.receipt import ErrorRecord, RunReceipt, RunStatus, StepRecord, StepStatus, error_record
from conductor_plugin.step import ATTEMPTS, Attempts, StepJob, StepResult, run_step_with_retries
from conductor_plugin.worker_spec import WorkerSpec

if TYPE_CHECKING:
    import networkx

# Errors that are a stop rather than a failure, by code.
STOPPED: dict[str, RunStatus] = {
    "budget": "stopped_budget",
    "billed_beyond": "stopped_budget",
    "content_policy": "stopped_policy",
}

# What a step without a result of its own may have taken: a call that was cut off may have been billed.
NO_BILL = WorkerReply(output="")
UNKNOWN_BILL = WorkerReply(output="", prompt_tokens=None, completion_tokens=None, cost_usd=None)

RunStep = Callable[[StepJob, Sequence[StepResult]], Awaitable[StepResult]]
Grow = Callable[[Sequence[StepResult]], Awaitable[Sequence[Step]]]


@dataclass(frozen=True)
class StepStarted:
    """A worker is being called."""

    index: int
    worker: str


@dataclass(frozen=True)
class StepFinished:
    """A step has ended, in whatever state."""

    record: StepRecord


@dataclass(frozen=True)
class RunFinished:
    """The graph's receipt; told also when the run is cancelled and nothing can be returned."""

    receipt: RunReceipt


async def run_graph(
    graph: "networkx.DiGraph[int]",
    *,
    pool: Pool,
    question: str,
    history: tuple[Message, ...] = (),
    step: RunStep = run_step_with_retries,
    run_all: bool = False,
    grow: Grow | None = None,
    on_event: Callable[[object], None] | None = None,
) -> RunReceipt:
    """Execute `graph` on `pool` and return its receipt, also when it failed.

    Steps that cannot reach the answer are pruned unless `run_all`. When all steps are done, `grow` is shown
    the results and gives further steps, or none to stop (growing plans; nothing is pruned then). A step
    that the answer needs and that fails for good cancels the others. A cancelled run tells its receipt to
    `on_event` and raises CancelledError.
    """
    run = _Run(pool, question, history, step, on_event)
    started = time.perf_counter()
    status: RunStatus = "completed"
    try:
        while True:
            run.take(graph, everything=run_all or grow is not None)
            await run.execute()
            more = await grow(run.in_order()) if grow else ()
            if not more:
                break
            graph = compile_steps([*(graph.nodes[i]["step"] for i in graph.nodes), *more])
    except Exception as error:
        run.error = run.error or error_record(error)
        status = STOPPED.get(run.error.code, "failed")
    except BaseException:  # cancelled, or a signal struck in a step's code
        if on_event:
            on_event(RunFinished(run.receipt("cancelled", time.perf_counter() - started)))
        raise
    receipt = run.receipt(status, time.perf_counter() - started)
    if on_event:
        on_event(RunFinished(receipt))
    return receipt


class _Run:
    """The state of one execution: results and records by step number."""

    def __init__(
        self,
        pool: Pool,
        question: str,
        history: tuple[Message, ...],
        step: RunStep,
        on_event: Callable[[object], None] | None,
    ) -> None:
        self.pool, self.question, self.history = pool, question, history
        self.step, self.on_event = step, on_event
        self.results: dict[int, StepResult] = {}
        self.records: dict[int, StepRecord] = {}
        self.pruned: set[int] = set()
        self.error: ErrorRecord | None = None

    def take(self, graph: "networkx.DiGraph[int]", *, everything: bool) -> None:
        """Start from a graph, or from one that has grown: what is done already stays."""
        self.graph = graph
        self.steps: list[Step] = [graph.nodes[i]["step"] for i in range(len(graph))]
        self.sees = [tuple(graph.predecessors(i)) for i in range(len(graph))]
        self.workers = [self._workers(step) for step in self.steps]
        self.names = [self._name(step) for step in self.steps]
        self.needed = needed_steps(graph)
        self.pruned = set() if everything else set(graph.nodes) - self.needed

    async def execute(self) -> None:
        """Run every step that is neither done nor pruned, each in its own asyncio task."""
        tasks: dict[int, asyncio.Task[StepResult | None]] = {}
        async with asyncio.TaskGroup() as group:
            for i in range(len(self.steps)):
                if i not in self.records and i not in self.pruned:
                    tasks[i] = group.create_task(self._run(i, tasks))

    async def _run(self, i: int, tasks: dict[int, asyncio.Task[StepResult | None]]) -> StepResult | None:
        """Wait for the steps that step `i` may see, then execute it. None: it, or one of those, failed harmlessly."""
        visible = []
        for earlier in self.sees[i]:
            result = await tasks[earlier] if earlier in tasks else self.results.get(earlier)
            if result is None:
                return None
            visible.append(result)
        if self.steps[i].kind == "conductor":
            self._finish(i, status="completed")
            return None
        started = time.perf_counter()
        if self.on_event:
            self.on_event(StepStarted(i, self.names[i]))
        attempts = Attempts()
        ATTEMPTS.set(attempts)
        failed = attempts.failed
        try:
            result, worker = await self._execute(i, visible)
        except BudgetError as error:
            refused = error.code == "budget" and not failed
            self._finish(i, status="not_started" if refused else "failed", failed=failed, attempts=len(failed))
            self.error = error_record(error)
            raise
        except Exception as error:
            self._finish(i, status="failed", started=started, failed=failed, attempts=max(len(failed), 1))
            if i not in self.needed:
                return None
            self.error = self.error or error_record(error)
            raise
        except BaseException:
            self._finish(i, status="cancelled", started=started, failed=failed, attempts=len(failed) + 1)
            raise
        self.results[i] = result
        self._finish(i, status="completed", started=started, result=result, worker=worker, reused=attempts.reused)
        return result

    async def _execute(self, i: int, visible: Sequence[StepResult]) -> tuple[StepResult, WorkerSpec | None]:
        """The step's result and who gave it: its worker, or the first of its fallbacks that succeeds."""
        workers = self.workers[i]
        for worker in workers[:-1]:
            with contextlib.suppress(WorkerError):
                return await self.step(self._job(i, worker), visible), worker
        return await self.step(self._job(i, workers[-1]), visible), workers[-1]

    def _job(self, i: int, worker: WorkerSpec | None) -> StepJob:
        step = self.steps[i]
        assert not isinstance(step, ConductorStep)
        return StepJob(index=i, step=step, worker=worker, question=self.question, history=self.history)

    def _workers(self, step: Step) -> list[WorkerSpec | None]:
        """A call's worker and its fallbacks, as far as the question's pool still has them; else nobody."""
        if not isinstance(step, CallStep):
            return [None]
        first = self.pool.workers[step.worker]
        chain = [first, *(w for name in first.fallbacks for w in self.pool.workers if w.name == name)]
        return [worker.with_caps(step.caps) for worker in chain]

    def _name(self, step: Step) -> str:
        if isinstance(step, CallStep):
            return self.pool.workers[step.worker].name
        return step.reduce if isinstance(step, ReduceStep) else "conductor"

    def _blank(self, i: int) -> StepRecord:
        """The record of a step that never started."""
        worker = self.workers[i][0]
        return StepRecord(
            index=i,
            worker=self.names[i],
            kind=worker.kind if worker else self.steps[i].kind,
            sees=self.sees[i],
            pruned=i in self.pruned,
        )

    def _finish(
        self,
        i: int,
        *,
        status: StepStatus,
        started: float | None = None,
        result: StepResult | None = None,
        failed: Sequence[WorkerError] = (),
        attempts: int = 0,
        worker: WorkerSpec | None = None,
        reused: bool = False,
    ) -> None:
        worker = worker or self.workers[i][0]
        reply = result.reply if result else self._bill(i, status, failed)
        bill = NO_BILL if reused else reply
        name = worker.name if worker else self.names[i]
        self.records[i] = StepRecord(
            index=i,
            worker=name,
            kind=worker.kind if worker else self.steps[i].kind,
            sees=self.sees[i],
            status=status,
            attempts=0 if reused else result.attempts if result else attempts,
            output=reply.output if result else None,
            prompt_tokens=bill.prompt_tokens,
            completion_tokens=bill.completion_tokens,
            cost_usd=bill.cost_usd,
            latency_s=_latency_s(started, result),
            model=reply.model,
            fallback_from=None if name == self.names[i] else self.names[i],
        )
        if self.on_event:
            self.on_event(StepFinished(self.records[i]))

    def _bill(self, i: int, status: StepStatus, failed: Sequence[WorkerError]) -> WorkerReply:
        """What a step without a result may have taken."""
        paid = any(worker is not None and worker.kind == "llm" for worker in self.workers[i])
        unknown = status == "cancelled" or any(error.maybe_billed for error in failed)
        return UNKNOWN_BILL if paid and unknown else NO_BILL

    def in_order(self) -> list[StepResult]:
        """The results so far, in step order."""
        return [self.results[i] for i in sorted(self.results)]

    def receipt(self, status: RunStatus, elapsed_s: float) -> RunReceipt:
        """The run as it stands."""
        answer = answer_step(self.graph)
        result = self.results.get(answer) if answer is not None else None
        latencies = {i: record.latency_s or 0.0 for i, record in self.records.items()}
        return RunReceipt(
            status=status,
            steps=tuple(self.records.get(i) or self._blank(i) for i in range(len(self.steps))),
            answer=result.reply.output if result else None,
            error=self.error,
            elapsed_s=elapsed_s,
            critical_path_s=critical_path(self.graph, latencies)[0],
        )


def _latency_s(started: float | None, result: StepResult | None) -> float | None:
    if result and result.took_s is not None:
        return result.took_s
    return None if started is None else time.perf_counter() - started
