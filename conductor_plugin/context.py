"""What a worker is shown, and what it gives back.

The message rules are design contract "Worker context", which follows the paper's section on execution:
the question, then a user/assistant pair for each visible step in order, then the worker's own subtask.
"""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, field_validator

from conductor_plugin.models import Frozen

NO_ANSWER = "(no answer)"


class Message(Frozen):
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


class Seen(Frozen):
    """An earlier step as a later one sees it: its number, its instruction and its output."""

    index: int
    subtask: str
    output: str


class WorkerRequest(Frozen):
    """Everything that one call of a worker may depend on.

    `seen` holds exactly the steps that the access list allows, in step order. `sample` tells equal calls
    apart that are made on purpose (five samples of one question stay five calls).
    """

    question: str
    subtask: str = ""
    seen: tuple[Seen, ...] = ()
    history: tuple[Message, ...] = ()
    sample: int = 0


class WorkerReply(Frozen):
    """A worker's output and what it took: tokens, USD (None: unknown, never a guess), the model that answered."""

    output: str
    model: str | None = None
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    cost_usd: Annotated[float, Field(allow_inf_nan=False)] | None = 0.0

    @field_validator("output")
    @classmethod
    def _is_text(cls, output: str) -> str:
        """Half of a surrogate pair is no text and fits into no file; it becomes a question mark."""
        return output.encode("utf-8", "replace").decode()


def build_messages(request: WorkerRequest) -> list[Message]:
    """The chat messages of a call, roles alternating after an optional system message.

    An empty subtask means the bare question: it adds nothing where a user turn has text anyway, and where
    the turn would be empty the question stands in, since providers refuse empty messages.
    """
    parts = [*_system_first(request.history), Message(role="user", content=request.question)]
    for step in request.seen:
        parts.append(Message(role="user", content=step.subtask))
        parts.append(Message(role="assistant", content=step.output if step.output.strip() else NO_ANSWER))
    parts.append(Message(role="user", content=request.subtask))
    return _join_neighbours(parts, request.question)


def _system_first(history: Iterable[Message]) -> list[Message]:
    return sorted(history, key=lambda message: message.role != "system")


def _join_neighbours(parts: list[Message], question: str) -> list[Message]:
    parts = [part for part in parts if part.role == "user" or part.content.strip()]
    messages: list[Message] = []
    i = 0
    while i < len(parts):
        role = parts[i].role
        texts = []
        while i < len(parts) and parts[i].role == role:
            if parts[i].content.strip():
                texts.append(parts[i].content)
            i += 1
        if not texts and role == "user":
            texts = [question]
        if texts:
            messages.append(Message(role=role, content="\n\n".join(texts)))
    return messages
