"""What actually goes over the wire: access scoping, prompts, faults, keys. The upstream stands in for paid APIs."""

import json
import random

import pytest

from conductor_plugin.conduct import conduct
from conductor_plugin.context import Seen, WorkerRequest, build_messages
from conductor_plugin.graph import compile_plan, needed_steps
from conductor_plugin.on_prefect.flow import conductor
from conductor_plugin.plan import Plan, render_plan
from conductor_plugin.planners import make_planner
from conductor_plugin.pool import pool_from
from tests.upstream import Drop, Html, Status, Text, Truncated

pytestmark = pytest.mark.prefect
KEY = "sk-test-0123456789abcdefghij"


def pool(upstream, names=("amber", "birch"), **fields):
    worker = {"kind": "llm", "api_base": upstream.base_url, "price": {"input": 1.0, "output": 2.0}, **fields}
    return {"workers": [{"name": name, "model": f"openai/{name}-model", **worker} for name in names]}


def by_plan(plan, members):
    return make_planner(members, plan=render_plan(plan))


def sent(request):
    return [(message["role"], message["content"]) for message in request.body["messages"]]


def marker(i):
    return f"secret-of-step-{i}"


async def test_no_request_ever_holds_more_than_its_access_list(upstream):
    """Over random plans: a step's messages are exactly the question, the visible steps and its own instruction."""
    for seed in range(20):
        rng = random.Random(seed)
        n = rng.randint(1, 5)
        access = tuple(tuple(j for j in range(i) if rng.random() < 0.5) for i in range(n))
        plan = Plan(
            model_id=tuple(rng.randrange(2) for _ in range(n)),
            subtasks=tuple(f"do part {i}" for i in range(n)),
            access_list=access,
            reasoning="the planner's private reasoning",
        )
        upstream.clear()
        for i in range(n):
            upstream.script(
                Text(marker(i)), when=lambda body, i=i: body["messages"][-1]["content"].endswith(f"part {i}")
            )
        members = pool_from(pool(upstream))
        answer = await conduct("what?", pool=members, planner=by_plan(plan, members))
        assert answer.answer == marker(n - 1)
        needed = needed_steps(compile_plan(plan))
        assert len(upstream.requests) == len(needed)
        for request in upstream.requests:
            messages = sent(request)
            i = int(messages[-1][1].rsplit(" ", 1)[1])
            seen = tuple(Seen(index=j, subtask=f"do part {j}", output=marker(j)) for j in access[i])
            expected = build_messages(WorkerRequest(question="what?", subtask=f"do part {i}", seen=seen))
            assert messages == [(m.role, m.content) for m in expected]
            text = str(request.body)
            for private in ("private reasoning", "amber-model" if plan.model_id[i] else "birch-model", "Model 0"):
                assert private not in text
            assert not any(marker(j) in text for j in range(n) if j not in access[i])


async def test_the_flow_sends_the_same_as_the_plain_path(upstream, prefect_sqlite):
    plan = Plan(model_id=(0, 1), subtasks=("first", "second"), access_list=((), (0,)))
    upstream.script(Text("one"), Text("two"), Text("one"), Text("two"))
    members = pool_from(pool(upstream))
    plain = await conduct("q", pool=members, planner=by_plan(plan, members))
    flow = await conductor("q", pool=pool(upstream), plan=render_plan(plan))
    assert plain.answer == flow.answer == "two"
    bodies = [sent(request) for request in upstream.requests]
    assert bodies[:2] == bodies[2:]
    assert flow.usage.cost_usd == pytest.approx(plain.usage.cost_usd)
    assert flow.usage.cost_usd > 0


async def test_settings_are_sent_and_usage_is_the_upstreams(upstream):
    members = pool_from(pool(upstream, params={"temperature": 0.2, "max_tokens": 50}))
    plan = Plan(model_id=(0,), subtasks=("",), access_list=((),))
    answer = await conduct("one two three", pool=members, planner=by_plan(plan, members))
    body = upstream.requests[0].body
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("amber-model", 0.2, 50)
    step = answer.rounds[0].steps[0]
    assert step.prompt_tokens
    assert step.completion_tokens
    assert step.cost_usd == pytest.approx((step.prompt_tokens * 1.0 + step.completion_tokens * 2.0) / 1e6)


IMPOSSIBLE = [(-5, 3), (5, -3), (0, 0)]


@pytest.mark.parametrize("usage", [False, *IMPOSSIBLE], ids=str)
async def test_missing_or_impossible_usage_is_unknown_not_zero(upstream, usage):
    """A negative count would give money back to the budget."""
    if usage:
        usage = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    upstream.script(Text("fine", usage=usage))
    members = pool_from(pool(upstream))
    plan = Plan(model_id=(0,), subtasks=("",), access_list=((),))
    answer = await conduct("q", pool=members, planner=by_plan(plan, members))
    step = answer.rounds[0].steps[0]
    assert (answer.answer, step.prompt_tokens, step.cost_usd, answer.usage.cost_usd) == ("fine", None, None, None)


async def test_an_unknown_price_is_unknown(upstream):
    content = pool(upstream)
    for worker in content["workers"]:
        del worker["price"]
    plan = Plan(model_id=(0,), subtasks=("",), access_list=((),))
    members = pool_from(content)
    answer = await conduct("q", pool=members, planner=by_plan(plan, members))
    assert (answer.status, answer.usage.cost_usd) == ("completed", None)


@pytest.mark.parametrize(
    "fault", [Status(429, retry_after=1), Status(500), Status(503), Drop(), Truncated(), Html()], ids=repr
)
async def test_passing_faults_are_tried_again(upstream, fault):
    upstream.script(fault, Text("fine"))
    members = pool_from(pool(upstream, retries=1))
    plan = Plan(model_id=(0,), subtasks=("",), access_list=((),))
    answer = await conduct("q", pool=members, planner=by_plan(plan, members))
    assert (answer.answer, len(upstream.requests)) == ("fine", 2)
    if isinstance(fault, Status) and fault.code == 429:
        assert upstream.requests[1].received_at - upstream.requests[0].finished_at >= 1.0


@pytest.mark.parametrize(
    ("status", "code"), [(400, "bad_request"), (401, "bad_key"), (403, "bad_key"), (404, "no_such_model")]
)
async def test_lasting_faults_are_not(upstream, status, code):
    upstream.script(Status(status), repeat=True)
    members = pool_from(pool(upstream, retries=3))
    plan = Plan(model_id=(0,), subtasks=("",), access_list=((),))
    answer = await conduct("q", pool=members, planner=by_plan(plan, members))
    assert (answer.status, answer.error.code, len(upstream.requests)) == ("failed", code, 1)


async def test_keys_are_sent_but_never_shown(upstream, monkeypatch):
    monkeypatch.setenv("AMBER_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-must-never-leave-0123456789")
    plan = Plan(model_id=(0,), subtasks=("",), access_list=((),))
    upstream.script(Status(400, message="bad header {authorization}"))
    upstream.script(Text("you sent {authorization}"), nth=2)
    for named in (True, True, False):
        content = pool(upstream, names=("amber",), **({"api_key_env": "AMBER_KEY"} if named else {}))
        members = pool_from(content)
        answer = await conduct("q", pool=members, planner=by_plan(plan, members))
        assert "0123456789" not in json.dumps(answer.to_json())
        header = upstream.requests[-1].headers["authorization"]
        assert header == (f"Bearer {KEY}" if named else "Bearer no-key")


async def test_the_prompted_planner_over_http(upstream, prefect_sqlite):
    """Resampling tells what was wrong, descriptions are shown only when not blind, and names never."""
    good = "thinking\nmodel_id = [1, 0]\nsubtasks = ['draft', 'check']\naccess_list = [[], 'all']"
    members = pool(upstream)
    for worker, text in zip(members["workers"], ("careful with proofs", "quick drafts"), strict=True):
        worker["describe"] = text
    members["planner"] = {"kind": "prompted", "model": "openai/planner-model", "api_base": upstream.base_url}
    for blind in (False, True):
        upstream.clear()
        upstream.script(Text("no lists"), Text(good), Text("draft"), Text("final"))
        answer = await conductor("the question", pool=members, blind=blind)
        assert (answer.answer, answer.planner.name, answer.planner.attempts) == ("final", "openai/planner-model", 2)
        assert (answer.usage.calls, [r.path for r in upstream.requests]) == (4, ["/v1/chat/completions"] * 4)
        first, second = (sent(request) for request in upstream.requests[:2])
        assert ("careful with proofs" in str(first)) is not blind
        assert "amber" not in str(first)
        assert second[: len(first)] == first
        assert second[len(first)] == ("assistant", "no lists")
        assert "the list model_id is missing" in second[-1][1]
        assert "thinking" not in str([r.body for r in upstream.requests[2:]])
