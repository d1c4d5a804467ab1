"""The stand-in for paid APIs does what it says: to plain HTTP clients, and to litellm, whose errors the table lists."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.upstream import Default, Delay, Drop, Hang, Html, Status, Text, Truncated, Upstream

SYSTEM_AND_USER = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "one two three"}]
KEY = {"Authorization": "Bearer sk-secret"}


@pytest.fixture
async def client(upstream: Upstream) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=upstream.base_url, headers=KEY, timeout=20) as client:
        yield client


async def ask(client: httpx.AsyncClient, text: str = "one two three", **body: Any) -> httpx.Response:
    messages = [{"role": "user", "content": text}]
    return await client.post("/chat/completions", json={"model": "m", "messages": messages, **body})


def said(response: httpx.Response) -> str:
    return response.json()["choices"][0]["message"]["content"]


async def test_records_what_was_sent_in_order_of_arrival(upstream: Upstream, client: httpx.AsyncClient) -> None:
    for text in ("first", "second"):
        await ask(client, text, temperature=0.5)
    first, second = upstream.requests
    assert first.path == "/v1/chat/completions"
    assert first.headers["authorization"] == "Bearer sk-secret"
    assert first.body["temperature"] == 0.5
    assert [request.body["messages"][0]["content"] for request in (first, second)] == ["first", "second"]
    assert first.received_at < first.finished_at < second.received_at
    upstream.clear()
    assert upstream.requests == []


async def test_default_reply_is_deterministic_and_counts_what_was_sent(
    upstream: Upstream, client: httpx.AsyncClient
) -> None:
    short, again, long = [await ask(client, text) for text in ("one two", "one two", "one " * 500)]
    assert said(short) == said(again) != said(long)
    assert short.json()["usage"] == {"prompt_tokens": 2, "completion_tokens": 5, "total_tokens": 7}
    assert long.json()["usage"]["prompt_tokens"] == 500
    both = await ask(client, messages=SYSTEM_AND_USER)
    assert both.json()["usage"]["prompt_tokens"] == 5


async def test_reply_function_answers_and_is_cut_to_max_tokens() -> None:
    def reply(body: dict[str, Any]) -> str | Status:
        return Status(404, "no such model") if body["model"] == "gone" else "a b c d"

    with Upstream(reply) as up:
        async with httpx.AsyncClient(base_url=up.base_url) as client:
            whole, cut, gone = [await ask(client, **more) for more in ({}, {"max_tokens": 2}, {"model": "gone"})]
    assert (said(whole), whole.json()["choices"][0]["finish_reason"]) == ("a b c d", "stop")
    assert (said(cut), cut.json()["choices"][0]["finish_reason"]) == ("a b", "length")
    assert gone.status_code == 404


async def test_lists_models_and_refuses_what_it_does_not_know(client: httpx.AsyncClient) -> None:
    assert (await client.get("/models")).json()["data"][0]["id"] == "test-model"
    assert (await client.get("/embeddings")).status_code == 404
    assert (await client.post("/chat/completions", content=b"{not json")).status_code == 404


async def test_scripts_choose_by_model_content_and_turn(upstream: Upstream, client: httpx.AsyncClient) -> None:
    upstream.script(Text("slow down"), nth=2, model="a")
    upstream.script(Text("secret"), contains="password", repeat=True)
    upstream.script(Text("hot"), when=lambda body: body.get("temperature", 0) > 1)
    upstream.script(Text("first"), Text("second"))
    asked = [{"model": "a"}, {"model": "a"}, {"text": "password?"}, {"text": "password?"}, {"temperature": 2}, {}]
    answers = [said(await ask(client, **what)) for what in asked]
    assert answers == ["first", "slow down", "secret", "secret", "hot", "second"]
    assert said(await ask(client)).startswith("reply ")


async def test_status_has_openai_shape_and_headers(upstream: Upstream, client: httpx.AsyncClient) -> None:
    upstream.script(Status(429, "too many", "rate_limit_exceeded", retry_after=1.5, headers={"X-Id": "7"}))
    upstream.script(Status(401, "Incorrect API key provided: {authorization}"))
    limited, refused = await ask(client), await ask(client)
    assert (limited.status_code, limited.headers["retry-after"], limited.headers["x-id"]) == (429, "1.5", "7")
    assert limited.json()["error"]["code"] == "rate_limit_exceeded"
    assert "Bearer sk-secret" in refused.json()["error"]["message"]


async def test_texts_are_sent_as_written(upstream: Upstream, client: httpx.AsyncClient) -> None:
    odd_usage = {"prompt_tokens": 1, "completion_tokens": 10**6, "total_tokens": 10**6 + 1}
    texts = [Text(""), Text(None), Text("x" * 5_000_000), Text("{authorization}"), Text("a", usage=False)]
    upstream.script(*texts, Text("a b c", usage=odd_usage))
    empty, null, huge, leak, silent, greedy = [await ask(client, max_tokens=1) for _ in range(6)]
    assert [said(empty), said(null), len(said(huge)), said(leak)] == ["", None, 5_000_000, "Bearer sk-secret"]
    assert "usage" not in silent.json()
    assert (said(greedy), greedy.json()["usage"]) == ("a b c", odd_usage)


async def test_broken_connections_and_pages(upstream: Upstream, client: httpx.AsyncClient) -> None:
    upstream.script(Drop(), Truncated(), Html(), Hang(0.1))
    with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
        await ask(client)
    with pytest.raises(httpx.RemoteProtocolError, match="complete message body"):
        await ask(client)
    page = await ask(client)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html")
    with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
        await ask(client)
    assert said(await ask(client)).startswith("reply ")


async def test_delay_waits_and_goes_on(upstream: Upstream, client: httpx.AsyncClient) -> None:
    upstream.script(Delay(0.2), Delay(0.2, then=Status(503)))
    started = time.monotonic()
    assert [(await ask(client)).status_code for _ in range(2)] == [200, 503]
    assert time.monotonic() - started >= 0.4


async def test_sees_a_client_leave(upstream: Upstream, client: httpx.AsyncClient) -> None:
    upstream.script(Hang(30))
    with pytest.raises(httpx.ReadTimeout):
        await client.post("/chat/completions", json={"messages": []}, timeout=0.1)
    await asyncio.sleep(0.5)
    assert upstream.requests[0].client_left


async def test_streams_words_and_usage(upstream: Upstream, client: httpx.AsyncClient) -> None:
    upstream.script(Text("a b c"))
    response = await ask(client, stream=True, stream_options={"include_usage": True})
    lines = [line for line in response.text.split("\n\n") if line]
    assert (len(lines), lines[-1]) == (6, "data: [DONE]")  # three words, the end, the usage, done
    assert '"content": " c"' in lines[2]
    assert '"completion_tokens": 3' in lines[4]


async def test_holds_a_hundred_hanging_requests(upstream: Upstream) -> None:
    upstream.script(Delay(1.0), repeat=True)
    limits = httpx.Limits(max_connections=100)
    async with httpx.AsyncClient(base_url=upstream.base_url, limits=limits, timeout=20) as client:
        started = time.monotonic()
        await asyncio.gather(*(ask(client) for _ in range(100)))
    assert upstream.peak == 100
    assert time.monotonic() - started < 10


# What litellm 1.110 makes of each fault, with its own retries off. The worker's classification of errors rests on it.
LITELLM_ERRORS = {
    "400": (Status(400), "BadRequestError", 400),
    "401": (Status(401), "AuthenticationError", 401),
    "403": (Status(403), "APIError", 403),
    "404": (Status(404), "NotFoundError", 404),
    "408": (Status(408), "Timeout", 408),
    "409": (Status(409), "APIError", 409),
    "413": (Status(413), "APIError", 413),
    "422": (Status(422), "BadRequestError", 422),
    "429": (Status(429), "RateLimitError", 429),
    "quota": (Status(429, "quota exceeded", "insufficient_quota"), "RateLimitError", 429),
    "500": (Status(500), "InternalServerError", 500),
    "502": (Status(502), "BadGatewayError", 502),
    "503": (Status(503), "ServiceUnavailableError", 503),
    "504": (Status(504), "Timeout", 504),
    "529": (Status(529), "APIError", 529),
    "context": (Status(400, "This model's maximum context length is 8 tokens"), "ContextWindowExceededError", 400),
    # Of these two, as of the context above, it knows the words of the message, not the code.
    "policy": (
        Status(400, "request was rejected as a result of the safety system"),
        "ContentPolicyViolationError",
        400,
    ),
    "policy code": (Status(400, "rejected", "content_policy_violation"), "BadRequestError", 400),
    "drop": (Drop(), "InternalServerError", 500),
    "truncated": (Truncated(), "InternalServerError", 500),
    "html": (Html(), "InternalServerError", 500),
    "hang": (Hang(5), "Timeout", 408),
}


async def ask_litellm(up: Upstream, timeout: float = 60, **more: Any) -> Any:  # noqa: ASYNC109 (litellm's own)
    import litellm

    litellm.suppress_debug_info = True
    call = {"model": "openai/m", "api_base": up.base_url, "api_key": "sk-secret", "messages": SYSTEM_AND_USER}
    return await litellm.acompletion(**call, num_retries=0, max_retries=0, timeout=timeout, **more)


@pytest.mark.parametrize(("fault", "error", "status"), LITELLM_ERRORS.values(), ids=LITELLM_ERRORS)
async def test_litellm_raises(upstream: Upstream, fault: Any, error: str, status: int) -> None:
    upstream.script(fault, repeat=True)
    with pytest.raises(Exception) as caught:  # noqa: PT011 (the class is what is asked)
        await ask_litellm(upstream, timeout=0.5 if isinstance(fault, Hang) else 60)
    assert (type(caught.value).__name__, caught.value.status_code) == (error, status)
    assert len(upstream.requests) == 1


async def test_litellm_passes_on_retry_after_and_the_key(upstream: Upstream) -> None:
    import litellm

    upstream.script(Status(429, "no more for {authorization}", retry_after=7))
    with pytest.raises(litellm.RateLimitError) as caught:
        await ask_litellm(upstream)
    assert caught.value.response.headers["retry-after"] == "7"
    assert "sk-secret" in str(caught.value)  # so whoever shows the error has to scrub it


@pytest.mark.parametrize(
    ("reply", "content", "tokens"),
    [
        (Default(), "reply 70bb7cef to 5 words", (5, 5)),
        (Delay(0.1, then=Text("late")), "late", (5, 1)),
        (Text(""), "", (5, 0)),
        (Text(None), None, (5, 0)),
        (Text("word " * 1_000_000), "word " * 1_000_000, (5, 1_000_000)),
        (Text("{authorization}"), "Bearer sk-secret", (5, 2)),
        (Text("free?", usage=False), "free?", (0, 0)),  # a missing usage reads as zero tokens
    ],
    ids=["default", "delay", "empty", "null", "huge", "key", "no usage"],
)
async def test_litellm_answers(upstream: Upstream, reply: Any, content: str | None, tokens: tuple[int, int]) -> None:
    upstream.script(reply)
    answer = await ask_litellm(upstream)
    assert answer.choices[0].message.content == content
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == tokens


async def test_litellm_streams(upstream: Upstream) -> None:
    upstream.script(Text("a b c"))
    pieces = [piece async for piece in await ask_litellm(upstream, stream=True)]
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == "a b c"
