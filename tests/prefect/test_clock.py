"""A clock that jumps by an hour, to and fro, at every call: waits, deadlines and latencies go by another clock."""

import datetime
import itertools
import re
import time
from pathlib import Path

import prefect.types._datetime
import pytest

import conductor_plugin
from conductor_plugin.conduct import conduct
from conductor_plugin.on_prefect.flow import conductor
from conductor_plugin.plan import Plan, render_plan
from conductor_plugin.planners import make_planner
from conductor_plugin.pool import pool_from
from tests.upstream import Hang, Status, Upstream

PACKAGE = Path(conductor_plugin.__file__).parent
THREE = render_plan(Plan(model_id=(0, 0, 0), subtasks=("a", "b", "c"), access_list=((), (), "all")))
# Only dates that another machine wrote are compared with the wall clock.
WALL_CLOCK = re.compile(r"\btime\.(?:time|localtime|gmtime)\(|\b(?:date)?time\.(?:now|utcnow|today)\(")
MAY_LOOK = {"llm_errors.py"}


def test_nothing_looks_at_the_wall_clock():
    looking = {path.name for path in PACKAGE.rglob("*.py") if WALL_CLOCK.search(path.read_text())}
    assert looking == MAY_LOOK


class JumpyUpstream(Upstream):
    """With each request, and so while calls are in flight, the clock jumps an hour ahead or back."""

    def __init__(self):
        super().__init__()
        self.ahead_s = 0.0
        self._jumps = itertools.cycle([3600.0, -3600.0])

    async def _answer(self, request, connection):
        self.ahead_s = next(self._jumps)
        await super()._answer(request, connection)


@pytest.fixture
def upstream(monkeypatch):
    real_time, real_now = time.time, prefect.types._datetime.now
    with JumpyUpstream() as server:
        monkeypatch.setattr(time, "time", lambda: real_time() + server.ahead_s)
        monkeypatch.setattr(
            prefect.types._datetime, "now", lambda *a: real_now(*a) + datetime.timedelta(seconds=server.ahead_s)
        )
        yield server


async def plain(pool, **options):
    members = pool_from(pool)
    return await conduct("q", pool=members, planner=make_planner(members, plan=THREE), **options)


async def flow(pool, **options):
    state = await conductor("q", pool=pool, plan=THREE, return_state=True, **options)
    return await state.result(raise_on_failure=False)


def content(upstream, **fields):
    worker = {"name": "amber", "kind": "llm", "model": "openai/m", "api_base": upstream.base_url, **fields}
    return {"workers": [worker]}


@pytest.mark.prefect
@pytest.mark.parametrize("run", [plain, flow])
async def test_waits_and_latencies(prefect_sqlite, upstream, run):
    """A retry's delay, a Retry-After and a rate limit all come to their own length."""
    started = time.monotonic()
    upstream.script(Status(500), Status(429, retry_after=1))
    answer = await run(content(upstream, requests_per_minute=300), deadline_s=60)
    assert answer.status == "completed"
    assert len(upstream.requests) == 5
    steps = answer.rounds[0].steps
    assert all(0 <= step.latency_s < 60 for step in steps)
    assert 0 <= answer.critical_path_s <= answer.elapsed_s < 60
    starts = [request.received_at for request in upstream.requests]
    assert starts[-1] - started >= 4 * 60 / 300
    refused = next(r for r in upstream.requests if r.reply == Status(429, retry_after=1))
    assert min(start for start in starts if start > refused.received_at) >= refused.finished_at + 1


@pytest.mark.prefect
@pytest.mark.parametrize("run", [plain, flow])
async def test_deadlines_and_timeouts(prefect_sqlite, upstream, run):
    started = time.monotonic()
    upstream.script(Hang(90), repeat=True)
    answer = await run(content(upstream), deadline_s=1)
    assert (answer.status, answer.error.code) == ("stopped_deadline", "deadline")
    answer = await run(content(upstream, timeout_seconds=0.5, retries=0))
    assert (answer.status, answer.error.code) == ("failed", "worker_timeout")
    assert time.monotonic() - started < 80
