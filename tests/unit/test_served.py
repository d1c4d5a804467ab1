"""`conductor pool --check`: each server of one's own asked once, and what is wrong told worker by worker."""

import json
import socket
from typing import Any

import pytest

from conductor_plugin.pool import pool_from
from conductor_plugin.served import check_served
from tests.openai_wire import Connection, Request
from tests.unit.test_cli import run
from tests.upstream import Upstream


class Odd(Upstream):
    """A server that answers every request with this."""

    def __init__(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        super().__init__()
        self.answer = (status, body, headers)

    async def _answer(self, request: Request, connection: Connection) -> None:
        self._requests.append(request)
        await connection.send(*self.answer)


def worker(name: str, base: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "kind": "llm", "model": f"openai/{name}", "api_base": base, **fields}


async def test_each_server_is_asked_once_for_all_its_workers() -> None:
    with Upstream(models=("org/a", "b", "planner")) as one, Upstream(models=("c",)) as two:
        workers = [
            worker("first", one.base_url, model="openai/org/a"),
            worker("second", one.base_url + "/", model="hosted_vllm/b"),
            worker("third", one.base_url, model="openai/a"),
            worker("fourth", two.base_url, model="openai/c"),
            {"name": "tool", "kind": "text"},
            {"name": "hosted", "kind": "llm", "model": "openai/gpt-5"},
            worker("other", "http://127.0.0.1:1", model="anthropic/x"),
        ]
        planner = {"kind": "prompted", "model": "openai/planner", "api_base": one.base_url}
        found = await check_served(pool_from({"workers": workers, "planner": planner}))
        asked = [(request.method, request.path) for request in (*one.requests, *two.requests)]
    states = {one.who: one.state for one in found}
    assert states == {
        "first": "served",
        "second": "served",
        "third": "not_served",
        "fourth": "served",
        "the planner": "served",
    }
    assert "third: a is not served at" in found[2].sentence
    assert "serves org/a, b, planner" in found[2].sentence
    assert set(asked) == {("GET", "/v1/models")}
    assert len(asked) == 3  # an address written in two ways counts as two


async def test_a_key_goes_to_its_own_server_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_A", "value-of-a")
    monkeypatch.setenv("OPENAI_API_KEY", "not for strangers")
    with (
        Upstream(models=("a", "b")) as one,
        Upstream(models=("c",)) as two,
        Odd(302, {}, {"Location": one.base_url}) as moved,
    ):
        workers = [
            worker("a", one.base_url, api_key_env="KEY_A"),
            worker("b", one.base_url),
            worker("c", two.base_url),
            worker("d", moved.base_url, api_key_env="KEY_A"),
            worker("e", two.base_url, api_key_env="KEY_NOT_SET"),
        ]
        found = await check_served(pool_from({"workers": workers}))
        sent = [[request.headers["authorization"] for request in server.requests] for server in (one, two, moved)]
    assert [sorted(keys) for keys in sent] == [
        ["Bearer no-key", "Bearer value-of-a"],
        ["Bearer no-key"],
        ["Bearer value-of-a"],
    ]
    assert [one.state for one in found] == ["served", "served", "served", "unreachable", "unreachable"]
    assert "status 302" in found[3].sentence
    assert "KEY_NOT_SET" in found[4].sentence
    assert not any("value-of-a" in one.sentence for one in found)


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (401, {}, "refuses the key (401)"),
        (403, {}, "refuses the key (403)"),
        (404, {}, "answers with status 404"),
        (503, {}, "answers with status 503"),
        (200, b"<html>log in</html>", "something other than a list of models"),
        (200, {"data": [3]}, "something other than a list of models"),
        (200, ["a"], "something other than a list of models"),
        (200, {"data": []}, "which serves nothing"),
    ],
)
async def test_what_is_no_list_of_models(status: int, body: Any, says: str) -> None:
    with Odd(status, body) as server:
        (found,) = await check_served(pool_from({"workers": [worker("a", server.base_url)]}))
    assert says in found.sentence
    assert found.state != "served"


@pytest.mark.parametrize("base", ["http://127.0.0.1:{port}/v1", "http://no.such.host.invalid/v1", "http://a..b/v1"])
async def test_what_cannot_be_reached(base: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = base.format(port=closed.getsockname()[1])
        (found,) = await check_served(pool_from({"workers": [worker("a", address)]}))
    assert found.state == "unreachable"
    assert f"a: {address} cannot be reached" in found.sentence


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    pool = tmp_path / "pool.yaml"
    with Upstream(models=("a",)) as server:
        pool.write_text(json.dumps({"workers": [worker("a", server.base_url), worker("b", server.base_url)]}))
        code, out, _ = run(capsys, "pool", "--pool", pool, "--check")
        assert code == 1
        assert f"served: a: a is served at {server.base_url}" in out
        assert f"not served: b: b is not served at {server.base_url}, which serves a" in out
        code, out, _ = run(capsys, "pool", "--pool", pool, "--check", "--json", "--only", "a")
        assert (code, [one["state"] for one in json.loads(out)["served"]]) == (0, ["served"])
    code, out, _ = run(capsys, "pool", "--pool", pool, "--check", "--json")
    assert (code, {one["state"] for one in json.loads(out)["served"]}) == (1, {"unreachable"})
