"""Faults of a real upstream: how each is classified, how often it is tried, who waits for it, and who steps in."""

import asyncio
import email.utils
import pickle
import socket
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from conductor_plugin import llm
from conductor_plugin.conduct import conduct
from conductor_plugin.errors import (
    ContentPolicyError,
    ContextTooLongError,
    PermanentError,
    QuotaError,
    TransientError,
    WorkerError,
    WorkerTimeout,
)
from conductor_plugin.graph import CallStep
from conductor_plugin.on_prefect.flow import conductor
from conductor_plugin.on_prefect.history import whole_history
from conductor_plugin.plan import Plan, render_plan
from conductor_plugin.planners import make_planner
from conductor_plugin.pool import pool_from
from conductor_plugin.step import StepJob, run_step
from tests.upstream import Delay, Drop, Hang, Html, Status, Text, Truncated, Upstream

pytestmark = pytest.mark.prefect
ONE = Plan(model_id=(0,), subtasks=("",), access_list=((),))


@dataclass(frozen=True)
class Json:
    """This very body with status 200, as JSON whatever it is."""

    body: Any
    headers: dict[str, str] = field(default_factory=dict)


class RawUpstream(Upstream):
    """An upstream that can also say what is no chat completion."""

    async def _perform(self, reply, request, connection):
        if not isinstance(reply, Json):
            return await super()._perform(reply, request, connection)
        request.reply = reply
        await connection.send(200, reply.body, reply.headers)


@pytest.fixture
def upstream():
    with RawUpstream() as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def _litellm_is_loaded():
    import litellm  # noqa: F401 - seconds of import would count as a worker's


def content(upstream, *names, **fields):
    common = {"kind": "llm", "api_base": upstream.base_url, "timeout_seconds": 20, **fields}
    return {"workers": [{"name": name, "model": f"openai/{name}", **common} for name in names or ("amber",)]}


async def plain(pool, plan=ONE, **options):
    members = pool_from(pool)
    return await conduct("q", pool=members, planner=make_planner(members, plan=render_plan(plan)), **options)


async def flow(pool, plan=ONE, **options):
    async with whole_history():
        state = await conductor("q", pool=pool, plan=render_plan(plan), return_state=True, **options)
    return await state.result(raise_on_failure=False)


def completion(**choice):
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice] if choice else []}


LONG = "This model's maximum context length is 8192 tokens, however you requested 9000."
RULES = "Invalid prompt: it was flagged as potentially violating our usage policy."
SAFETY = "Your request was rejected as a result of our safety system."
SPENT = Status(429, "You exceeded your current quota, please check your plan.", "insufficient_quota")
SHAPE = {"bad_response", "upstream"}
# What the upstream does; our class, its code (or one of them), and whether it deserves another attempt.
FAULTS = {
    "400": (Status(400), PermanentError, "bad_request", False),
    "401": (Status(401), PermanentError, "bad_key", False),
    "402": (Status(402), QuotaError, "quota", False),
    "403": (Status(403), PermanentError, "bad_key", False),
    "404": (Status(404), PermanentError, "no_such_model", False),
    "408": (Status(408), WorkerTimeout, "timeout", True),
    "409": (Status(409), TransientError, "upstream", True),
    "413": (Status(413), PermanentError, "bad_request", False),
    "422": (Status(422), PermanentError, "bad_request", False),
    "429": (Status(429), TransientError, "rate_limit", True),
    "429 quota": (SPENT, QuotaError, "quota", False),
    "500": (Status(500), TransientError, "upstream", True),
    "502": (Status(502), TransientError, "upstream", True),
    "503": (Status(503), TransientError, "upstream", True),
    "504": (Status(504), WorkerTimeout, "timeout", True),
    "529": (Status(529), TransientError, "upstream", True),
    "context by code": (Status(400, code="context_length_exceeded"), ContextTooLongError, "context_too_long", False),
    "context by words": (Status(400, LONG), ContextTooLongError, "context_too_long", False),
    "policy by code": (Status(400, code="content_policy_violation"), ContentPolicyError, "content_policy", False),
    "policy by Azure's code": (Status(400, code="content_filter"), ContentPolicyError, "content_policy", False),
    "policy by words": (Status(400, RULES), ContentPolicyError, "content_policy", False),
    "policy by other words": (Status(400, SAFETY), ContentPolicyError, "content_policy", False),
    "dropped": (Drop(), TransientError, "connection", True),
    "half of the bytes": (Truncated(), TransientError, "connection", True),
    "half of the JSON": (Json(b'{"id": "c", "choices": [{"mess'), TransientError, SHAPE, True),
    "a hang": (Hang(30), WorkerTimeout, "worker_timeout", True),
    "a web page": (Html(), TransientError, SHAPE, True),
    "an empty object": (Json({}), TransientError, SHAPE, True),
    "no choices": (Json(completion()), TransientError, SHAPE, True),
    "no message": (Json(completion(index=0, finish_reason="stop", message=None)), TransientError, SHAPE, True),
    "a list": (Json([1]), TransientError, SHAPE, True),
    "nothing": (Json(b""), TransientError, SHAPE, True),
}


@pytest.mark.parametrize(("fault", "kind", "code", "again"), FAULTS.values(), ids=FAULTS)
async def test_every_fault_is_classified_and_tried_again_only_where_it_helps(upstream, fault, kind, code, again):
    upstream.script(fault, fault)
    pool = content(upstream, retries=1, timeout_seconds=0.5 if isinstance(fault, Hang) else 20)
    worker = pool_from(pool).workers[0]
    with pytest.raises(WorkerError) as caught:
        await run_step(StepJob(0, CallStep(worker=0, subtask=""), worker, "q"), ())
    error = pickle.loads(pickle.dumps(caught.value))
    assert (type(error), error.code in (code if isinstance(code, set) else {code})) == (kind, True), error.code
    assert "Traceback" not in str(error)
    answer = await plain(pool)
    assert (answer.status == "completed") is again
    assert len(upstream.requests) == (3 if again else 2)
    assert answer.rounds[0].steps[0].attempts == (2 if again else 1)


def _closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def test_an_endpoint_that_is_not_there_is_tried_again_and_has_billed_nothing(upstream):
    for base in (f"http://127.0.0.1:{_closed_port()}/v1", "http://no-such-host.invalid/v1"):
        answer = await plain(content(upstream, api_base=base, retries=1))
        step = answer.rounds[0].steps[0]
        assert (answer.status, answer.error.code, step.attempts) == ("failed", "connection", 2)
        assert step.cost_usd == 0.0


@pytest.mark.parametrize("model", ["nosuchprovider/model", "no-such-model-at-all"])
async def test_a_model_that_nobody_knows_fails_at_once(model):
    answer = await plain({"workers": [{"name": "amber", "kind": "llm", "model": model}]})
    assert (answer.status, answer.error.code, answer.rounds[0].steps[0].attempts) == ("failed", "bad_request", 1)
    assert model in answer.error.message


@pytest.mark.parametrize("nothing", [Text(""), Text(None), Text(" \n")], ids=repr)
@pytest.mark.parametrize("run", [plain, flow])
async def test_an_empty_answer_is_paid_for_once_and_is_a_failure(upstream, prefect_sqlite, nothing, run):
    upstream.script(nothing, repeat=True)
    answer = await run(content(upstream))
    assert (answer.status, answer.error.code, len(upstream.requests)) == ("failed", "empty_answer", 1)


@pytest.mark.parametrize("run", [plain, flow])
async def test_an_answer_of_five_megabytes_arrives_whole_and_is_passed_on(upstream, prefect_sqlite, run):
    large = "word " * 1_000_000
    upstream.script(Text(large), Text("read"))
    answer = await run(content(upstream), Plan(model_id=(0, 0), subtasks=("", "read"), access_list=((), (0,))))
    assert (answer.status, answer.answer, answer.rounds[0].steps[0].output == large) == ("completed", "read", True)
    assert upstream.requests[1].body["messages"][1]["content"] == large


# A smaller sample through the flow: its retries are Prefect's, the judgement is the same.
@pytest.mark.parametrize(
    "name", ["429 quota", "503", "policy by code", "context by words", "half of the JSON", "dropped", "no choices"]
)
async def test_the_flow_judges_alike(upstream, prefect_sqlite, name):
    fault, _, code, again = FAULTS[name]
    upstream.script(fault)
    answer = await flow(content(upstream, retries=1))
    step = answer.rounds[0].steps[0]
    assert ((answer.status == "completed"), len(upstream.requests), step.attempts) == (again, 1 + again, 1 + again)
    assert answer.error is None or answer.error.code == code


@pytest.mark.parametrize("run", [plain, flow])
async def test_a_refusal_by_policy_has_its_own_status(upstream, prefect_sqlite, run):
    """The command line exits with 3 on it (design contract "CLI")."""
    upstream.script(Status(400, code="content_policy_violation"), repeat=True)
    answer = await run(content(upstream))
    assert (answer.status, answer.error.code) == ("stopped_policy", "content_policy")


async def test_the_time_to_import_litellm_is_not_the_workers(upstream, monkeypatch):
    real, waits = llm._litellm, [1.5]

    def slow():
        time.sleep(waits.pop() if waits else 0)  # an import holds up the loop just so
        return real()

    monkeypatch.setattr(llm, "_litellm", slow)
    answer = await plain(content(upstream, timeout_seconds=1))
    assert (answer.status, answer.rounds[0].steps[0].attempts, waits) == ("completed", 1, [])


def number(seconds):
    return str(seconds)


def date(seconds):
    return email.utils.formatdate(time.time() + seconds + 1, usegmt=True)


@pytest.mark.parametrize(
    ("status", "form", "run"),
    [(429, number, plain), (429, date, plain), (503, date, plain), (504, number, plain), (429, number, flow)],
)
async def test_retry_after_binds_every_step_of_the_process(upstream, prefect_sqlite, status, form, run):
    wait = 1.5
    upstream.script(Status(status, headers={"Retry-After": form(wait)}))
    pool = content(upstream)
    first = asyncio.create_task(run(pool))
    while not (first.done() or (upstream.requests and upstream.requests[0].finished_at)):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)  # until the client has read the answer
    side_by_side = Plan(model_id=(0, 0, 0), subtasks=("a", "b", ""), access_list=((), (), "all"))
    answers = await asyncio.gather(first, *(run(pool, side_by_side) for _ in range(2)))
    assert [answer.status for answer in answers] == ["completed"] * 3
    refused, *others = upstream.requests
    assert len(others) == 7
    assert min(request.received_at for request in others) >= refused.finished_at + wait


async def test_a_planner_honours_retry_after_too(upstream):
    upstream.script(Status(429, retry_after=1), Text(render_plan(ONE)), model="planner")
    planner = {"kind": "prompted", "model": "openai/planner", "api_base": upstream.base_url}
    members = pool_from({**content(upstream), "planner": planner})
    answer = await conduct("q", pool=members, planner=make_planner(members))
    refused, again, _ = upstream.requests
    assert (answer.status, answer.planner.attempts) == ("completed", 2)
    assert again.received_at >= refused.finished_at + 1


@pytest.mark.parametrize("run", [plain, flow])
async def test_a_wait_that_nobody_would_sit_through_fails_at_once(upstream, prefect_sqlite, run):
    upstream.script(Status(429, retry_after=3600), Text("fine"))
    answer = await run(content(upstream))
    assert (answer.status, answer.error.code, len(upstream.requests)) == ("failed", "rate_limit", 1)
    answer = await run(content(upstream), deadline_s=60)  # nor is anybody else made to wait
    assert (answer.status, len(upstream.requests)) == ("completed", 2)


# What amber does, what birch does; whose answer it is (None: nobody's), and the requests that amber and birch got.
FALLBACKS = {
    "after the retries": (Status(503), Text("from birch"), "birch", (2, 1)),
    "after dropped connections": (Drop(), Text("from birch"), "birch", (2, 1)),
    "at once after a wrong key": (Status(401), Text("from birch"), "birch", (1, 1)),
    "at once after a refusal": (Status(400, code="content_policy_violation"), Text("from birch"), "birch", (1, 1)),
    "to the next but one": (Status(404), Status(404), "cedar", (1, 1)),
    "not where it works": (Text("from amber"), Text("from birch"), "amber", (1, 0)),
}


@pytest.mark.parametrize("run", [plain, flow])
@pytest.mark.parametrize(("amber", "birch", "answers", "requests"), FALLBACKS.values(), ids=FALLBACKS)
async def test_a_fallback_steps_in(upstream, prefect_sqlite, run, amber, birch, answers, requests):
    upstream.script(amber, model="amber", repeat=True)
    upstream.script(birch, model="birch", repeat=True)
    upstream.script(Text("from cedar"), model="cedar", repeat=True)
    pool = content(upstream, "amber", "birch", "cedar", retries=1)
    pool["workers"][0]["fallbacks"] = ["birch", "cedar"]
    answer = await run(pool)
    step = answer.rounds[0].steps[0]
    assert (answer.answer, step.worker, step.model) == (f"from {answers}", answers, answers)
    assert step.fallback_from == (None if answers == "amber" else "amber")
    asked = [request.body["model"] for request in upstream.requests]
    assert (asked.count("amber"), asked.count("birch")) == requests
    assert step.attempts == answer.usage.calls == len(asked)


@pytest.mark.parametrize("run", [plain, flow])
async def test_the_last_fallbacks_error_is_the_steps(upstream, prefect_sqlite, run):
    upstream.script(Status(401), model="amber")
    upstream.script(Status(404), model="birch")
    pool = content(upstream, "amber", "birch")
    pool["workers"][0]["fallbacks"] = ["birch"]
    answer = await run(pool)
    assert (answer.status, answer.error.code, answer.usage.calls) == ("failed", "no_such_model", 2)


@pytest.mark.parametrize("run", [plain, flow])
async def test_limits_hold_over_all_questions_of_a_process(upstream, prefect_sqlite, run):
    """Concurrency is seen in the upstream's own log, and so is the rate; calls that fail count as well."""
    four = Plan(model_id=(0,) * 4, subtasks=("a", "b", "c", ""), access_list=((), (), (), "all"))
    upstream.script(Delay(0.1, Status(500)), Delay(0.1, Drop()), *[Delay(0.1)] * 30)
    answers = await asyncio.gather(*(run(content(upstream, max_concurrency=2), four) for _ in range(3)))
    assert [answer.status for answer in answers] == ["completed"] * 3
    assert (len(upstream.requests), upstream.peak) == (14, 2)

    upstream.clear()
    upstream.script(Status(500))
    started = time.monotonic()
    answers = await asyncio.gather(*(run(content(upstream, requests_per_minute=600), four) for _ in range(2)))
    assert [answer.status for answer in answers] == ["completed"] * 2
    assert len(upstream.requests) == 9
    assert upstream.requests[-1].received_at - started >= 8 * 60 / 600
