"""Workers of kind `"package.module:callable"`: the user's own code.

The callable takes a `WorkerRequest` and returns the output as a str, or a whole `WorkerReply`; it may be
async. One that is not runs in a thread, so that it cannot hold up the other steps.
"""

import asyncio
import inspect
from functools import cache
from importlib import import_module
from typing import Any

from conductor_plugin.context import WorkerReply, WorkerRequest
from conductor_plugin.errors import PermanentError
from conductor_plugin.worker_spec import WorkerSpec


async def answer(spec: WorkerSpec, request: WorkerRequest) -> WorkerReply:
    """Call the user's function with the request and the pool's `params` as keyword arguments."""
    function, is_async = _load(spec.kind)
    if is_async:
        result = await function(request, **spec.params)
    else:
        result = await asyncio.to_thread(function, request, **spec.params)
    if isinstance(result, str):
        return WorkerReply(output=result)
    if isinstance(result, WorkerReply):
        return result
    raise PermanentError(
        f"{spec.kind} returned {type(result).__name__}; a worker returns a str or a WorkerReply", code="worker_type"
    )


@cache
def _load(kind: str) -> tuple[Any, bool]:
    module, _, name = kind.partition(":")
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise PermanentError(f"cannot load the worker {kind!r}: {error}", code="worker_import") from None
    if not callable(function):
        raise PermanentError(f"the worker {kind!r} is not callable", code="worker_import")
    return function, inspect.iscoroutinefunction(function)
