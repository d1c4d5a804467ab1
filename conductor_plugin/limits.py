"""A worker's limits within this process: concurrency, requests a minute, and the provider's Retry-After.

All steps of all runs of one event loop share them. A limit across processes is the pool file's
`global_limit`, which the Prefect side applies.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from weakref import WeakKeyDictionary

from conductor_plugin.pool import WorkerSpec

_gates: "WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[object, ...], Gate]]" = WeakKeyDictionary()


class Gate:
    """Where the calls of one worker queue. `not_before` is on the clock of `time.monotonic`, in seconds."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._slots = asyncio.Semaphore(spec.max_concurrency) if spec.max_concurrency else contextlib.nullcontext()
        self._spacing = 60.0 / spec.requests_per_minute if spec.requests_per_minute else 0.0
        self._not_before = 0.0

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a free slot and for the worker's next permitted moment."""
        async with self._slots:
            while (wait := self._not_before - time.monotonic()) > 0:  # noqa: ASYNC110 - the moment may move
                await asyncio.sleep(wait)
            if self._spacing:
                self._not_before = time.monotonic() + self._spacing
            yield

    def hold(self, seconds: float) -> None:
        """Let no call through for that long: the provider asked for it, whoever was told."""
        self._not_before = max(self._not_before, time.monotonic() + seconds)


def gate(spec: WorkerSpec) -> Gate:
    """The gate of a worker in the running event loop."""
    gates = _gates.setdefault(asyncio.get_running_loop(), {})
    key = (spec.name, spec.fingerprint, spec.max_concurrency, spec.requests_per_minute)
    if key not in gates:
        gates[key] = Gate(spec)
    return gates[key]
