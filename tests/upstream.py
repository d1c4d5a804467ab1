"""A real OpenAI-compatible HTTP server that records what it is asked: the stand-in for paid APIs in tests.

    with Upstream() as up:
        up.script(Status(429, retry_after=1), Drop(), Text("at last"), model="gpt")
        ...                          # a client is pointed at up.base_url and retries
        assert len(up.requests) == 3

A reply is one of the plain dataclasses below. What no script covers is answered by `reply(body)`, a function of
the request that returns a text or one of those dataclasses. The tokens in `usage` are words, as `str.split` counts
them: those of the messages' text, and those of the reply. So usage is real: it grows with what was sent.
"""

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from tests import openai_wire as wire
from tests.openai_wire import Connection, Request, text_of

Body = dict[str, Any]


@dataclass(frozen=True)
class Default:
    """What `reply(body)` says, cut to `max_tokens` words as a real model's answer would be."""


@dataclass(frozen=True)
class Text:
    """This very answer, however long. `Text("")` is the empty answer, `Text(None)` a null one.

    `{authorization}` in it becomes the request's Authorization header. `usage` may also be False, which leaves it
    out, or the object to send.
    """

    content: str | None
    usage: bool | dict[str, int] = True
    finish_reason: str = "stop"


@dataclass(frozen=True)
class Status:
    """An error in OpenAI's shape. `code` is its code, e.g. "insufficient_quota"; `{authorization}` as in Text."""

    status: int
    message: str = "the upstream refuses"
    code: str | None = None
    retry_after: float | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Drop:
    """Close the connection with nothing sent."""


@dataclass(frozen=True)
class Truncated:
    """Half of the body that the headers promise, then the end of the connection."""


@dataclass(frozen=True)
class Html:
    """A web page with status 200, as captive portals and wrong addresses give."""

    page: str = "<!doctype html><title>Welcome</title><h1>Please log in</h1>"


@dataclass(frozen=True)
class Hang:
    """Say nothing for so long, then close."""

    seconds: float


@dataclass(frozen=True)
class Delay:
    """Say nothing for so long, then go on."""

    seconds: float
    then: "Reply" = field(default_factory=Default)


Reply = Default | Text | Status | Drop | Truncated | Html | Hang | Delay


def echo(body: Body) -> str:
    """The default reply: short, and always the same for the same messages."""
    digest = hashlib.sha256(json.dumps(body.get("messages"), sort_keys=True).encode()).hexdigest()[:8]
    return f"reply {digest} to {len(text_of(body).split())} words"


@dataclass
class Script:
    """Replies for the calls that match, one each, from the `nth` match on; `repeat` keeps giving the last."""

    replies: tuple[Reply, ...]
    matches: Callable[[Body], bool]
    nth: int
    repeat: bool
    seen: int = 0

    def next(self, body: Body) -> Reply | None:
        if not self.matches(body):
            return None
        self.seen += 1
        turn = self.seen - self.nth
        if self.repeat:
            turn = min(turn, len(self.replies) - 1)
        return self.replies[turn] if 0 <= turn < len(self.replies) else None


class Upstream:
    """The server, in a thread of its own. Everything public may be used from any thread."""

    def __init__(
        self, reply: Callable[[Body], str | Reply] = echo, *, models: tuple[str, ...] = ("test-model",), port: int = 0
    ) -> None:
        self.base_url = ""
        self.port = port  # 0: a free one
        self._reply, self._models = reply, models
        self._requests: list[Request] = []
        self._scripts: list[Script] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> "Upstream":
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def requests(self) -> list[Request]:
        """Every request so far, in order of arrival."""
        return list(self._requests)

    @property
    def peak(self) -> int:
        """The most requests that were in flight at once."""
        starts = [(request.received_at, 1) for request in self.requests]
        ends = [(request.finished_at, -1) for request in self.requests if request.finished_at]
        return max(accumulate(step for _, step in sorted(starts + ends)), default=0)

    def script(
        self,
        *replies: Reply,
        model: str | None = None,
        contains: str | None = None,
        when: Callable[[Body], bool] | None = None,
        nth: int = 1,
        repeat: bool = False,
    ) -> None:
        """Give these replies to the chat completions that match all of `model`, `contains` (text) and `when`.

        A call that this script has no reply for, or no longer, falls through to the scripts added after it.
        """

        def matches(body: Body) -> bool:
            return (
                (model is None or body.get("model") == model)
                and (contains is None or contains in text_of(body))
                and (when is None or when(body))
            )

        self._scripts.append(Script(replies, matches, nth, repeat))

    def clear(self) -> None:
        """Forget all requests and scripts."""
        self._requests.clear()
        self._scripts.clear()

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        self._ready.set()
        await self._stop.wait()
        server.close()  # asyncio.run cancels the connections that are still open

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        try:
            # Cancelled, it is the end of the server: asyncio would print that as an error.
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while connection.open:
                    await self._answer(await connection.read(), connection)
        finally:
            writer.close()

    async def _answer(self, request: Request, connection: Connection) -> None:
        self._requests.append(request)
        try:
            match request.method, request.path, request.body:
                case "GET", "/v1/models", _:
                    listed = [{"id": name, "object": "model", "owned_by": "tests"} for name in self._models]
                    await connection.send(200, {"object": "list", "data": listed})
                case "POST", "/v1/chat/completions", dict(body):
                    offers = (script.next(body) for script in list(self._scripts))
                    reply = next((offer for offer in offers if offer is not None), Default())
                    await self._perform(reply, request, connection)
                case _:
                    await connection.send(404, wire.error_body(404, "not a chat completion"))
        finally:
            request.finished_at = request.finished_at or time.monotonic()

    async def _perform(self, reply: Reply, request: Request, connection: Connection) -> None:
        body, authorization = request.body, request.headers.get("authorization", "")
        request.reply = reply
        match reply:
            case Default():
                said = self._reply(body)
                if isinstance(said, str):
                    text, finish_reason = wire.cut_to_max_tokens(said, body)
                    said = Text(text, finish_reason=finish_reason)
                await self._perform(said, request, connection)
            case Text(content, usage, finish_reason):
                content = content and content.replace("{authorization}", authorization)
                whole = wire.completion(body, content, usage, finish_reason)
                streams = body.get("stream")
                await (connection.stream(wire.chunks(whole, body)) if streams else connection.send(200, whole))
            case Status(status, message, code, retry_after, headers):
                waits = {} if retry_after is None else {"Retry-After": str(retry_after)}
                error = wire.error_body(status, message.replace("{authorization}", authorization), code)
                await connection.send(status, error, {**waits, **headers})
            case Truncated():
                await connection.send(200, wire.completion(body, "cut"), promise=2)
            case Html(page):
                await connection.send(200, page.encode(), {"Content-Type": "text/html"})
            case Delay(seconds, then):
                request.client_left = await connection.client_leaves_within(seconds)
                if not request.client_left:
                    await self._perform(then, request, connection)
            case Hang(seconds):
                request.client_left = await connection.client_leaves_within(seconds)
                connection.open = False
            case Drop():
                connection.open = False
