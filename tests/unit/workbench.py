"""Workers and pools for the executor's tests: Python callables, so that every call can be watched."""

import asyncio
from collections import Counter
from typing import Any

from conductor_plugin.context import WorkerRequest
from conductor_plugin.errors import PermanentError, TransientError
from conductor_plugin.pool import Pool, pool_from

CALLS: list[tuple[str, WorkerRequest]] = []
RUNNING: Counter[str] = Counter()
OVERLAPS: set[frozenset[str]] = set()
SCRIPTS: dict[str, list[BaseException | str]] = {}


def reset() -> None:
    """Forget what earlier tests did."""
    CALLS.clear()
    RUNNING.clear()
    OVERLAPS.clear()
    SCRIPTS.clear()


async def ok(request: WorkerRequest) -> str:
    """Always the same word: equal outputs must not confuse anything."""
    CALLS.append(("ok", request))
    return "ok"


async def echo(request: WorkerRequest) -> str:
    """What was asked, and by whom it may be influenced."""
    CALLS.append(("echo", request))
    return f"{request.subtask}<{','.join(seen.output for seen in request.seen)}>"


async def sleeper(request: WorkerRequest, default: float = 0.01) -> str:
    """Sleep as many seconds as the subtask says, and note who else was awake."""
    name = request.subtask
    RUNNING[name] += 1
    OVERLAPS.update(frozenset((name, other)) for other in RUNNING if other != name and RUNNING[other])
    try:
        await asyncio.sleep(float(name.split()[-1]) if name else default)
    finally:
        RUNNING[name] -= 1
    CALLS.append(("sleeper", request))
    return name


async def scripted(request: WorkerRequest, script: str = "main") -> str:
    """Follow SCRIPTS[script]: raise the next error, or give the next text."""
    CALLS.append((script, request))
    outcome = SCRIPTS[script].pop(0) if SCRIPTS.get(script) else "done"
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def transient(**fields: Any) -> TransientError:
    """A fault worth another attempt."""
    return TransientError("try again", code="upstream", **fields)


def permanent() -> PermanentError:
    """A fault for good."""
    return PermanentError("never", code="bad_request")


def pool_of(*names: str, **fields: Any) -> Pool:
    """A pool of the workers above; `scripted:x` runs script x."""
    workers = []
    for name in names:
        function, _, script = name.partition(":")
        workers.append(
            {
                "name": name.replace(":", "-"),
                "kind": f"tests.unit.workbench:{function}",
                "params": {"script": script} if script else {},
                **fields,
            }
        )
    return pool_from({"workers": workers})
