"""Workers of kind `llm`: any model that litellm can reach, OpenAI-compatible and vLLM endpoints included."""

from conductor_plugin.context import WorkerReply, WorkerRequest, build_messages
from conductor_plugin.llm import complete
from conductor_plugin.worker_spec import LLM, WorkerSpec


async def answer(spec: WorkerSpec, request: WorkerRequest) -> WorkerReply:
    """Send the request's messages to the worker's model."""
    return await complete(llm_of(spec), build_messages(request))


def llm_of(spec: WorkerSpec) -> LLM:
    """The model behind a worker of kind `llm`."""
    assert spec.model is not None
    return LLM(
        model=spec.model,
        api_base=spec.api_base,
        api_key_env=spec.api_key_env,
        params=spec.params,
        price=spec.price,
    )
