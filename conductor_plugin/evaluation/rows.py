"""One row for each (system, question, repeat): what the report is made of."""

from typing import Literal

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.evaluation.judge import Judgement
from conductor_plugin.evaluation.sampled import Sampled
from conductor_plugin.grading.verdict import Verdict
from conductor_plugin.models import Frozen
from conductor_plugin.receipt import Answer, RoundRecord

Outcome = Literal["right", "wrong", "unparsed", "no_plan", "failed"]
Topology = Literal["none", "one step", "chain", "tree", "verify", "parallel"]

# What an answer's status means for its row; only a completed one is graded.
_OUTCOMES: dict[str, Outcome] = {"no_plan": "no_plan"}


class Row(Frozen):
    """One answer, graded; unknown figures are None.

    Seconds: `wall_s` from question to answer when it was first answered, beside all else that ran; `calls_s` of
    all calls one after the other and `critical_path_s` of the longest chain, planning included, as each call took when
    it was made.

    `failed`: infrastructure, of a worker or of the grader; it counts neither as right nor as wrong. `no_plan`
    counts as wrong. `workers` are those of the steps that were run, by position.

    `judgement` is what a worker as a second judge says (None: it was not to judge), `judge_usd` what asking it took;
    neither is in `outcome` or `cost_usd`.
    """

    system: str
    benchmark: str
    question: str
    repeat: int
    outcome: Outcome
    level: str | None = None
    subject: str | None = None
    extracted: str | None = None
    error: str | None = None
    calls: int = 0
    steps: int = 0
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    cost_usd: float | None = 0.0
    wall_s: float = 0.0
    calls_s: float = 0.0
    critical_path_s: float = 0.0
    planner_attempts: int = 0
    planner_valid: int = 0
    workers: tuple[str, ...] = ()
    topology: Topology = "none"
    judgement: Judgement | None = None
    judge_usd: float | None = 0.0


def make_row(
    system: str, question: Question, repeat: int, answer: Answer, verdict: Verdict | None, sampled: Sampled
) -> Row:
    """The row of an answer; `verdict` is that of a completed one."""
    steps = [step for record in answer.rounds for step in record.steps if step.status == "completed"]
    calls = [step for step in steps if step.kind not in ("reduce", "conductor")]
    return Row(
        system=system,
        benchmark=question.benchmark,
        question=question.id,
        repeat=repeat,
        outcome=_outcome(answer, verdict),
        level=question.level,
        subject=question.subject,
        extracted=verdict.extracted if verdict else None,
        error=answer.error.code if answer.error else None,
        calls=answer.usage.calls,
        steps=len(calls),
        prompt_tokens=answer.usage.prompt_tokens,
        completion_tokens=answer.usage.completion_tokens,
        cost_usd=answer.usage.cost_usd,
        wall_s=answer.elapsed_s,
        calls_s=sum(step.latency_s or 0.0 for step in calls) + sampled.planning_s,
        critical_path_s=answer.critical_path_s + sampled.planning_s,
        planner_attempts=answer.planner.attempts,
        planner_valid=len(answer.rounds),
        workers=tuple(step.worker for step in calls),
        topology=topology(answer.rounds[-1]) if answer.rounds else "none",
    )


def _outcome(answer: Answer, verdict: Verdict | None) -> Outcome:
    if answer.status != "completed":
        empty = answer.error is not None and answer.error.code == "empty_answer"
        return "unparsed" if empty else _OUTCOMES.get(answer.status, "failed")
    if verdict is None or verdict.outcome == "infrastructure":
        return "failed"
    return verdict.outcome


def topology(record: RoundRecord) -> Topology:
    """The shape of what was run (the paper's kinds): one step, a chain, a tree, or drafts that a last step verifies.

    `verify`: the last step sees all the others, of which at least two are independent; `tree`: other joins;
    `parallel`: steps that none sees.
    """
    steps = [step for step in record.steps if not step.pruned and step.kind != "conductor"]
    if len(steps) <= 1:
        return "one step" if steps else "none"
    place = {step.index: i for i, step in enumerate(steps)}
    sees = [{place[j] for j in step.sees if j in place} for step in steps]
    if all(i - 1 in sees[i] for i in range(1, len(steps))):
        return "chain"
    if not any(sees):
        return "parallel"
    return "verify" if len(sees[-1]) == len(steps) - 1 else "tree"
