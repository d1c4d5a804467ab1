"""The one RetryPolicy: which errors deserve another attempt, how many, and how long to wait.

In the flow the same object configures Prefect's own task retries; elsewhere `with_retries` applies it.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from conductor_plugin.errors import TransientError
from conductor_plugin.models import Frozen

T = TypeVar("T")


class RetryPolicy(Frozen):
    """Exponential back-off with jitter, in seconds. `retries` counts the attempts after the first."""

    retries: int = 3
    first_delay_s: float = 0.5
    factor: float = 2.0
    longest_delay_s: float = 30.0
    jitter: float = 0.3
    longest_wait_s: float = 120.0

    def delays(self) -> list[float]:
        """The wait before each retry, without jitter."""
        return [min(self.first_delay_s * self.factor**i, self.longest_delay_s) for i in range(self.retries)]

    def deserves_retry(self, error: BaseException | None) -> bool:
        """Transient errors do, unless the provider asks for a longer wait than anyone would sit through."""
        return isinstance(error, TransientError) and (error.retry_after_s or 0.0) <= self.longest_wait_s


async def with_retries(call: Callable[[], Awaitable[T]], policy: RetryPolicy) -> T:
    """Await `call()`, again after each error that deserves it; the last error is raised."""
    attempt = 0
    while True:
        try:
            return await call()
        except TransientError as error:
            if attempt >= policy.retries or not policy.deserves_retry(error):
                raise
            asked = error.retry_after_s or 0.0
        await asyncio.sleep(max(asked, policy.delays()[attempt] * random.uniform(1.0, 1.0 + policy.jitter)))
        attempt += 1
