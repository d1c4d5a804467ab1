"""The reward: 0 where the completion holds no valid plan, 0.5 where its answer is wrong, 1 where it is right.

Plans are parsed strictly and run by `run_round`, like every plan of this package; all rollouts of a batch at once,
under the limits of the pool's workers. What says nothing about the plan (a worker that cannot be reached, a wrong
key, a grader that broke) gives no reward at all: None, and the rollout teaches nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.budget import BUDGET, Budget
from conductor_plugin.context import Seen
from conductor_plugin.errors import BudgetError, PlanError
from conductor_plugin.evaluation.evaluate import Grader
from conductor_plugin.plan import Plan
from conductor_plugin.plan_text import find_lists
from conductor_plugin.planners.given import GivenPlan
from conductor_plugin.pool import Pool
from conductor_plugin.receipt import PlanRecord, RoundView, StepRecord, total
from conductor_plugin.rounds import Engine, RoundJob, RoundResult, run_round
from training.config import RewardSpec, TrainConfig
from training.paid import PaidCalls
from training.questions import label_of_question, pool_of, request_of

FORMAT, VALID, RIGHT = 0.0, 0.5, 1.0
# A worker's no to what the plan sent it: another plan would have fared better. All other errors of workers are
# failures of the infrastructure, of which design.md says that they are never a wrong answer.
REFUSALS = ("content_policy", "context_too_long")


@dataclass(frozen=True)
class Rollout:
    """One completion for one question: offered `workers` of the pool, after an earlier round or none.

    `place` numbers it in its iteration, so that a resumed run finds its calls. `after` is what the first round came
    to, where this is a second one.
    """

    question: str
    completion: str
    workers: tuple[int, ...]
    iteration: int
    place: int
    after: "Outcome | None" = None


@dataclass(frozen=True)
class Outcome:
    """What a rollout came to. `reward` is None where nothing can be said; so is `right` where nothing was judged.

    `latency_s` is the critical path's, `length` how many steps the completion meant to write (see `written_length`),
    `view` what the next round's planner would be shown.
    """

    reward: float | None
    valid: bool = True
    right: bool | None = None
    error: str | None = None
    plan: PlanRecord | None = None
    answer: str | None = None
    calls: int = 0
    cost_usd: float | None = 0.0
    latency_s: float = 0.0
    workers: tuple[str, ...] = ()
    length: int = 0
    view: RoundView | None = None

    def as_json(self) -> dict[str, Any]:
        """For `rollouts.jsonl`; the reasoning is in the completion already."""
        lists = self.plan.model_dump(mode="json", exclude={"reasoning"}) if self.plan else None
        names = ("reward", "valid", "right", "error", "answer", "calls", "cost_usd", "latency_s", "workers", "length")
        return {"plan": lists, **{name: getattr(self, name) for name in names}}


# A forced second round whose first gave no answer to correct: there is nothing to score.
NO_FIRST_ROUND = Outcome(reward=None, valid=False, error="no_first_round")


class Rewarder:
    """Scores rollouts. Everything that belongs to an event loop is made in the loop that first asks for a score."""

    def __init__(
        self,
        config: TrainConfig,
        pool: Pool,
        questions: Mapping[str, Question],
        *,
        paid: PaidCalls,
        grader: Callable[[], Grader],
        budget: Budget | None = None,
    ) -> None:
        self.config, self.pool, self.questions = config, pool, questions
        self.paid, self.budget = paid, budget
        self._make_grader = grader
        self._grader: Grader | None = None
        self._pools: dict[tuple[tuple[int, ...], str | None], Pool] = {}

    async def score(self, rollouts: Sequence[Rollout]) -> list[Outcome]:
        """All outcomes, in order. BudgetError if the budget stops a call; the answers paid for so far are kept."""
        grader = self._grader = self._grader or self._make_grader()
        BUDGET.set(self.budget)
        outcomes = list(await asyncio.gather(*(self._score(rollout, grader) for rollout in rollouts)))
        while blocked := [i for i, outcome in enumerate(outcomes) if outcome.error == "budget"]:
            # Calls in flight counted at their worst case. They are settled now, so that there may be room again.
            again = await asyncio.gather(*(self._score(rollouts[i], grader) for i in blocked))
            if all(outcome.error == "budget" for outcome in again):
                break
            for i, outcome in zip(blocked, again, strict=True):
                outcomes[i] = outcome
        await self.paid.flush()
        for outcome in outcomes:
            if outcome.error in ("budget", "billed_beyond"):
                raise BudgetError(outcome.answer or "the budget is used up", code=outcome.error)
        return outcomes

    async def _score(self, rollout: Rollout, grader: Grader) -> Outcome:
        question = self.questions[rollout.question]
        result = await self._run(question, rollout)
        outcome = _describe(result, rollout, len(self.offered(question, rollout.workers).workers))
        if result.status == "no_plan":
            return replace(outcome, reward=FORMAT, valid=False)
        if result.status == "stopped_label":
            return replace(outcome, reward=FORMAT, right=False)
        if result.status == "stopped_budget":
            return replace(outcome, answer=result.error.message if result.error else None)
        if result.status != "completed":
            refused = outcome.error in REFUSALS
            return replace(outcome, reward=VALID, right=False) if refused else outcome
        verdict = await grader.grade(question, outcome.answer or "")
        if verdict.outcome == "infrastructure":
            return replace(outcome, error="grader")
        right = verdict.outcome == "right"
        return replace(outcome, right=right, reward=priced(outcome, self.config.reward) if right else VALID)

    async def _run(self, question: Question, rollout: Rollout) -> RoundResult:
        pool = self.offered(question, rollout.workers)
        earlier = (rollout.after.view,) if rollout.after and rollout.after.view else ()
        request = request_of(question, pool, self.config.rules, earlier, answered=bool(earlier))
        job = RoundJob(
            question=question.text,
            pool=pool,
            planner=GivenPlan(completion=rollout.completion),
            rules=request.rules,
            earlier=earlier,
            label=label_of_question(question),
        )
        step = partial(self.paid.step, draw=f"{rollout.iteration}/{rollout.place}")
        return await run_round(job, Engine(step=step), lambda event: None)

    async def close(self) -> None:
        """End what the grader has started; in the loop that scored."""
        close = getattr(self._grader, "close", None)
        if close is not None:
            await close()

    def offered(self, question: Question, workers: Sequence[int]) -> Pool:
        """The pool that a row's rollouts may use; made once for all that are alike."""
        key = (tuple(workers), label_of_question(question))
        if key not in self._pools:
            everybody = self.config.reward.label_violation is not None
            self._pools[key] = pool_of(self.pool, question, workers, everybody=everybody)
        return self._pools[key]

    def reward_function(
        self, keep: Callable[[Sequence[Rollout], Sequence[Outcome]], Mapping[str, float]]
    ) -> Callable[..., Coroutine[Any, Any, list[float | None]]]:
        """The reward as TRL calls it, once a batch, with every column of the rows as a list.

        The column `text` holds the completions (TRL's own column may have them parsed), `outcome` what the sampler
        has scored already. `keep` is told all outcomes and gives the figures to log.
        """

        async def reward(log_metric: Callable[[str, float], None], **columns: Any) -> list[float | None]:
            rollouts = [
                Rollout(
                    question=columns["question"][i],
                    completion=text,
                    workers=tuple(columns["workers"][i]),
                    iteration=columns["iteration"][i],
                    place=columns["place"][i],
                    after=columns["after"][i],
                )
                for i, text in enumerate(columns["text"])
            ]
            known: list[Outcome | None] = columns["outcome"]
            fresh = iter(await self.score([r for r, done in zip(rollouts, known, strict=True) if done is None]))
            outcomes = [done or next(fresh) for done in known]
            for name, value in keep(rollouts, outcomes).items():
                log_metric(name, value)
            return [outcome.reward for outcome in outcomes]

        return reward


def priced(outcome: Outcome, spec: RewardSpec) -> float:
    """A right answer's reward, less what it took; never below a wrong one's, so that being right always pays."""
    off = spec.call_weight * outcome.calls + spec.latency_weight * outcome.latency_s
    if spec.cost_weight:
        off += spec.cost_weight * (outcome.cost_usd or 0.0)
    return max(RIGHT - off, VALID)


def _describe(result: RoundResult, rollout: Rollout, conductor: int) -> Outcome:
    """The outcome without its reward. A plan of three empty lists keeps the earlier answer.

    `conductor` is the number by which plans of the round name the Conductor itself.
    """
    steps: Sequence[StepRecord] = result.receipt.steps if result.receipt else ()
    called = [step for step in steps if step.kind not in ("reduce", "conductor") and not step.pruned]
    answer = result.receipt.answer if result.receipt else None
    if answer is None and rollout.after:
        answer = rollout.after.answer  # kept, or handed on at once
    return Outcome(
        reward=None,
        error=result.error.code if result.error else None,
        plan=result.plan,
        answer=answer,
        calls=sum(step.attempts for step in called),
        cost_usd=total([step.cost_usd for step in called]),
        latency_s=result.receipt.critical_path_s if result.receipt else 0.0,
        workers=tuple(step.worker for step in called),
        length=len(result.plan.model_id) if result.plan else written_length(rollout.completion),
        view=result.view or forced_view(result, conductor),
    )


def written_length(completion: str) -> int:
    """How many steps a completion meant to have: the entries of its longest list, 0 where no list ends as one.

    So a plan that cannot be parsed has a length too, and the parse rate of each length can be told.
    """
    try:
        return max((lst.entries for lst in find_lists(completion).values() if not lst.fault), default=0)
    except PlanError:
        return 0


def steps_named(completion: str, most: int) -> int:
    """How many workers the completion names; -1 where that is no list, or where it is more than a plan may have."""
    try:
        named = find_lists(completion).get("model_id")
    except PlanError:
        return -1
    return named.entries if named and not named.fault and named.entries <= most else -1


def forced_view(result: RoundResult, conductor: int) -> RoundView | None:
    """What a second round is shown of a first one that did not ask for it: its plan, and the response so far.

    As the paper's inner call, which "sees the parent's plan and the response so far"; the plan reads as if it had
    ended with the Conductor, who sees its last step, so that the prompt is the one of inference. None without an
    answer.
    """
    if result.status != "completed" or not result.receipt or not result.plan or not result.plan.model_id:
        return None
    plan, last = result.plan, len(result.plan.model_id) - 1
    seen = Seen(index=last, subtask=plan.subtasks[last], output=result.receipt.answer or "")
    return RoundView(plan=handed_on(plan, conductor), outputs=(seen,))


P = TypeVar("P", Plan, PlanRecord)


def handed_on(plan: P, conductor: int) -> P:
    """The plan with the Conductor, whose number is given, behind its last step, which that sees."""
    return plan.model_copy(
        update={
            "model_id": (*plan.model_id, conductor),
            "subtasks": (*plan.subtasks, ""),
            "access_list": (*plan.access_list, (len(plan.model_id) - 1,)),
        }
    )
