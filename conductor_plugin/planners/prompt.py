"""The Conductor's prompt, from the readable templates in `conductor_plugin/prompts`.

Inference and training build it with this code alone. The few-shot plans come from domains outside the
benchmarks: they teach the format without offering a strategy to copy (paper, "Prompt").
"""

from functools import cache
from pathlib import Path
from string import Template

from conductor_plugin.context import NO_ANSWER, Message
from conductor_plugin.errors import InputError
from conductor_plugin.planners.base import PlanRequest
from conductor_plugin.receipt import RoundView

PROMPTS = Path(__file__).parent.parent / "prompts"


def build_prompt(request: PlanRequest, *, blind: bool, few_shot: str = "default") -> list[Message]:
    """The messages for a planner: instructions and examples, the question, then its faulty attempts, if any.

    `blind` lists ordinals alone. `few_shot` is the name of a set in `prompts/few_shot`, the path of a .md
    file, or `none`.
    """
    instructions = _read("conductor.md")
    if few_shot != "none":
        instructions = f"{instructions}\n\n{load_few_shot(few_shot)}"
    messages = [
        Message(role="system", content=instructions),
        Message(role="user", content=_question(request, blind)),
    ]
    for fault in request.feedback:
        messages.append(Message(role="assistant", content=fault.completion.strip() or NO_ANSWER))
        messages.append(
            Message(
                role="user",
                content=f"That is no valid plan: {fault.error}. Write the reasoning and all three lists again.",
            )
        )
    return messages


def load_few_shot(name: str) -> str:
    """A few-shot set's text. InputError `few_shot_unknown` if it cannot be read."""
    path = Path(name) if name.endswith(".md") else PROMPTS / "few_shot" / f"{name}.md"
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        known = ", ".join(sorted(p.stem for p in (PROMPTS / "few_shot").glob("*.md")))
        raise InputError(
            f"there is no few-shot set {name!r}; there are {known}, none, or the path of a .md file",
            code="few_shot_unknown",
        ) from None


def _question(request: PlanRequest, blind: bool) -> str:
    rules = request.rules
    conductor = ""
    if rules.conductor:
        conductor = (
            f"Model {rules.workers} is you, the Conductor. As the last step it ends this round, and you plan again "
            "with the outputs that its entry of access_list allows.\n"
        )
    return Template(_read("request.md")).substitute(
        models=request.pool.ordinals() if blind else request.pool.described(),
        max_steps=rules.max_steps,
        conductor=conductor,
        history=_history(request),
        question=request.question,
        earlier=_earlier(request.earlier[-1]) if request.earlier else "",
    )


def _history(request: PlanRequest) -> str:
    if not request.history:
        return ""
    lines = "\n".join(f"{message.role}: {message.content}" for message in request.history)
    return f"\nThe conversation before the question:\n{lines}\n"


def _earlier(view: RoundView) -> str:
    """What the last round leaves to the planner: its lists, and the outputs it may see."""
    plan = view.plan
    outputs = "\n".join(
        f"output of step {seen.index}:\n{_quoted(seen.output if seen.output.strip() else NO_ANSWER)}"
        for seen in view.outputs
    )
    return (
        "\nYou have planned this question before:\n"
        f"model_id = {list(plan.model_id)}\n"
        f"subtasks = {list(plan.subtasks)}\n"
        f"access_list = {[a if a == 'all' else list(a) for a in plan.access_list]}\n"
        f"{outputs or 'You chose to see no outputs.'}\n"
        "Design a workflow that corrects or completes the answer, or write three empty lists to keep it as it is.\n"
    )


def _quoted(text: str) -> str:
    """Worker output as data: every line is marked, so that nothing in it can pass for the prompt's own words."""
    return "\n".join(f"> {line}" for line in text.splitlines())


@cache
def _read(name: str) -> str:
    return (PROMPTS / name).read_text(encoding="utf-8").strip()
