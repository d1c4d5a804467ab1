"""Workers of kind `"package.module:callable"`: the user's own code.

The callable takes a `WorkerRequest` and returns the output as a str, or a whole `WorkerReply`; it may be
async. One that is not runs in a thread of its own, so that it cannot hold up the other steps.
"""

import asyncio
import contextlib
import inspect
import threading
from functools import cache
from importlib import import_module
from typing import Any

from conductor_plugin.context import WorkerReply, WorkerRequest
from conductor_plugin.errors import PermanentError
from conductor_plugin.worker_spec import WorkerSpec


async def answer(spec: WorkerSpec, request: WorkerRequest) -> WorkerReply:
    """Call the user's function with the request and the pool's `params` as keyword arguments."""
    function, is_async = _load(spec.kind)
    try:
        result = await (function(request, **spec.params) if is_async else _in_thread(function, request, spec.params))
    except (SystemExit, KeyboardInterrupt) as error:  # a worker does not end the program
        raise PermanentError(f"{spec.kind} raised {type(error).__name__}", code="worker_raised") from None
    if isinstance(result, str):
        return WorkerReply(output=result)
    if isinstance(result, WorkerReply):
        return result
    raise PermanentError(
        f"{spec.kind} returned {type(result).__name__}; a worker returns a str or a WorkerReply", code="worker_type"
    )


async def _in_thread(function: Any, request: WorkerRequest, params: dict[str, Any]) -> Any:
    """Call the function in a daemon thread of its own.

    Not in asyncio's executor: its few threads would make calls wait for one another, and the process would not
    end before a call that has timed out does.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(outcome: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result(outcome) if error is None else done.set_exception(error)

    def call() -> None:
        outcome: Any = None
        failed: BaseException | None = None
        try:
            outcome = function(request, **params)
        except (SystemExit, KeyboardInterrupt) as error:
            failed = PermanentError(f"the worker raised {type(error).__name__}", code="worker_raised")
        except StopIteration:  # no future takes it
            failed = PermanentError("the worker raised StopIteration", code="worker_raised")
        except BaseException as error:
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop may have closed since
            loop.call_soon_threadsafe(settle, outcome, failed)

    threading.Thread(target=call, name="conductor-worker", daemon=True).start()
    return await done


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
