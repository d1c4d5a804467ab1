"""Workers: one file a kind, each with `async def answer(spec, request) -> WorkerReply`."""

from functools import cache
from importlib import import_module
from typing import Any

from conductor_plugin.context import WorkerReply, WorkerRequest
from conductor_plugin.worker_spec import WorkerSpec

REFUSAL = "I cannot do this."


async def call_worker(spec: WorkerSpec, request: WorkerRequest) -> WorkerReply:
    """Call the worker once. Raises a `WorkerError`; retries, timeouts and limits are the caller's business.

    A kind's module is imported at its first call, so that a pool of tools never loads litellm or torch.
    """
    reply: WorkerReply = await _kind(spec.kind).answer(spec, request)
    return reply


async def prepare_worker(spec: WorkerSpec) -> None:
    """Load what the worker's kind needs, before a timeout runs."""
    if spec.kind == "llm":
        from conductor_plugin.llm import load

        await load()


@cache
def _kind(kind: str) -> Any:
    return import_module(f"conductor_plugin.workers.{'custom' if ':' in kind else kind}")
