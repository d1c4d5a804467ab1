"""A server that is stopped and started again in the middle of a plan: nothing lost, and nothing asked twice."""

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from conductor_plugin.conduct import conduct
from conductor_plugin.on_prefect.flow import conductor
from conductor_plugin.on_prefect.history import whole_history
from conductor_plugin.plan import Plan, render_plan
from conductor_plugin.planners import make_planner
from conductor_plugin.pool import pool_from
from conductor_plugin.receipt import Answer
from tests.openai_wire import text_of
from tests.upstream import Drop, Hang, Text, Upstream

pytestmark = pytest.mark.prefect
# Two steps that are answered at once, one that is in flight as the server goes, one that sees them all.
PLAN = Plan(model_id=(0, 1, 0, 1), subtasks=("first", "second", "third", "fourth"), access_list=((), (), (0,), "all"))
DOWN_S = 1.0


class Restarted:
    """A server that goes away while the request with this text is in flight, and its successor on the same port."""

    def __init__(self, contains: str) -> None:
        self.before = Upstream()
        self.before.script(Hang(60), contains=contains)
        self._contains, self._over = contains, threading.Event()
        self._thread = threading.Thread(target=self._restart)

    def __enter__(self) -> "Restarted":
        self.before.__enter__()
        self.after = Upstream(port=self.before.port)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _restart(self) -> None:
        while not any(self._contains in text_of(one.body) for one in self.before.requests) and not self._over.wait(
            0.02
        ):
            pass
        self.before.__exit__()
        self._over.wait(DOWN_S)
        with self.after:
            self._over.wait()


def asked_of(server: Upstream) -> list[str]:
    """The subtask of each request: the end of its last message."""
    return [text_of(request.body).split("\n")[-1] for request in server.requests]


def content(server: Upstream) -> dict[str, Any]:
    common = {"kind": "llm", "api_base": server.base_url, "timeout_seconds": 30, "retries": 6}
    return {"workers": [{"name": name, "model": f"openai/{name}", **common} for name in ("amber", "blue")]}


async def plain(pool: dict[str, Any], plan: str | None = render_plan(PLAN)) -> Answer:
    members = pool_from(pool)
    return await conduct("q", pool=members, planner=make_planner(members, plan=plan))


async def flow(pool: dict[str, Any], plan: str | None = render_plan(PLAN)) -> Answer:
    async with whole_history():
        state = await conductor("q", pool=pool, plan=plan, return_state=True)
    return await state.result(raise_on_failure=False)


@pytest.mark.parametrize("way", [plain, flow])
async def test_a_restart_amid_a_plan(prefect_sqlite: str, way: Callable[[dict[str, Any]], Awaitable[Answer]]) -> None:
    with Restarted("third") as server:
        answer = await way(content(server.before))
        before, after = asked_of(server.before), asked_of(server.after)
    assert (answer.status, answer.error) == ("completed", None)
    # By the servers' own logs: what was answered is never asked again, and only the call in flight is.
    assert sorted(before) == ["first", "second", "third"]
    assert after == ["third", "fourth"]
    steps = answer.rounds[0].steps
    assert [step.attempts > 1 for step in steps] == [False, False, True, False]
    assert answer.answer == steps[3].output != ""
    # A call that was cut off may have been billed: its tokens are unknown, those of the others are not.
    assert [step.prompt_tokens is None for step in steps] == [False, False, True, False]


@pytest.mark.parametrize("way", [plain, flow])
async def test_a_restart_amid_planning(prefect_sqlite: str, way: Callable[..., Awaitable[Answer]]) -> None:
    with Restarted("The models of this question") as server:
        server.after.script(Text(render_plan(PLAN)), model="planner")
        planner = {"kind": "prompted", "model": "openai/planner", "api_base": server.before.base_url, "retries": 6}
        answer = await way({**content(server.before), "planner": planner}, None)
        before, after = ([one.body["model"] for one in asked.requests] for asked in (server.before, server.after))
    assert (answer.status, answer.error) == ("completed", None)
    assert (before, sorted(after)) == (["planner"], ["amber", "amber", "blue", "blue", "planner"])


@pytest.mark.parametrize("retries", [0, 2])
async def test_a_planner_is_asked_again_as_often_as_its_pool_says(prefect_sqlite: str, retries: int) -> None:
    with Upstream() as server:
        server.script(Drop(), model="planner", repeat=True)
        planner = {"kind": "prompted", "model": "openai/planner", "api_base": server.base_url, "retries": retries}
        for way in (plain, flow):
            answer = await way({**content(server), "planner": planner}, None)
            assert answer.error
            assert answer.error.code == "connection"
            assert len(server.requests) == retries + 1
            server._requests.clear()


async def test_a_server_that_stays_away(prefect_sqlite: str) -> None:
    """The steps that ran stay in the receipt, and the sentence names the step that could not."""
    with Upstream() as server:
        server.script(Hang(0.1), contains="third", repeat=True)
        pool = content(server)
        for worker in pool["workers"]:
            worker["retries"] = 1
        answer = await flow(pool)
        asked = asked_of(server)
    assert answer.status == "failed"
    assert answer.error
    assert answer.error.code == "connection"
    assert [step.status for step in answer.rounds[0].steps] == ["completed", "completed", "failed", "not_started"]
    assert sorted(asked) == ["first", "second", "third", "third"]
