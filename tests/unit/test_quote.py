"""Quotes: what a plan may take before anything is spent, and that a budget of the most is always enough."""

import asyncio
import random
import statistics

import pytest

from conductor_plugin.budget import worst_case
from conductor_plugin.calls import Typical, record_calls, typical_calls
from conductor_plugin.conduct import conduct
from conductor_plugin.context import Message
from conductor_plugin.graph import CallStep, ReduceStep, compile_plan, compile_steps
from conductor_plugin.llm import price_of
from conductor_plugin.plan import Plan, render_plan
from conductor_plugin.planners import make_planner
from conductor_plugin.pool import pool_from
from conductor_plugin.quote import quote, quote_lines
from conductor_plugin.workers.llm import llm_of
from tests.unit.test_budget import llm_pool, random_plan
from tests.unit.workbench import pool_of
from tests.upstream import Hang, Status, Text, Upstream

LLM = {"kind": "llm", "price": {"input": 1.0, "output": 10.0}, "params": {"max_tokens": 100}, "retries": 1}
POOL = pool_from(
    {
        "workers": [
            {"name": "a", "model": "openai/a", **LLM, "fallbacks": ["b"]},
            {"name": "b", "model": "openai/b", **LLM, "retries": 2},
            {"name": "tool", "kind": "calculator", "retries": 0},
        ]
    }
)
TYPICAL = {
    "a": Typical(calls=9, latency_s=2.0, completion_tokens=50, output_bytes=200),
    "b": Typical(calls=9, latency_s=3.0, completion_tokens=20, output_bytes=80),
    "tool": Typical(calls=9, latency_s=0.5, completion_tokens=0, output_bytes=4),
}


def plan(*ids, access=None):
    return Plan(model_id=ids, subtasks=("s",) * len(ids), access_list=access or ((),) * (len(ids) - 1) + ("all",))


def quoted(steps, typical=TYPICAL, pool=POOL, **options):
    return quote(compile_plan(steps), pool=pool, question="q", typical=typical, **options)


def test_one_call():
    offer = quoted(plan(1))
    worst = worst_case(llm_of(POOL.workers[1]), POOL.workers[1].price, [Message(role="user", content="q\n\ns")])
    assert (offer.calls.low, offer.calls.likely, offer.calls.high) == (1, 1, 3)
    assert (offer.completion_tokens.likely, offer.completion_tokens.high) == (20, 300)
    assert offer.cost_usd.likely == pytest.approx((4 / 4 * 1.0 + 20 * 10.0) / 1e6)
    assert offer.cost_usd.high == pytest.approx(3 * worst)
    assert (offer.critical_path_s, offer.unknown) == (3.0, ())


def test_fallbacks_may_be_asked_as_well():
    offer = quoted(plan(0))
    assert (offer.calls.likely, offer.calls.high, offer.completion_tokens.high) == (1, 2 + 3, 500)


def test_what_a_step_may_see_is_in_its_prompt():
    alone, seeing = quoted(plan(1, 1, access=((), ()))), quoted(plan(1, 1, access=((), (0,))))
    both = quoted(plan(1, 1, access=((), ())), run_all=True)
    assert (alone.calls.likely, both.calls.likely) == (1, 2)  # what cannot reach the answer is not run
    assert seeing.prompt_tokens.likely >= both.prompt_tokens.likely + 80 / 4
    assert seeing.prompt_tokens.high >= both.prompt_tokens.high + 3 * 8 * 100


def test_the_critical_path_is_the_longest_chain_of_recorded_latencies():
    assert quoted(plan(0, 1, 2)).critical_path_s == 3.5
    offer = quoted(plan(0, 1, 2), typical={"a": TYPICAL["a"]})
    assert offer.critical_path_s is None
    assert "no call of b is recorded yet" in offer.unknown
    assert (offer.completion_tokens.likely, offer.cost_usd.likely) == (None, None)


def test_what_nobody_can_say_is_unknown_and_named():
    nameless = {"name": "n", "kind": "llm", "model": "openai/nobody-knows-it"}
    offer = quoted(plan(0), pool=pool_from({"workers": [nameless]}), typical={})
    assert (offer.cost_usd.low, offer.cost_usd.high, offer.completion_tokens.high) == (None, None, None)
    assert {"the price of n is unknown", "n has no max_tokens"} <= set(offer.unknown)
    own = quoted(plan(0), pool=pool_of("ok"), typical={})
    assert (own.calls.high, own.cost_usd.high) == (4, None)
    assert "ok is code of your own, which nobody bounds" in own.unknown


def test_tools_and_reduce_steps_take_nothing():
    steps = [CallStep(worker=2), CallStep(worker=2, sample=1), ReduceStep(reduce="majority")]
    offer = quote(compile_steps(steps), pool=POOL, question="q", typical=TYPICAL)
    assert (offer.calls.high, offer.cost_usd.high, offer.prompt_tokens.high) == (2, 0, 0)


def test_the_lines_for_people():
    lines = quote_lines(quoted(plan(0, 1), typical={}))
    assert lines[0].split() == ["at", "least", "likely", "at", "most"]
    assert lines[1].split() == ["calls", "2", "2", "8"]
    assert "unknown" in lines[4]
    assert lines[-1].startswith("note: no call of")


def test_a_budget_of_the_most_never_stops_a_run():
    """Random graphs, an upstream that hangs, fails and sends no usage: 100 runs, each with its quote as its budget."""
    rng = random.Random(11)

    def behave(body):
        fate = rng.random()
        if fate < 0.2:
            return Hang(0.5) if fate < 0.1 else Status(503)
        return Text("word " * rng.randint(0, 20), usage=fate > 0.4)

    async def everything(base):
        statuses = []
        for _ in range(2):
            pool = llm_pool(base, timeout_seconds=0.3, retries=1)
            runs = []
            for _ in range(50):
                steps = random_plan(rng)
                offer = quote(compile_plan(steps), pool=pool, question="why?", typical={})
                planner = make_planner(pool, plan=render_plan(steps))
                runs.append(conduct("why?", pool=pool, planner=planner, budget_usd=offer.cost_usd.high))
            statuses += [answer.status for answer in await asyncio.gather(*runs)]
        return statuses

    with Upstream(reply=behave) as upstream:
        statuses = asyncio.run(everything(upstream.base_url))
    assert set(statuses) == {"completed", "failed"}


async def test_calls_are_recorded_without_text(upstream, tmp_path):
    pool = llm_pool(upstream.base_url)
    assert typical_calls(pool) == {}
    steps = plan(0, 1)
    answers = [
        await conduct(f"secret question {i}", pool=pool, planner=make_planner(pool, plan=render_plan(steps)))
        for i in range(3)
    ]
    for answer in answers:
        record_calls(pool, answer)
    found = typical_calls(pool)
    records = [step for answer in answers for step in answer.rounds[0].steps]
    # Both workers are the same model with the same settings: what is known of one is known of the other.
    assert {name: calls.calls for name, calls in found.items()} == {"a": 6, "b": 6}
    assert found["a"].latency_s == statistics.median(record.latency_s for record in records)
    assert found["a"].completion_tokens == statistics.median(record.completion_tokens for record in records)
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("calls.sqlite*"))
    assert b"secret" not in stored
    assert stored
    # Other settings are another worker.
    other = pool.workers[0].model_copy(update={"params": {"max_tokens": 7}})
    assert typical_calls(pool.of([other])) == {}


def test_the_price_map_is_asked_where_the_pool_has_no_price():
    worker = {"name": "w", "kind": "llm", "model": "openai/gpt-4o-mini", "params": {"max_tokens": 10}}
    pool = pool_from({"workers": [worker]})
    offer = quoted(plan(0), pool=pool, typical={})
    price = price_of(llm_of(pool.workers[0]))
    assert offer.cost_usd.high > 4 * 10 * price.output / 1e6
