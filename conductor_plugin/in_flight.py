"""Equal calls that are made at once, made once: who asks while one is being paid for waits for its answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

Key = TypeVar("Key")
T = TypeVar("T")


async def once(
    flying: dict[Key, asyncio.Task[T]],
    key: Key,
    find: Callable[[], Awaitable[T | None]],
    pay: Callable[[], Awaitable[T]],
) -> T:
    """What `find` has, or what the one call of `pay` gives that all who ask now share.

    `flying` holds the calls that are being paid for. Where whoever pays is cancelled, one of those who wait pays.
    """
    while True:
        while (task := flying.get(key)) is not None:
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                if (current := asyncio.current_task()) and current.cancelling():
                    raise
                # whoever paid was cancelled: it is our turn
        if (found := await find()) is not None:
            return found
        if key not in flying:  # nobody began to pay while we were looking
            break
    task = asyncio.ensure_future(pay())
    flying[key] = task
    try:
        return await task
    finally:
        flying.pop(key, None)
