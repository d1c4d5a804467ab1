"""A worker's limits within this process: concurrency, requests a minute, and the provider's Retry-After.

All steps of all runs of one event loop share them. A limit across processes is the pool file's
`global_limit`, which the Prefect side applies.
"""

import asyncio
import time
from weakref import WeakKeyDictionary

from conductor_plugin.worker_spec import WorkerSpec

_gates: "WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[object, ...], Gate]]" = WeakKeyDictionary()


class Gate:
    """Where the calls of one worker (or planner) queue: `async with gate(worker):` around each call.

    It lets a call through when a slot is free and the worker's next permitted moment has come.
    """

    def __init__(self, max_concurrency: int | None = None, requests_per_minute: float | None = None) -> None:
        self._slots = asyncio.Semaphore(max_concurrency) if max_concurrency else None
        self._spacing = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self._not_before = 0.0  # on the clock of time.monotonic, in seconds

    async def __aenter__(self) -> None:
        if self._slots:
            await self._slots.acquire()
        try:
            while (wait := self._not_before - time.monotonic()) > 0:  # noqa: ASYNC110 - the moment may move
                await asyncio.sleep(wait)
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


def gate(spec: WorkerSpec) -> Gate:
    """The gate of a worker in the running event loop; two pools that name it alike share it."""
    key = (spec.name, spec.kind, spec.model, spec.api_base, spec.max_concurrency, spec.requests_per_minute)
    return shared_gate(key, spec.max_concurrency, spec.requests_per_minute)


def shared_gate(
    key: tuple[object, ...], max_concurrency: int | None = None, requests_per_minute: float | None = None
) -> Gate:
    """The gate of that key in the running event loop."""
    gates = _gates.setdefault(asyncio.get_running_loop(), {})
    if key not in gates:
        gates[key] = Gate(max_concurrency, requests_per_minute)
    return gates[key]
