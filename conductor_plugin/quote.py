"""What running a plan may take, before anything is spent: calls, tokens, USD and time.

Each figure is a range. `low`: every call succeeds at once and answers in a word. `likely`: every call succeeds at
once and is like those that were recorded. `high`: every permitted attempt is made and billed at its worst case,
as the budget reserves it, with answers of eight bytes a token; so a run whose budget is `high` is not stopped by it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from conductor_plugin.budget import MESSAGE_TOKENS, TEMPLATE_TOKENS, most_tokens
from conductor_plugin.calls import Typical
from conductor_plugin.context import Message, Seen, WorkerRequest, build_messages
from conductor_plugin.errors import InputError
from conductor_plugin.graph import CallStep, critical_path, needed_steps, topological_order
from conductor_plugin.llm import price_of
from conductor_plugin.models import Frozen
from conductor_plugin.pool import Pool
from conductor_plugin.receipt import total
from conductor_plugin.worker_spec import WorkerSpec
from conductor_plugin.workers.llm import llm_of

if TYPE_CHECKING:
    import networkx

LIKELY_BYTES, MOST_BYTES = 4, 8  # of a token
LONGEST_TOOL_ANSWER = 80_000  # bytes; the embedded tools cut theirs at 20,000 characters


class Range(Frozen):
    """A figure's bounds and its likely value; None where nobody can say."""

    low: float | None = 0.0
    likely: float | None = 0.0
    high: float | None = 0.0


class Quote(Frozen):
    """A plan's figures. `critical_path_s` needs a recorded call of each worker; `unknown` says what is missing."""

    calls: Range
    prompt_tokens: Range
    completion_tokens: Range
    cost_usd: Range
    critical_path_s: float | None
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class _StepQuote:
    calls: Range
    prompt: Range
    completion: Range
    cost: Range
    output_bytes: Range


def quote(
    graph: "networkx.DiGraph[int]",
    *,
    pool: Pool,
    question: str,
    typical: Mapping[str, Typical],
    history: tuple[Message, ...] = (),
    run_all: bool = False,
) -> Quote:
    """The figures of the graph's steps, of those that are needed unless `run_all`.

    `typical` is what calls of each worker, by name, were like so far (see `calls`).
    """
    needed = needed_steps(graph)
    steps: dict[int, _StepQuote] = {}
    latencies: dict[int, float] = {}
    unknown: list[str] = []
    for i in topological_order(graph):
        step = graph.nodes[i]["step"]
        if i not in needed and not run_all:
            continue
        if not isinstance(step, CallStep):
            steps[i] = _StepQuote(Range(), Range(), Range(), Range(), _longest(graph, i, steps))
            continue
        seen = tuple(Seen(index=j, subtask=_subtask(graph, j), output="x") for j in sorted(graph.predecessors(i)))
        request = WorkerRequest(question=question, subtask=step.subtask, seen=seen, history=history)
        worker = pool.workers[step.worker]
        shown = [steps[j].output_bytes for j in graph.predecessors(i)]
        chain = [w.with_caps(step.caps) for w in (worker, *(pool.worker(name) for name in worker.fallbacks))]
        steps[i] = _call(chain, build_messages(request), shown, typical.get(worker.name))
        unknown += [missing for member in chain for missing in _missing(member)]
        if worker.name in typical:
            latencies[i] = typical[worker.name].latency_s
        else:
            unknown.append(f"no call of {worker.name} is recorded yet")
    timed = all(i in latencies for i in steps if isinstance(graph.nodes[i]["step"], CallStep))
    return Quote(
        calls=sum_of(step.calls for step in steps.values()),
        prompt_tokens=sum_of(step.prompt for step in steps.values()),
        completion_tokens=sum_of(step.completion for step in steps.values()),
        cost_usd=sum_of(step.cost for step in steps.values()),
        critical_path_s=critical_path(graph, latencies)[0] if timed else None,
        unknown=tuple(dict.fromkeys(unknown)),
    )


def _call(
    chain: Sequence[WorkerSpec], messages: Sequence[Message], shown: Sequence[Range], typical: Typical | None
) -> _StepQuote:
    """A call of the chain's first worker, which may end at the last of its fallbacks."""
    worker = chain[0]
    size = sum(len(message.content.encode()) for message in messages)
    low, likely, high = (
        total([size, *(getattr(output, bound) for output in shown)]) for bound in ("low", "likely", "high")
    )
    attempts = [1 + member.retries for member in chain]
    own = Range(low=1, likely=typical.output_bytes if typical else None, high=_longest_answer(worker))
    if worker.kind not in ("llm", "local"):
        nothing = Range() if ":" not in worker.kind else Range(low=0, likely=None, high=None)
        return _StepQuote(Range(low=1, likely=1, high=sum(attempts)), nothing, nothing, nothing, own)
    worst = None if high is None else TEMPLATE_TOKENS + len(messages) * MESSAGE_TOKENS + high
    prompt = Range(
        low=_over(low, MOST_BYTES),
        likely=_over(likely, LIKELY_BYTES),
        high=None if worst is None else sum(attempts) * worst,
    )
    completion = Range(
        low=1,
        likely=typical.completion_tokens if typical else None,
        high=total([_times(count, _most_tokens(member)) for count, member in zip(attempts, chain, strict=True)]),
    )
    cost = Range(
        low=_usd(worker, prompt.low, 1),
        likely=_usd(worker, prompt.likely, completion.likely),
        high=total(
            [
                _times(count, _usd(member, worst, _most_tokens(member)))
                for count, member in zip(attempts, chain, strict=True)
            ]
        ),
    )
    return _StepQuote(Range(low=1, likely=1, high=sum(attempts)), prompt, completion, cost, own)


def _usd(worker: WorkerSpec, prompt: float | None, completion: float | None) -> float | None:
    if worker.kind != "llm":
        return None if ":" in worker.kind else 0.0
    price = price_of(llm_of(worker))
    if price is None or prompt is None or completion is None:
        return None
    return (prompt * price.input + completion * price.output) / 1e6


def _most_tokens(worker: WorkerSpec) -> int | None:
    """The most tokens that an answer has; None where the pool file does not bound it."""
    if worker.kind == "llm":
        try:
            return most_tokens(llm_of(worker))
        except InputError:
            return None
    bound = worker.params.get("max_tokens")
    return (bound if isinstance(bound, int) else None) if worker.kind == "local" else 0


def _longest_answer(worker: WorkerSpec) -> float | None:
    if worker.kind in ("llm", "local"):
        return _times(MOST_BYTES, _most_tokens(worker))
    return None if ":" in worker.kind else LONGEST_TOOL_ANSWER


def _longest(graph: "networkx.DiGraph[int]", i: int, steps: Mapping[int, _StepQuote]) -> Range:
    """A reduce step gives one of the outputs that it sees."""
    outputs = [steps[j].output_bytes for j in graph.predecessors(i) if j in steps]
    bounds = {bound: [getattr(output, bound) for output in outputs] for bound in ("low", "likely", "high")}
    return Range(**{bound: None if None in sizes else max(sizes, default=0) for bound, sizes in bounds.items()})


def _missing(worker: WorkerSpec) -> list[str]:
    if ":" in worker.kind:
        return [f"{worker.name} is code of your own, which nobody bounds"]
    if worker.kind != "llm":
        return []
    missing = [] if price_of(llm_of(worker)) else [f"the price of {worker.name} is unknown"]
    return missing if _most_tokens(worker) else [*missing, f"{worker.name} has no max_tokens"]


def _subtask(graph: "networkx.DiGraph[int]", i: int) -> str:
    step = graph.nodes[i]["step"]
    return step.subtask if isinstance(step, CallStep) else ""


def sum_of(ranges: Iterable[Range]) -> Range:
    """The sums of their bounds; None where one of them is."""
    found = list(ranges)
    return Range(**{bound: total([getattr(part, bound) for part in found]) for bound in ("low", "likely", "high")})


def _times(count: float, value: float | None) -> float | None:
    return None if value is None else count * value


def _over(value: float | None, divisor: int) -> float | None:
    return None if value is None else value / divisor


def quote_lines(offer: Quote) -> list[str]:
    """The quote for people: a line for each figure, then what is not known."""
    time = "unknown" if offer.critical_path_s is None else f"{offer.critical_path_s:.2f} s"
    return [*range_lines(offer), f"critical path {time}", *(f"note: {sentence}" for sentence in offer.unknown)]


class Figures(Protocol):
    """What a quote of whatever size has."""

    @property
    def calls(self) -> Range: ...
    @property
    def prompt_tokens(self) -> Range: ...
    @property
    def completion_tokens(self) -> Range: ...
    @property
    def cost_usd(self) -> Range: ...


def range_lines(offer: Figures) -> list[str]:
    """A line for each figure."""
    figures = {
        "calls": offer.calls,
        "tokens in": offer.prompt_tokens,
        "tokens out": offer.completion_tokens,
        "USD": offer.cost_usd,
    }
    lines = [f"{'':<10} {'at least':>12} {'likely':>12} {'at most':>12}"]
    for name, figure in figures.items():
        digits = 4 if name == "USD" else 0
        values = (_said(value, digits) for value in (figure.low, figure.likely, figure.high))
        lines.append(f"{name:<10} " + " ".join(f"{value:>12}" for value in values))
    return lines


def _said(value: float | None, digits: int) -> str:
    return "unknown" if value is None else f"{value:,.{digits}f}"
