"""The wire of `tests.upstream`: HTTP over asyncio streams, and the shapes of OpenAI's JSON.

No web framework, because those refuse to misbehave: they would not drop a connection, nor promise more bytes
than they send.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass
class Request:
    """One recorded request. Times are `time.monotonic()`; `finished_at` is None while it is being answered."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: Any  # parsed, where it is JSON
    received_at: float
    finished_at: float | None = None
    client_left: bool = False  # it hung up while it was made to wait
    reply: object = None


class Connection:
    """One client's connection: HTTP/1.1 with keep-alive, as far as API clients need it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.open = True

    async def read(self) -> Request:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ", 2)
        pairs = (line.split(":", 1) for line in lines[1:] if line)
        headers = {name.strip().lower(): value.strip() for name, value in pairs}
        raw = await self.reader.readexactly(int(headers.get("content-length", 0)))
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            body = raw.decode(errors="replace")
        self.request = Request(method, path, headers, body, time.monotonic())
        return self.request

    async def send(self, status: int, body: object, headers: dict[str, str] | None = None, *, promise: int = 1) -> None:
        """Send a whole response; with `promise=2` its Content-Length is twice too long, and the connection ends."""
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        standard = {"Content-Type": "application/json", "Content-Length": str(len(payload) * promise)}
        self.open = promise == 1
        await self._write(_head(status, {**standard, **(headers or {})}) + payload)

    async def stream(self, events: Iterator[str]) -> None:
        """Server-sent events, ended by the end of the connection."""
        self.open = False
        await self._write(_head(200, {"Content-Type": "text/event-stream", "Connection": "close"}))
        for event in events:
            await self._write(f"data: {event}\n\n".encode())

    async def client_leaves_within(self, seconds: float) -> bool:
        """Wait, but no longer than the client does. It sends nothing before its answer: a read ends as it leaves."""
        try:
            return await asyncio.wait_for(self.reader.read(1), seconds) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True

    async def _write(self, data: bytes) -> None:
        self.request.finished_at = time.monotonic()  # before the client can look
        self.writer.write(data)
        await self.writer.drain()


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def text_of(body: dict[str, Any]) -> str:
    """All text of a request's messages, a line each."""
    contents = [message.get("content") or "" for message in body.get("messages", [])]
    parts = [[{"text": content}] if isinstance(content, str) else content for content in contents]
    return "\n".join(part.get("text", "") for content in parts for part in content)


def cut_to_max_tokens(text: str, body: dict[str, Any]) -> tuple[str, str]:
    """The text that the request's limit leaves, and its finish reason."""
    limit, words = body.get("max_completion_tokens") or body.get("max_tokens"), text.split()
    return (" ".join(words[:limit]), "length") if limit and len(words) > limit else (text, "stop")


def completion(
    body: dict[str, Any], content: str | None, usage: bool | dict[str, int] = True, finish_reason: str = "stop"
) -> dict[str, Any]:
    """A chat completion; the tokens of its usage are words."""
    message = {"role": "assistant", "content": content}
    answer = {
        "id": "chatcmpl-test",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}],
    }
    if usage is True:
        sent, said = len(text_of(body).split()), len((content or "").split())
        usage = {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said}
    return {**answer, "usage": usage} if usage else answer


def chunks(whole: dict[str, Any], body: dict[str, Any]) -> Iterator[str]:
    """The same completion as server-sent events: its words, its finish reason, its usage if asked for."""
    head = {**whole, "object": "chat.completion.chunk"}
    usage, choice = head.pop("usage", None), head.pop("choices")[0]
    words = (choice["message"]["content"] or "").split(" ")
    for index, word in enumerate(words):
        delta = {"role": "assistant", "content": word if index == 0 else f" {word}"}
        yield json.dumps({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield json.dumps({**head, "choices": [last]})
    if usage and (body.get("stream_options") or {}).get("include_usage"):
        yield json.dumps({**head, "choices": [], "usage": usage})
    yield "[DONE]"


def error_body(status: int, message: str, code: str | None = None) -> dict[str, Any]:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
