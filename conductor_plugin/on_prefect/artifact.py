"""The run's one markdown artifact: question, lists, drawing, who saw what, and the answer."""

import re

from prefect.artifacts import acreate_markdown_artifact

from conductor_plugin.drawing import draw
from conductor_plugin.receipt import Answer, RoundRecord, StepRecord

ARTIFACT_KEY = "conductor-answer"
_LONGEST = 20_000


async def write_artifact(question: str, answer: Answer) -> None:
    """Create the artifact in the flow run that is running."""
    await acreate_markdown_artifact(
        render_markdown(question, answer), key=ARTIFACT_KEY, description="A question's plan, run and answer"
    )


def render_markdown(question: str, answer: Answer) -> str:
    """The receipt as markdown. Texts of people and models stand in code blocks: they stay text."""
    parts = [
        "## Question",
        quoted(question),
        f"## Answer ({answer.status})",
        quoted(answer.answer if answer.answer is not None else "(none)"),
    ]
    if answer.error:
        parts.append(f"**{answer.error.code}**: {_inline(answer.error.message)}")
    for number, record in enumerate(answer.rounds):
        parts += _round(number, record)
    parts += ["## Totals", "\n".join(_totals(answer))]
    return "\n\n".join(parts) + "\n"


def _totals(answer: Answer) -> list[str]:
    planner, usage = answer.planner, answer.usage
    return [
        "| planner | attempts | calls | tokens in | tokens out | USD | seconds | critical path |",
        "|---|---|---|---|---|---|---|---|",
        f"| {_inline(planner.name)} | {planner.attempts} | {usage.calls} | {_number(usage.prompt_tokens)} "
        f"| {_number(usage.completion_tokens)} | {usd(usage.cost_usd)} | {answer.elapsed_s:.2f} "
        f"| {answer.critical_path_s:.2f} |",
    ]


def _round(number: int, record: RoundRecord) -> list[str]:
    plan = record.plan
    lists = "\n".join(
        [
            f"model_id = {list(plan.model_id)}",
            "subtasks = [" + "".join(f"\n    {text!r}," for text in plan.subtasks) + "\n]",
            f"access_list = {[a if a == 'all' else list(a) for a in plan.access_list]}",
        ]
    )
    drawing = draw(
        [step.worker for step in record.steps],
        [step.sees for step in record.steps],
        {step.index for step in record.steps if step.pruned},
    )
    rows = [
        "| step | worker | sees | status | attempts | in | out | USD | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_row(step) for step in record.steps),
    ]
    parts = [f"## Round {number}", quoted(lists), quoted(drawing), "\n".join(rows)]
    for step in record.steps:
        if step.output is not None:
            parts += [f"### step {step.index} · {_inline(step.worker)}", quoted(step.output)]
    return parts


def _row(step: StepRecord) -> str:
    sees = ", ".join(str(i) for i in step.sees) or "nothing"
    worker = _inline(step.worker) + (f" (for {_inline(step.fallback_from)})" if step.fallback_from else "")
    seconds = "" if step.latency_s is None else f"{step.latency_s:.2f}"
    return (
        f"| {step.index} | {worker} | {sees} | {'pruned' if step.pruned else step.status} | {step.attempts} "
        f"| {_number(step.prompt_tokens)} | {_number(step.completion_tokens)} | {usd(step.cost_usd)} | {seconds} |"
    )


def usd(cost: float | None) -> str:
    """A cost for people: `unknown` where nobody knows it."""
    return "unknown" if cost is None else f"{cost:.4f}"


def _number(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def quoted(text: str) -> str:
    """A code block that the text cannot end: its fence is longer than any run of backquotes in it."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}\n… ({len(text) - _LONGEST} characters more in the run's result)"
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def _inline(text: str) -> str:
    """One line of plain text inside a sentence or a table: nothing in it is markup."""
    marks = r"([\\`*_\[\]<>|#~&:@]|(?<=www)\.)"
    return re.sub(marks, r"\\\1", " ".join(text.split()), flags=re.IGNORECASE)
