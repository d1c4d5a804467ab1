"""A worker's limits within this process: concurrency, requests and tokens a minute, the provider's Retry-After.

All steps of all runs of one event loop share them. A limit across processes is the pool file's
`global_limit`, which the Prefect side applies.
"""

import asyncio
import time
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from conductor_plugin.context import Message
from conductor_plugin.worker_spec import WorkerSpec

LONGEST_NAP_S = 1.0
_gates: "WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[object, ...], Gate]]" = WeakKeyDictionary()


class Gate:
    """Where the calls of one worker (or planner) queue: `async with gate(worker):` around each call.

    It lets a call through when a slot is free, the worker's next permitted moment has come, and the tokens of
    earlier calls have been waited for.
    """

    def __init__(
        self,
        max_concurrency: int | None = None,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
    ) -> None:
        self._slots = asyncio.Semaphore(max_concurrency) if max_concurrency else None
        self._spacing = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self._per_token = 60.0 / tokens_per_minute if tokens_per_minute else 0.0
        # Both on the clock of time.monotonic, in seconds.
        self._not_before = 0.0
        self._tokens_until = 0.0

    @property
    def counts_tokens(self) -> bool:
        """Whether `charge` makes a difference."""
        return self._per_token > 0

    async def __aenter__(self) -> None:
        if self._slots:
            await self._slots.acquire()
        try:
            while (wait := max(self._not_before, self._tokens_until) - time.monotonic()) > 0:  # noqa: ASYNC110
                # A moment may move: a provider asks for more, a call took fewer tokens than it was charged for.
                await asyncio.sleep(min(wait, LONGEST_NAP_S) if self._per_token else wait)
        except asyncio.CancelledError:
            await self.__aexit__()
            raise
        if self._spacing:
            self._not_before = time.monotonic() + self._spacing

    async def __aexit__(self, *exception: object) -> None:
        if self._slots:
            self._slots.release()

    def hold(self, seconds: float) -> None:
        """Let no call through for that long: the provider asked for it, whoever was told."""
        self._not_before = max(self._not_before, time.monotonic() + seconds)

    def charge(self, tokens: float) -> None:
        """Count tokens against the limit: those a call is expected to take, then the difference (either sign)."""
        self._tokens_until = max(self._tokens_until, time.monotonic()) + tokens * self._per_token


def expected_tokens(spec: WorkerSpec, messages: Sequence[Message]) -> float:
    """What a call may take, as providers count it beforehand: the prompt (four bytes a token) and `max_tokens`."""
    most = spec.params.get("max_completion_tokens") or spec.params.get("max_tokens") or 0
    return sum(len(message.content.encode()) for message in messages) / 4 + (most if isinstance(most, int) else 0)


def gate(spec: WorkerSpec) -> Gate:
    """The gate of a worker in the running event loop; two pools that name it alike share it."""
    limits = (spec.max_concurrency, spec.requests_per_minute, spec.tokens_per_minute)
    return shared_gate((spec.name, spec.kind, spec.model, spec.api_base, *limits), *limits)


def shared_gate(key: tuple[object, ...], *limits: float | None) -> Gate:
    """The gate of that key in the running event loop; `limits` are those of `Gate`."""
    gates = _gates.setdefault(asyncio.get_running_loop(), {})
    if key not in gates:
        gates[key] = Gate(*limits)  # type: ignore[arg-type]
    return gates[key]
