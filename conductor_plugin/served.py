"""Do the servers of a pool answer, and do they serve its models? Each is asked for its list, `GET /models`, once.

Only OpenAI-compatible servers of one's own are asked, those with an `api_base`. A key goes to the address that the
worker's own calls would take it to, and to no other: a redirect is not followed.
"""

import asyncio
from typing import Literal

from conductor_plugin.errors import ConductorError
from conductor_plugin.llm import api_key
from conductor_plugin.llm_errors import scrub
from conductor_plugin.models import Frozen
from conductor_plugin.pool import Pool
from conductor_plugin.worker_spec import LLM, VLLM_PROVIDERS
from conductor_plugin.workers.llm import llm_of

PATIENCE_S = 5.0
LONGEST_LIST = 10  # models that a sentence names


class Served(Frozen):
    """What was found of one worker (or the planner); `sentence` says it, and what to change."""

    who: str
    model: str
    api_base: str
    state: Literal["served", "not_served", "unreachable"]
    sentence: str


async def check_served(pool: Pool) -> list[Served]:
    """Ask each distinct server and key of the pool once, all at the same time; what is wrong is data, no error."""
    asked = [(worker.name, llm_of(worker)) for worker in pool.workers if worker.kind == "llm"]
    if pool.planner and pool.planner.model:
        spec = pool.planner
        asked.append(("the planner", LLM(model=str(spec.model), api_base=spec.api_base, api_key_env=spec.api_key_env)))
    own = [(who, llm) for who, llm in asked if llm.api_base and llm.model.partition("/")[0] in VLLM_PROVIDERS]
    places = {(llm.api_base, llm.api_key_env): llm for _, llm in own}
    answers = dict(zip(places, await asyncio.gather(*map(_models, places.values())), strict=True))
    return [_found(who, llm, answers[llm.api_base, llm.api_key_env]) for who, llm in own]


def _found(who: str, llm: LLM, answer: list[str] | str) -> Served:
    name, base = llm.model.partition("/")[2], str(llm.api_base)
    if isinstance(answer, str):
        state, sentence = "unreachable", answer
    elif name in answer:
        state, sentence = "served", f"{name} is served at {base}"
    else:
        there = ", ".join(answer[:LONGEST_LIST]) or "nothing"
        state, sentence = "not_served", f"{name} is not served at {base}, which serves {there}"
    return Served.model_validate(
        {"who": who, "model": llm.model, "api_base": base, "state": state, "sentence": f"{who}: {sentence}"}
    )


async def _models(llm: LLM) -> list[str] | str:
    """The names that a server serves, or the sentence that says why they are unknown."""
    import httpx

    base = str(llm.api_base)
    try:
        key = await api_key(llm)
    except ConductorError as error:
        return str(error)
    try:
        async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
            reply = await client.get(f"{base.rstrip('/')}/models", headers={"Authorization": f"Bearer {key}"})
        if reply.status_code in (401, 403):
            return f"{base} refuses the key ({reply.status_code}); name the variable that holds it in api_key_env"
        return [scrub(str(model["id"]), key) for model in reply.raise_for_status().json()["data"]]
    except httpx.TimeoutException:
        return f"{base} does not answer within {PATIENCE_S:g} s"
    except httpx.HTTPStatusError as error:
        return f"{base} answers with status {error.response.status_code}; an OpenAI-compatible server's ends in /v1"
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        return scrub(
            f"{base} cannot be reached ({error or type(error).__name__}); start the server or mend api_base", key
        )
    except (ValueError, KeyError, TypeError):
        return f"{base} answers with something other than a list of models; an OpenAI-compatible server's ends in /v1"
