"""Where tasks run: what tells their results from those of other runs, questions and rounds."""

from contextvars import ContextVar
from dataclasses import dataclass

from prefect.context import FlowRunContext

from conductor_plugin.on_prefect.seal import Seal
from conductor_plugin.options import Reuse
from conductor_plugin.worker_spec import digest


@dataclass(frozen=True)
class Scope:
    """The outermost flow run, and where in it: in which start (1: the first), question of a batch, and round.

    `reuse` says whose stored results may stand in for a call: the flow run's own (`run`), any run's with the
    same inputs (`always`), or nobody's (`never`). With a `seal`, Prefect's server may not see any text.
    """

    run: str = ""
    start: int = 1
    reuse: Reuse = "run"
    question: str | None = None
    round: int = 0
    seal: Seal | None = None

    def key(self, parts: list[object]) -> str | None:
        """The cache key of a task's inputs in this scope; None if no stored result may be used."""
        if self.reuse == "never":
            return None
        where = [] if self.reuse == "always" else [self.run, self.question, self.round]
        plain = digest([*parts, *where], 64)
        return self.seal.digest(plain) if self.seal else plain

    def named(self, name: str) -> str:
        """A task run's name, which says whose question of a batch it is for."""
        if self.question is None:
            return name
        return f"{self.seal.digest(self.question)[:12] if self.seal else self.question} · {name}"


SCOPE: ContextVar[Scope] = ContextVar("scope", default=Scope())  # noqa: B039 - it is frozen


def flow_run_id() -> str | None:
    """The id of the flow run that is running in this context."""
    context = FlowRunContext.get()
    return str(context.flow_run.id) if context and context.flow_run else None


def start_scope(reuse: Reuse, seal: Seal | None) -> Scope:
    """Begin the scope of the flow run that is running."""
    context = FlowRunContext.get()
    assert context
    assert context.flow_run
    scope = Scope(run=str(context.flow_run.id), start=context.flow_run.run_count, reuse=reuse, seal=seal)
    SCOPE.set(scope)
    return scope
