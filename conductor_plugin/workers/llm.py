"""Workers of kind `llm`: any model that litellm can reach, OpenAI-compatible and vLLM endpoints included."""

from conductor_plugin.context import WorkerReply, WorkerRequest, build_messages
from conductor_plugin.llm import LLM, complete
from conductor_plugin.worker_spec import WorkerSpec


async def answer(spec: WorkerSpec, request: WorkerRequest) -> WorkerReply:
    """Send the request's messages to the worker's model."""
    assert spec.model is not None
    llm = LLM(
        model=spec.model,
        api_base=spec.api_base,
        api_key_env=spec.api_key_env,
        params=spec.params,
        price=spec.price,
    )
    return await complete(llm, build_messages(request))
