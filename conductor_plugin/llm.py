"""One chat completion through litellm, with our errors, usage and cost. Used by workers and planners.

litellm takes seconds to import, so it is imported at the first call. Its own retries are off: there is one
retry layer, and it is not here.
"""

import asyncio
import os
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

from conductor_plugin.budget import BUDGET, worst_case
from conductor_plugin.context import Message, WorkerReply
from conductor_plugin.errors import PermanentError, TransientError
from conductor_plugin.llm_errors import scrub, translate
from conductor_plugin.worker_spec import LLM, Price


async def complete(llm: LLM, messages: Sequence[Message]) -> WorkerReply:
    """Ask once, within the question's budget.

    Raises a WorkerError, free of keys and picklable, never one of litellm's own; BudgetError before the call
    if the budget does not allow it.
    """
    budget = BUDGET.get()
    if budget is None:
        return await _ask(llm, messages)
    with budget.hold(worst_case(llm, price_of(llm), messages), llm.model) as held:
        reply = await _ask(llm, messages)
        held.settle(reply)
    return reply


async def load() -> None:
    """Import litellm, in a thread: it takes seconds, which must stop no event loop and count against no timeout."""
    await asyncio.to_thread(_litellm)


def price_of(llm: LLM) -> Price | None:
    """The pool's own price, else litellm's price map's, else None."""
    if llm.price:
        return llm.price
    entry = price_map_entry(llm.model) or {}
    read, written = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    return None if read is None or written is None else Price(input=read * 1e6, output=written * 1e6)


def price_map_entry(model: str) -> dict[str, Any] | None:
    """What litellm's price map has of a model; None if it does not know it."""
    litellm = _litellm()
    try:
        key = litellm.get_model_info(model)["key"]
    except Exception:  # litellm raises a bare Exception for a model that its map does not know
        return None
    # Of models that have retired it makes an entry up instead, with prices of 0.
    entry: dict[str, Any] | None = litellm.model_cost.get(key)
    return entry


async def _ask(llm: LLM, messages: Sequence[Message]) -> WorkerReply:
    litellm = _litellm()
    key = await api_key(llm)
    failure = None
    try:
        response = await litellm.acompletion(
            model=llm.model,
            messages=[message.model_dump() for message in messages],
            api_base=llm.api_base,
            api_key=key,
            num_retries=0,
            max_retries=0,
            **llm.params,
        )
    except Exception as error:
        failure = translate(error, llm.model, key)
    if failure:  # raised out here, so that litellm's error, which may hold the key, is not its context
        raise failure
    return _reply(llm, response, key)


def _reply(llm: LLM, response: Any, key: str | None) -> WorkerReply:
    try:
        text = response.choices[0].message.content
    except (AttributeError, IndexError, TypeError):
        raise TransientError(
            f"{llm.model} sent a reply that is no chat completion", code="bad_response", maybe_billed=True
        ) from None
    prompt, completion = _tokens(getattr(response, "usage", None))
    return WorkerReply(
        output=scrub(text or "", key),
        model=scrub(response.model or llm.model, key),
        prompt_tokens=prompt,
        completion_tokens=completion,
        cost_usd=_cost(llm, response, prompt, completion),
    )


def _tokens(usage: Any) -> tuple[int | None, int | None]:
    """What the provider says that the call took; None, None where it says nothing that can be true."""
    counts = (getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None))
    possible = all(type(count) is int and count >= 0 for count in counts)
    return counts if possible and any(counts) else (None, None)


def _cost(llm: LLM, response: Any, prompt: int | None, completion: int | None) -> float | None:
    """USD by the pool's own price, else by litellm's price map; None where neither knows."""
    if prompt is None or completion is None:
        return None
    if llm.price:
        return (prompt * llm.price.input + completion * llm.price.output) / 1e6
    try:
        cost = _litellm().completion_cost(completion_response=response, model=llm.model)
    except Exception:  # litellm raises a bare Exception for a model that its map does not know
        return None
    return float(cost) if cost else None


async def api_key(llm: LLM) -> str | None:
    """The key's value; PermanentError `missing_key` if there is none under its name.

    Where a private endpoint has no key named, a dummy: litellm would send OPENAI_API_KEY there.
    """
    name = llm.api_key_env
    if name is None:
        return "no-key" if llm.api_base else None
    if name.startswith("secret/"):
        return await _secret(name.removeprefix("secret/"))
    if not (value := os.environ.get(name)):
        raise PermanentError(
            f"the environment variable {name}, which holds the key for {llm.model}, is not set", code="missing_key"
        )
    return value


async def _secret(block: str) -> str:
    from prefect.blocks.system import Secret

    try:
        secret: Any = await Secret.aload(block)
    except ValueError:
        raise PermanentError(f"there is no Prefect Secret block named {block!r}", code="missing_key") from None
    return str(secret.get())


@cache
def _litellm() -> Any:
    # Both must be set before the import: litellm otherwise fetches a price map and tokenizers from the network.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    os.environ.setdefault("LITELLM_OFFLINE_MODE", "true")
    import litellm

    # pydantic's warnings about odd replies print the reply, in which an upstream may have echoed the key.
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings", category=UserWarning)
    litellm.suppress_debug_info = True
    litellm.drop_params = False
    return litellm
