"""Budget and deadline: hard against the upstream's own ledger, whatever the upstream does."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.budget import Budget, most_tokens, worst_case
from conductor_plugin.conduct import conduct
from conductor_plugin.context import Message, WorkerReply
from conductor_plugin.errors import BudgetError, InputError, PermanentError, TransientError
from conductor_plugin.plan import Plan, render_plan
from conductor_plugin.planners import make_planner
from conductor_plugin.pool import Pool, pool_from
from conductor_plugin.pricing import check_priced
from conductor_plugin.worker_spec import LLM, Price
from tests.unit import workbench
from tests.upstream import Hang, Status, Text, Upstream

IN, OUT = 3.0, 11.0  # USD per million tokens


def llm_pool(base: str, **fields: object) -> Pool:
    worker = {
        "kind": "llm",
        "model": "openai/m",
        "api_base": base,
        "price": {"input": IN, "output": OUT},
        "params": {"max_tokens": 20},
        "retries": 0,
        **fields,
    }
    return pool_from({"workers": [{"name": "a", **worker}, {"name": "b", **worker}]})


def reply(cost: float | None) -> WorkerReply:
    return WorkerReply(output="x", cost_usd=cost)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1) | st.none(), st.booleans()), max_size=30), st.floats(0, 5))
def test_what_may_have_been_spent_never_passes_the_cap(calls, cap):
    """Calls that overlap or not, settled for at most their worst case or not at all."""
    budget = Budget(cap)
    truth = 0.0
    open_holds = []
    for worst, share, stays_open in calls:
        hold = budget.hold(worst, "m")
        try:
            held = hold.__enter__()
        except BudgetError:
            continue
        cost = None if share is None else worst * share
        held.settle(reply(cost))
        truth += worst if cost is None else cost
        if stays_open:
            open_holds.append(hold)
        else:
            hold.__exit__(None, None, None)
        assert truth <= cap + 1e-9
        assert budget.spent + budget.reserved <= cap + 1e-9
    for hold in open_holds:
        hold.__exit__(None, None, None)
    assert budget.reserved == pytest.approx(0, abs=1e-9)
    assert budget.spent == pytest.approx(truth)


@pytest.mark.parametrize(
    ("error", "spent"),
    [
        (TransientError("429"), 0.0),
        (PermanentError("400"), 0.0),
        (TransientError("cut off", maybe_billed=True), 0.5),
        (asyncio.CancelledError(), 0.5),
    ],
)
def test_failed_calls_are_settled_as_they_may_have_been_billed(error, spent):
    budget = Budget(1.0)
    with pytest.raises(type(error)), budget.hold(0.5, "m"):
        raise error
    assert (budget.spent, budget.reserved) == (spent, 0.0)


def test_a_bill_beyond_the_worst_case_is_reported():
    budget = Budget(1.0)
    with pytest.raises(BudgetError, match="billed 0\\.7") as caught, budget.hold(0.5, "m") as held:
        held.settle(reply(0.7))
    assert (caught.value.code, caught.value.exit_code, budget.spent) == ("billed_beyond", 3, 0.7)


def test_the_worst_case_counts_bytes():
    llm = LLM(model="m", params={"max_tokens": 10})
    price = Price(input=1e6, output=0.0)
    few, many = (worst_case(llm, price, [Message(role="user", content=text)]) for text in ("aaaa", "🌊🌊🌊🌊"))
    assert many - few == pytest.approx(12)
    assert few > 4


@pytest.mark.parametrize("params", [{}, {"max_tokens": 0}, {"max_tokens": True}, {"max_tokens": "9"}])
def test_without_max_tokens_there_is_no_worst_case(params):
    with pytest.raises(InputError) as caught:
        most_tokens(LLM(model="m", params=params))
    assert caught.value.code == "no_max_tokens"


def test_an_unknown_price_names_the_worker(upstream):
    pool = llm_pool(upstream.base_url)
    nameless = pool.workers[1].model_copy(update={"price": None, "model": "openai/nobody-knows-it"})
    pool = pool.model_copy(update={"workers": (pool.workers[0], nameless)})
    with pytest.raises(InputError, match=r"worker 'b'.*price") as caught:
        check_priced(pool, make_planner(pool, "template:solve"))
    assert caught.value.code == "unknown_price"
    own = workbench.pool_of("ok")
    with pytest.raises(InputError, match="worker 'ok'"):
        check_priced(own, make_planner(own, "template:solve"))


def random_plan(rng: random.Random) -> Plan:
    n = rng.randint(1, 5)
    return Plan(
        model_id=tuple(rng.randrange(2) for _ in range(n)),
        subtasks=tuple("word " * rng.randint(0, 12) for _ in range(n)),
        access_list=tuple(tuple(j for j in range(i) if rng.random() < 0.5) for i in range(n)),
    )


def test_a_thousand_random_graphs_against_the_upstreams_ledger():
    """The upstream bills every call it answered, hung on or cut off, by its own count; never more than the cap."""
    rng = random.Random(7)

    def behave(body):
        words = rng.randint(0, 20)
        fate = rng.random()
        if fate < 0.1:
            return Hang(0.5)
        if fate < 0.2:
            return Status(503)
        if fate < 0.3:
            return Text("word " * words, usage=False)
        return Text("word " * words)

    async def everything(base):
        outcomes = {"completed": 0, "stopped_budget": 0, "failed": 0}
        for start in range(0, 1000, 50):
            pool = llm_pool(base, timeout_seconds=0.3, retries=rng.choice([0, 1]))
            batch = []
            for i in range(start, start + 50):
                cap = rng.uniform(0.0, 0.004)
                planner = make_planner(pool, plan=render_plan(random_plan(rng)))
                batch.append((i, cap, conduct(f"[run {i}] why?", pool=pool, planner=planner, budget_usd=cap)))
            for (_, _, _), answer in zip(batch, await asyncio.gather(*(run for _, _, run in batch)), strict=True):
                outcomes[answer.status] += 1
            caps.update({i: cap for i, cap, _ in batch})
        return outcomes

    caps: dict[int, float] = {}
    with Upstream(reply=behave) as upstream:
        outcomes = asyncio.run(everything(upstream.base_url))
        bills = dict.fromkeys(caps, 0.0)
        for request in upstream.requests:
            if isinstance(request.reply, Status):
                continue  # an error is not billed
            texts = [message["content"] for message in request.body["messages"]]
            run = int(texts[0].split("]")[0].removeprefix("[run "))
            words = request.reply.content.split() if isinstance(request.reply, Text) else ["w"] * 20
            bills[run] += (sum(len(text.split()) for text in texts) * IN + len(words) * OUT) / 1e6
    assert all(bills[i] <= caps[i] for i in caps), max(bills[i] - caps[i] for i in caps)
    assert min(outcomes.values()) > 50, outcomes
    assert max(bills.values()) > 0


async def test_a_stop_is_told_with_a_partial_receipt(upstream):
    pool = llm_pool(upstream.base_url)
    plan = Plan(model_id=(0, 1), subtasks=("first", "second"), access_list=((), (0,)))
    one_call = worst_case(
        LLM(model="m", params={"max_tokens": 20}),
        Price(input=IN, output=OUT),
        [Message(role="user", content="q\n\nfirst")],
    )
    answer = await conduct(
        "q", pool=pool, planner=make_planner(pool, plan=render_plan(plan)), budget_usd=one_call * 1.05
    )
    assert (answer.status, answer.error.code) == ("stopped_budget", "budget")
    assert [step.status for step in answer.rounds[0].steps] == ["completed", "not_started"]
    assert len(upstream.requests) == 1
    assert answer.usage.cost_usd > 0


async def test_an_upstream_that_bills_beyond_max_tokens_stops_the_run(upstream):
    upstream.script(Text("word " * 500))
    pool = llm_pool(upstream.base_url)
    plan = Plan(model_id=(0, 1), subtasks=("first", "second"), access_list=((), (0,)))
    answer = await conduct("q", pool=pool, planner=make_planner(pool, plan=render_plan(plan)), budget_usd=1.0)
    assert (answer.status, answer.error.code, len(upstream.requests)) == ("stopped_budget", "billed_beyond", 1)
    assert "max_tokens" in answer.error.message


async def test_parallel_steps_share_the_budget(upstream):
    """Two calls that each fit alone but not together: only one is made."""
    pool = llm_pool(upstream.base_url)
    plan = Plan(model_id=(0, 1, 0), subtasks=("", "", "x"), access_list=((), (), "all"))
    one_call = worst_case(
        LLM(model="m", params={"max_tokens": 20}), Price(input=IN, output=OUT), [Message(role="user", content="q")]
    )
    answer = await conduct(
        "q", pool=pool, planner=make_planner(pool, plan=render_plan(plan)), budget_usd=one_call * 1.5
    )
    assert answer.status == "stopped_budget"
    assert len(upstream.requests) <= 1


async def test_the_planner_is_under_the_same_cap(upstream):
    pool = llm_pool(upstream.base_url)
    answer = await conduct("q", pool=pool, planner=make_planner(pool, "openai/m"), budget_usd=1e-9)
    assert (answer.status, answer.planner.attempts, len(upstream.requests)) == ("stopped_budget", 0, 0)


async def test_the_deadline_cancels_what_is_in_flight():
    workbench.reset()
    pool = workbench.pool_of("sleeper")
    plan = Plan(model_id=(0, 0), subtasks=("quick 0.01", "slow 30"), access_list=((), (0,)))
    answer = await asyncio.wait_for(
        conduct("q", pool=pool, planner=make_planner(pool, plan=render_plan(plan)), deadline_s=0.3), 5
    )
    assert (answer.status, answer.error.code) == ("stopped_deadline", "deadline")
    assert [step.status for step in answer.rounds[0].steps] == ["completed", "cancelled"]
    assert not any(workbench.RUNNING.values())


async def test_a_workers_own_timeout_error_is_not_the_deadline():
    workbench.reset()
    workbench.SCRIPTS["main"] = [TimeoutError("mine")]
    pool = workbench.pool_of("scripted:main", retries=0)
    plan = Plan(model_id=(0,), subtasks=("",), access_list=((),))
    answer = await conduct("q", pool=pool, planner=make_planner(pool, plan=render_plan(plan)), deadline_s=60)
    assert answer.status == "failed"


@pytest.mark.parametrize(("calls", "status", "made"), [(1.5, "stopped_budget", 1), (2.5, "completed", 2)])
async def test_a_fallback_is_under_the_budget_too(upstream, calls, status, made):
    """The first worker's call is cut off and may have been billed: its reservation stays."""
    upstream.script(Hang(10), Text("at last"))
    pool = llm_pool(upstream.base_url, timeout_seconds=3)
    first = pool.workers[0].model_copy(update={"fallbacks": ("b",)})
    pool = pool.of([first, pool.workers[1]])
    plan = Plan(model_id=(0,), subtasks=("",), access_list=((),))
    one_call = worst_case(
        LLM(model="m", params={"max_tokens": 20}), Price(input=IN, output=OUT), [Message(role="user", content="q")]
    )
    answer = await conduct(
        "q", pool=pool, planner=make_planner(pool, plan=render_plan(plan)), budget_usd=one_call * calls
    )
    assert (answer.status, len(upstream.requests)) == (status, made)
