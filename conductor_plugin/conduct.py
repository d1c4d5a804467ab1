"""`conduct`: question -> plan -> graph -> run -> answer, in rounds (paper, "Recursion").

A round is one plan and one run. Where `max_rounds` allows it, the Conductor is offered to its own planner
as one more model; a plan that ends with it is followed by another round, whose planner sees the last plan
and the outputs that this step may see. Three empty lists keep the earlier answer.
"""

import asyncio
import time
from dataclasses import dataclass, field, replace

from conductor_plugin.budget import BUDGET, Budget
from conductor_plugin.context import Message
from conductor_plugin.errors import LabelError
from conductor_plugin.labels import cleared_pool, is_cleared, label_of, without_uncleared_fallbacks
from conductor_plugin.plan import PlanRules
from conductor_plugin.planners.base import Planner
from conductor_plugin.planners.given import GivenPlan
from conductor_plugin.planners.prompted import PromptedPlanner
from conductor_plugin.pool import Pool
from conductor_plugin.pricing import check_priced
from conductor_plugin.receipt import (
    Answer,
    AnswerStatus,
    ErrorRecord,
    PlannerRecord,
    RoundRecord,
    RoundView,
    add_up,
    error_record,
)
from conductor_plugin.rounds import Engine, Listener, PlanReady, RoundJob, RoundResult, add_usage, run_round
from conductor_plugin.run import RunFinished


@dataclass(frozen=True)
class Answered:
    """The final answer; told also when the run is cancelled and nothing can be returned."""

    answer: Answer


async def conduct(
    question: str,
    *,
    pool: Pool,
    planner: Planner,
    history: tuple[Message, ...] = (),
    max_steps: int = 5,
    max_rounds: int = 0,
    run_all: bool = False,
    label: str | None = None,
    budget_usd: float | None = None,
    deadline_s: float | None = None,
    engine: Engine | None = None,
    on_event: Listener = lambda event: None,
) -> Answer:
    """Answer a question. Failures come back as an Answer with a status and an error, not as exceptions.

    `max_rounds` counts the rounds after the first. `label` is the question's (default: the pool's lowest): only
    workers that are cleared for it are offered to the planner, and a given plan that names another one is not
    run. `budget_usd` and `deadline_s` are hard: calls that could break the budget are not made, those in
    flight at the deadline are cancelled; InputError if a price that the budget needs is unknown. Cancellation
    tells a partial Answer to `on_event` and raises CancelledError; so does a signal that raises.
    """
    token = None
    if budget_usd is not None:  # without one of its own, a question is under its caller's, if there is one
        check_priced(pool, planner)
        token = BUDGET.set(Budget(budget_usd))
    label = label_of(pool, label)
    course = _Course(pool=pool, planner=planner, label=label)
    status: AnswerStatus | None = None
    try:
        course.pool = permitted_pool(pool, planner, label)
        async with asyncio.timeout(deadline_s) as clock:
            engine = _off_the_clock(engine or Engine(), clock)
            await _rounds(course, question, history, max_steps, max_rounds, run_all, engine, on_event)
    except LabelError as error:
        status, course.error = "stopped_label", error_record(error)
    except TimeoutError:
        if not clock.expired():
            raise
        status = "stopped_deadline"
    except Exception:
        raise
    except BaseException:  # cancelled, or a signal struck in this very code
        on_event(Answered(course.as_answer("cancelled")))
        raise
    finally:
        if token:
            BUDGET.reset(token)
    answer = course.as_answer(status)
    on_event(Answered(answer))
    return answer


def _off_the_clock(engine: Engine, clock: asyncio.Timeout) -> Engine:
    """The engine, whose waiting for a person's approval does not count against the deadline."""
    approve, loop = engine.approve, asyncio.get_running_loop()

    async def approved(ready: PlanReady) -> bool:
        assert approve is not None
        deadline, began = clock.when(), loop.time()
        clock.reschedule(None)
        yes = await approve(ready)
        clock.reschedule(None if deadline is None else deadline + loop.time() - began)
        return yes

    return replace(engine, approve=approved) if approve else engine


def permitted_pool(pool: Pool, planner: Planner, label: str) -> Pool:
    """The pool as a question of that label may use it. LabelError if its planner or every worker may not see it."""
    if isinstance(planner, PromptedPlanner) and not is_cleared(pool, planner.clearance, label):
        raise LabelError(
            f"the planner {planner.name} is cleared for {planner.clearance or pool.labels[0]}, not for {label}; "
            "give it a clearance in the pool file, or use a template",
            code="label",
        )
    if isinstance(planner, GivenPlan):  # its ids are those of the whole pool; the plan itself is checked
        return without_uncleared_fallbacks(pool, label)
    return cleared_pool(pool, label)


async def _rounds(
    course: "_Course",
    question: str,
    history: tuple[Message, ...],
    max_steps: int,
    max_rounds: int,
    run_all: bool,
    engine: Engine,
    on_event: Listener,
) -> None:
    for number in range(max_rounds + 1):
        job = RoundJob(
            question=question,
            pool=course.pool,
            planner=course.planner,
            rules=PlanRules(
                workers=len(course.pool.workers),
                max_steps=max_steps,
                conductor=max_rounds > 0,
                answered=course.answer is not None,
            ),
            history=history,
            earlier=course.views,
            run_all=run_all,
            label=course.label,
        )
        # The first round runs in the flow itself: a subflow for each would double the cost of a question.
        do = engine.round if number else run_round
        if not course.add(await do(job, engine, course.hears(on_event))):
            return


@dataclass
class _Course:
    """The rounds of one question so far."""

    pool: Pool
    planner: Planner
    label: str
    rounds: list[RoundRecord] = field(default_factory=list)
    views: tuple[RoundView, ...] = ()
    answer: str | None = None
    status: AnswerStatus = "completed"
    error: ErrorRecord | None = None
    critical_path_s: float = 0.0
    started: float = field(default_factory=time.perf_counter)
    running: RoundRecord | None = None
    asked: PlanReady | None = None
    running_path_s: float = 0.0
    planner_calls: int = 0

    def __post_init__(self) -> None:
        self.tally = PlannerRecord(name=self.planner.name)

    def hears(self, on_event: Listener) -> Listener:
        """Listen in, so that a cancelled round is in the receipt as far as it came."""

        def heard(event: object) -> None:
            if isinstance(event, PlanReady):
                self.running = RoundRecord(plan=event.plan, steps=())
                self.asked = event
            elif isinstance(event, RunFinished) and self.running:
                self.running = self.running.model_copy(update={"steps": event.receipt.steps})
                self.running_path_s = event.receipt.critical_path_s
            on_event(event)

        return heard

    def add(self, result: RoundResult) -> bool:
        """Take in a round's result; True if another round is to follow, should the bound allow it."""
        self.running = None
        self.tally = add_usage(self.tally, result.planner)
        self.planner_calls += result.planner_calls
        self.status, self.error = result.status, result.error
        if result.plan:
            self.rounds.append(RoundRecord(plan=result.plan, steps=result.receipt.steps if result.receipt else ()))
        if result.receipt:
            self.critical_path_s += result.receipt.critical_path_s
            if result.receipt.answer is not None:
                self.answer = result.receipt.answer
        if result.view is None:
            return False
        self.views = (*self.views, result.view)
        return True

    def as_answer(self, status: AnswerStatus | None = None) -> Answer:
        """The receipt as it stands. A completed run whose answer is empty has failed."""
        status, error = status or self.status, self.error
        if status == "cancelled" and error is None:
            error = ErrorRecord(code="cancelled", message="the run was cancelled before it had an answer")
        elif status == "stopped_deadline":
            error = ErrorRecord(code="deadline", message="the deadline passed before there was an answer")
        elif status == "completed" and not (self.answer or "").strip():
            status = "failed"
            error = ErrorRecord(code="empty_answer", message="the last step gave an empty answer; see its worker")
        rounds, tally, calls, path_s = tuple(self.rounds), self.tally, self.planner_calls, self.critical_path_s
        if self.running and self.asked:  # a round that was cut off
            rounds = (*rounds, self.running)
            tally, calls = add_usage(tally, self.asked.planner), calls + self.asked.planner_calls
            path_s += self.running_path_s
        return Answer(
            answer=self.answer,
            status=status,
            error=error,
            label=self.label,
            planner=tally,
            rounds=rounds,
            usage=add_up(tally, calls, rounds),
            elapsed_s=time.perf_counter() - self.started,
            critical_path_s=path_s,
        )
