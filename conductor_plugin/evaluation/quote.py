"""What an evaluation may take before anything is spent: calls, tokens, USD and hours, as ranges."""

from collections.abc import Mapping, Sequence

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.calls import Typical
from conductor_plugin.evaluation.evaluate import Task
from conductor_plugin.evaluation.judge import LONGEST, judge_prompt
from conductor_plugin.graph import CallStep, compile_steps, plan_steps
from conductor_plugin.models import Frozen
from conductor_plugin.plan import PlanRules
from conductor_plugin.planners.base import PlanRequest
from conductor_plugin.planners.prompted import PromptedPlanner
from conductor_plugin.pool import Pool
from conductor_plugin.quote import Quote, Range, quote, sum_of

FIGURES = ("calls", "prompt_tokens", "completion_tokens", "cost_usd")


class EvaluationQuote(Frozen):
    """Of the rows that are still to be made. `hours` needs a recorded call of every worker."""

    rows: int
    calls: Range
    prompt_tokens: Range
    completion_tokens: Range
    cost_usd: Range
    hours: float | None
    unknown: tuple[str, ...] = ()


async def quote_evaluation(
    tasks: Sequence[Task], typical: Mapping[str, Typical], *, concurrency: int
) -> EvaluationQuote:
    """The sums over the tasks, as if none shared a sample with another: what is shared is paid once, so it is less.

    Plans that cost nothing are made and quoted. A model's plan cannot be known before it is paid for: at least one
    call of the cheapest worker, at most `tries` plans and `max_steps` calls of the dearest one, each seeing all others.
    """
    quotes = [await _of(task, typical) for task in tasks]
    quotes += [_judging(task.question, task.judge, typical) for task in tasks if task.judge]
    seconds = [offer.critical_path_s for offer in quotes]
    working = None if None in seconds else sum(second for second in seconds if second is not None)
    return EvaluationQuote(
        rows=len(tasks),
        hours=None if working is None else working / min(concurrency, max(len(tasks), 1)) / 3600,
        unknown=tuple(dict.fromkeys(sentence for offer in quotes for sentence in offer.unknown)),
        **{name: sum_of([getattr(offer, name) for offer in quotes]) for name in FIGURES},
    )


async def _of(task: Task, typical: Mapping[str, Typical]) -> Quote:
    system, question = task.system, task.question
    pool, planner = system.pool, task.planner
    request = PlanRequest(
        question=question.text, pool=pool, rules=PlanRules(workers=len(pool.workers), max_steps=system.max_steps)
    )
    if isinstance(planner, PromptedPlanner) or getattr(planner, "grow", None):
        return _bounds(task, request, typical)
    proposal = await planner.propose(request)
    steps = proposal.steps or (plan_steps(proposal.plan) if proposal.plan else ())
    return quote(compile_steps(steps), pool=pool, question=question.text, typical=typical)


def _bounds(task: Task, request: PlanRequest, typical: Mapping[str, Typical]) -> Quote:
    pool, planner, most = task.system.pool, task.system.planner, task.system.max_steps
    single = [_repeated(task, worker, 1, typical) for worker in range(len(pool.workers))]
    whole = [_repeated(task, worker, most, typical) for worker in range(len(pool.workers))]
    planning = planner.worst_usd(request) * planner.tries if isinstance(planner, PromptedPlanner) else 0.0

    def spread(name: str, extra: float) -> Range:
        lows = [getattr(offer, name).low for offer in single]
        highs = [getattr(offer, name).high for offer in whole]
        high = None if None in highs else max(highs) + extra
        return Range(low=None if None in lows else min(lows), likely=None, high=high)

    tries = planner.tries if isinstance(planner, PromptedPlanner) else 0
    return Quote(
        calls=spread("calls", tries),
        prompt_tokens=spread("prompt_tokens", 0).model_copy(update={"high": None} if tries else {}),
        completion_tokens=spread("completion_tokens", 0).model_copy(update={"high": None} if tries else {}),
        cost_usd=spread("cost_usd", planning),
        critical_path_s=None,
        unknown=(f"what {task.system.name} will plan is not known before",),
    )


def _judging(question: Question, judge: Pool, typical: Mapping[str, Typical]) -> Quote:
    """Of asking the judge about an answer of whatever length."""
    step = compile_steps([CallStep(worker=0)])
    least, most = (
        quote(step, pool=judge, question=judge_prompt(question, answer), typical=typical)
        for answer in ("", "\0" * LONGEST)  # no character is longer in JSON
    )
    lows = {name: getattr(least, name).low for name in FIGURES}
    return most.model_copy(
        update={name: getattr(most, name).model_copy(update={"low": lows[name]}) for name in FIGURES}
    )


def _repeated(task: Task, worker: int, count: int, typical: Mapping[str, Typical]) -> Quote:
    steps = [CallStep(worker=worker, access="all") for _ in range(count)]
    return quote(compile_steps(steps), pool=task.system.pool, question=task.question.text, typical=typical)
