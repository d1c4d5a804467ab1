"""A timeout that first reads what has arrived.

`asyncio.timeout` counts the moments in which the event loop was busy with other steps, and when it runs out it
wins over an answer that lies in the socket. That answer has been paid for: throwing it away would pay twice.
"""

import asyncio
from types import TracebackType

# Turns of the loop that an answer needs from the socket to its caller, through the HTTP client and litellm; several
# times over. A turn of an idle loop takes microseconds, one of a busy loop as long as the other steps need.
TURNS = 50


class Patience:
    """`async with Patience(seconds) as clock:` is `asyncio.timeout(seconds)` with some turns of the loop to spare."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._turns = TURNS
        self._timeout = asyncio.timeout(None)

    async def __aenter__(self) -> "Patience":
        await self._timeout.__aenter__()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle = self._loop.call_later(self._seconds, self._turn)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        await self._timeout.__aexit__(kind, error, traceback)

    def expired(self) -> bool:
        """Whether the time ran out."""
        return self._timeout.expired()

    def _turn(self) -> None:
        if self._turns == 0:
            self._timeout.reschedule(self._loop.time())
        else:
            self._turns -= 1
            self._timer = self._loop.call_soon(self._turn)
