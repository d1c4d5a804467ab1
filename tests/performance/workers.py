"""Workers for the measuring scripts: their own time is nothing, or exactly what they sleep."""

import asyncio

from conductor_plugin.context import WorkerRequest


async def instant(request: WorkerRequest) -> str:
    """Answer at once."""
    return "ok"


async def sleeper(request: WorkerRequest, seconds: float = 1.0) -> str:
    """Answer after a while."""
    await asyncio.sleep(seconds)
    return "ok"
