"""The planner `trinity[:FOLDER]` (TRINITY, Sakana AI 2025): turn by turn, a policy picks a worker and its role.

A Worker answers; a Thinker suggests how to go on, and may name the next role; a Verifier accepts the answer or asks
for a revision. The run ends when a Verifier accepts, or after five turns, with the latest Worker's answer. A
Verifier before there is any answer becomes a Worker, and so does the last turn if there is none by then.

Trained, the policy is a linear head on a text encoder of the transcript; without a folder it draws uniformly.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from conductor_plugin.graph import CallStep, ReduceStep, Step
from conductor_plugin.models import Frozen
from conductor_plugin.planners.base import PlanRequest, Proposal
from conductor_plugin.planners.choosing import lot
from conductor_plugin.planners.encoder import Encoder, load_encoder
from conductor_plugin.planners.saved import Saved, check_pool, folder_of, read_model, write_model
from conductor_plugin.step import StepResult

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

Role = Literal["worker", "thinker", "verifier"]
ROLES: tuple[Role, ...] = ("worker", "thinker", "verifier")
MOST_TURNS = 5
SUBTASKS: dict[Role, str] = {
    "worker": "",  # the bare question: better than any wrapping of it
    "thinker": (
        "Do not answer the question. Say what is known, what is missing or wrong so far, and how best to go on. If you "
        "know who should be next, end with a line NEXT: WORKER, NEXT: THINKER or NEXT: VERIFIER."
    ),
    "verifier": (
        "Check the latest answer above. Begin your reply with the word ACCEPT if it is right, complete and in the form "
        "that the question asks for; else begin with REVISE and say what must change."
    ),
}
_NEXT = re.compile(r"\bNEXT: *(worker|thinker|verifier)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Turn:
    """One turn so far: who acted as what is not told to the policy beyond the role."""

    role: Role
    output: str

    @property
    def accepts(self) -> bool:
        """Whether it ends the run."""
        return self.role == "verifier" and re.match(r"\W*ACCEPT\b", self.output, re.IGNORECASE) is not None


Policy = Callable[[PlanRequest, Sequence[Turn]], tuple[int, Role]]


def next_steps(request: PlanRequest, results: Sequence[StepResult], policy: Policy) -> tuple[Step, ...]:
    """The next turn, or the final selection of the latest answer, or nothing where that is the last output anyway."""
    of = {subtask: role for role, subtask in SUBTASKS.items()}
    turns = [Turn(of[result.subtask], result.reply.output) for result in results[:MOST_TURNS]]
    end = next((i for i, turn in enumerate(turns) if turn.accepts or i == MOST_TURNS - 1), None)
    if end is None:
        worker, role = policy(request, turns)
        role = _permitted(role, turns)
        return (CallStep(worker=worker, subtask=SUBTASKS[role], access="all"),)
    answer = max(i for i in range(end + 1) if turns[i].role == "worker")
    return () if answer == end or len(results) > end + 1 else (ReduceStep(reduce="pick", argument=answer),)


def _permitted(role: Role, turns: Sequence[Turn]) -> Role:
    """The policy's role, or the one that a Thinker has named, as far as it makes sense."""
    if turns and turns[-1].role == "thinker" and (named := _NEXT.findall(turns[-1].output)):
        role = named[-1].lower()
    answered = any(turn.role == "worker" for turn in turns)
    return "worker" if not answered and (role == "verifier" or len(turns) == MOST_TURNS - 1) else role


@dataclass(frozen=True)
class LinearPolicy:
    """Scores of the workers and of the roles, linear in the encoded transcript and the latest turn's role."""

    encoder: Encoder
    workers: tuple[str, ...]
    head: "Array"

    def __call__(self, request: PlanRequest, turns: Sequence[Turn]) -> tuple[int, Role]:
        """The best worker and the best role."""
        scores = features(self.encoder, request.question, turns) @ self.head
        workers = len(self.workers)
        return int(scores[:workers].argmax()), ROLES[int(scores[workers:].argmax())]

    def save(self, folder: Path) -> None:
        """Save it for `load`."""
        write_model(folder, "trinity", {"workers": self.workers}, {"head": self.head})
        self.encoder.save(folder / "encoder")

    @staticmethod
    def load(folder: Path) -> "LinearPolicy":
        """What `save` wrote. InputError `planner_unreadable` if it is not there."""
        facts, arrays = read_model(folder, "trinity")
        return LinearPolicy(load_encoder(folder / "encoder"), tuple(facts["workers"]), arrays["head"])


def features(encoder: Encoder, question: str, turns: Sequence[Turn]) -> "Array":
    """The encoded transcript, then the latest turn's role as a one-hot (the first entry: no turn yet)."""
    import numpy as np

    transcript = "\n".join([question, *(turn.output for turn in turns)])
    latest = np.zeros(1 + len(ROLES))
    latest[1 + ROLES.index(turns[-1].role) if turns else 0] = 1.0
    return np.concatenate([encoder.encode([transcript])[0], latest])


@cache
def _loaded(saved: Saved) -> LinearPolicy:
    return LinearPolicy.load(folder_of(saved))


class Trinity(Frozen):
    """A growing plan of one step a turn; with `model` None, the turns of (seed, question, turn) by lot."""

    model: Saved | None = None
    seed: int = 0
    name: str = "trinity"
    tries: int = 1

    async def propose(self, request: PlanRequest) -> Proposal:
        """The first turn. InputError `planner_pool` if it was trained on another pool."""
        if self.model:
            check_pool(_loaded(self.model).workers, request.pool, self.name)
        return Proposal(steps=next_steps(request, (), self._policy))

    async def grow(self, request: PlanRequest, results: Sequence[StepResult]) -> Sequence[Step]:
        """The next turn, or the end."""
        return next_steps(request, results, self._policy)

    def _policy(self, request: PlanRequest, turns: Sequence[Turn]) -> tuple[int, Role]:
        if self.model:
            return _loaded(self.model)(request, turns)
        draw = lot(self.seed, f"{len(turns)}\n{request.question}")
        return draw.randrange(len(request.pool.workers)), draw.choice(ROLES)
