"""Workers: one file a kind, each with `async def answer(spec, request) -> WorkerReply`."""

from conductor_plugin.context import WorkerReply, WorkerRequest
from conductor_plugin.pool import WorkerSpec

REFUSAL = "I cannot do this."


async def call_worker(spec: WorkerSpec, request: WorkerRequest) -> WorkerReply:
    """Call the worker once. Raises a `WorkerError`; retries, timeouts and limits are the caller's business.

    A kind's module is imported at its first call, so that a pool of tools never loads litellm or torch.
    """
    from importlib import import_module

    module = spec.kind if ":" not in spec.kind else "custom"
    kind = import_module(f"conductor_plugin.workers.{module}")
    reply: WorkerReply = await kind.answer(spec, request)
    return reply
