"""The same flow run, started again: what was paid for is not asked for twice, and counts against the budget."""

from functools import partial

import pytest
from prefect.client.orchestration import get_client
from prefect.flow_engine import run_flow
from prefect.states import Scheduled

from conductor_plugin.on_prefect.flow import conductor
from conductor_plugin.plan import Plan, render_plan
from tests.upstream import Status, Text

pytestmark = pytest.mark.prefect

PRICE = {"input": 0.0, "output": 1e6}  # a dollar for each token of an answer, prompts for nothing


def pool(upstream, **worker):
    llm = {"kind": "llm", "api_base": upstream.base_url, "retries": 0, "price": PRICE, "params": {"max_tokens": 10}}
    planner = {"kind": "prompted", "api_base": upstream.base_url, "price": PRICE, "params": {"max_tokens": 100}}
    workers = [{"name": name, "model": f"openai/{name}", **llm, **worker} for name in ("a", "b")]
    return {"workers": workers, "planner": {**planner, "model": "openai/planner"}}


def chain(*models):
    """A plan whose every step sees the one before."""
    steps = range(len(models))
    access = tuple((i - 1,) if i else () for i in steps)
    return render_plan(Plan(model_id=models, subtasks=tuple(f"step {i}" for i in steps), access_list=access))


async def again(run_id, question, parameters):
    """The answer of a finished run that is started again."""
    async with get_client() as client:
        await client.set_flow_run_state(run_id, Scheduled(name="AwaitingRetry"), force=True)
        flow_run = await client.read_flow_run(run_id)
    state = await run_flow(conductor, flow_run, {"question": question, **parameters}, return_type="state")
    return await state.result(raise_on_failure=False)


async def first(**parameters):
    """A run that fails; it, and how to start it again."""
    state = await conductor("q", **parameters, return_state=True)
    answer = await state.result(raise_on_failure=False)
    assert answer.status == "failed"
    return answer, partial(again, answer.flow_run_id, "q", parameters)


async def test_a_plan_and_its_finished_steps_are_not_asked_again(prefect_sqlite, upstream):
    upstream.script(Text(chain(0, 1, 0)), model="planner")
    upstream.script(Text("one"), Text("three"), model="a")
    upstream.script(Status(400), Text("two"), model="b")
    failed, repeat = await first(pool=pool(upstream))
    assert [step.status for step in failed.rounds[0].steps] == ["completed", "failed", "not_started"]
    answer = await repeat()
    assert (answer.answer, answer.status, answer.flow_run_id) == ("three", "completed", failed.flow_run_id)
    assert [request.body["model"] for request in upstream.requests] == ["planner", "a", "b", "b", "a"]
    # The receipt is of the run, of all its starts.
    assert [step.attempts for step in answer.rounds[0].steps] == [1, 1, 1]
    assert (answer.planner.attempts, answer.usage.calls) == (1, 4)


async def test_a_later_round_is_not_asked_again_either(prefect_sqlite, upstream):
    recurse = "model_id = [0, 2]\nsubtasks = ['step 0', '']\naccess_list = [[], 'all']"
    upstream.script(Text(recurse), Text(chain(0, 1)), model="planner")
    upstream.script(Text("one"), Text("one again"), model="a")
    upstream.script(Status(400), Text("two"), model="b")
    failed, repeat = await first(pool=pool(upstream), max_rounds=1)
    assert [len(record.steps) for record in failed.rounds] == [2, 2]
    answer = await repeat()
    assert (answer.answer, answer.status) == ("two", "completed")
    assert [request.body["model"] for request in upstream.requests] == ["planner", "a", "planner", "a", "b", "b"]


# Step 0 took 1 USD. Step 1 may have been in flight when the first start ended, for at most 10; so its second call,
# for at most 10 as well, needs a budget of 21.
@pytest.mark.parametrize(("budget_usd", "status"), [(20.9, "stopped_budget"), (21.0, "completed")])
async def test_what_earlier_starts_took_counts(prefect_sqlite, upstream, budget_usd, status):
    upstream.script(Text("one"), model="a")
    upstream.script(Status(400), Text("two"), model="b")
    _, repeat = await first(pool=pool(upstream), plan=chain(0, 1), budget_usd=budget_usd)
    answer = await repeat()
    assert answer.status == status
    assert len(upstream.requests) == (3 if status == "completed" else 2)


async def test_an_unknown_cost_counts_as_the_worst_case(prefect_sqlite, upstream):
    upstream.script(Text("one", usage=False), model="a")
    upstream.script(Status(400), Text("two"), model="b")
    parameters = {"pool": pool(upstream), "plan": chain(0, 1)}
    _, repeat = await first(**parameters, budget_usd=29.9)
    assert (await repeat()).status == "stopped_budget"
    assert [request.body["model"] for request in upstream.requests] == ["a", "b"]
