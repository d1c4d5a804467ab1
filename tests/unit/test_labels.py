"""Data boundaries: over any graph, nobody is shown text above their clearance."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.conduct import conduct
from conductor_plugin.errors import InputError
from conductor_plugin.labels import cleared_pool, is_cleared, label_of
from conductor_plugin.on_prefect.seal import server_may_see
from conductor_plugin.plan import Plan, render_plan
from conductor_plugin.planners import make_planner
from conductor_plugin.pool import Pool, pool_from
from tests.unit import workbench
from tests.unit.workbench import CALLS, SCRIPTS, permanent

LABELS = ["public", "internal", "confidential"]


def pool_cleared(*clearances: str | None, **fields: object) -> Pool:
    return pool_from(
        {
            "workers": [
                {
                    "name": f"w{i}",
                    "kind": "tests.unit.workbench:scripted",
                    "params": {"script": f"w{i}"},
                    **({"clearance": clearance} if clearance else {}),
                    **fields,
                }
                for i, clearance in enumerate(clearances)
            ]
        }
    )


@st.composite
def cases(draw):
    clearances = draw(st.lists(st.sampled_from([None, *LABELS]), min_size=1, max_size=4))
    n = draw(st.integers(1, 5))
    ids = tuple(draw(st.integers(0, len(clearances) - 1)) for _ in range(n))
    access = tuple(tuple(j for j in range(i) if draw(st.booleans())) for i in range(n))
    failing = draw(st.booleans())
    return (
        clearances,
        Plan(model_id=ids, subtasks=("x",) * n, access_list=access),
        draw(st.sampled_from(LABELS)),
        failing,
    )


@given(cases())
def test_nobody_is_ever_called_with_more_than_their_clearance(case):
    """Given plans, with fallbacks to everybody and workers that fail: the calls themselves are looked at."""
    clearances, plan, label, failing = case
    workbench.reset()
    pool = pool_cleared(*clearances, retries=0)
    names = [worker.name for worker in pool.workers]
    workers = (w.model_copy(update={"fallbacks": tuple(n for n in names if n != w.name)}) for w in pool.workers)
    pool = pool.model_copy(update={"workers": tuple(workers)})
    if failing:
        SCRIPTS.update({name: [permanent()] * 9 for name in names[:1]})
    answer = asyncio.run(conduct("q", pool=pool, planner=make_planner(pool, plan=render_plan(plan)), label=label))
    for name, _ in CALLS:
        assert is_cleared(pool, pool.worker(name).clearance, label)
    uncleared = [i for i in plan.model_id if not is_cleared(pool, clearances[i], label)]
    if uncleared:
        assert (answer.status, answer.error.code, CALLS) == ("stopped_label", "label", [])
        assert "edge question -> step" in answer.error.message
    assert answer.label == label


@pytest.mark.parametrize(("label", "left"), [("public", 4), ("internal", 2), ("confidential", 1)])
def test_a_planner_is_offered_the_cleared_workers_only(label, left):
    pool = pool_cleared(None, "public", "internal", "confidential")
    assert len(cleared_pool(pool, label).workers) == left
    workbench.reset()
    planner = make_planner(pool, "template:solve")
    answer = asyncio.run(conduct("q", pool=pool, planner=planner, label=label))
    assert answer.status == "completed"
    assert is_cleared(pool, pool.worker(answer.rounds[0].steps[0].worker).clearance, label)


def test_a_tag_that_is_another_workers_name_opens_no_door():
    pool = pool_from(
        {
            "workers": [
                {"name": "inside", "kind": "text", "clearance": "confidential"},
                {"name": "outside", "kind": "text", "tags": ["inside"]},
            ]
        }
    )
    assert [worker.name for worker in cleared_pool(pool, "confidential").workers] == ["inside"]


async def test_nobody_cleared():
    workbench.reset()
    pool = pool_cleared("public", "internal")
    answer = await conduct("q", pool=pool, planner=make_planner(pool, "template:solve"), label="confidential")
    assert (answer.status, answer.label, CALLS) == ("stopped_label", "confidential", [])
    assert "cleared for confidential" in answer.error.message


@pytest.mark.parametrize(
    ("clearance", "asked"), [(None, False), ("public", False), ("internal", True), ("confidential", True)]
)
async def test_an_external_planner_is_not_shown_more_than_its_clearance(upstream, clearance, asked):
    content = {
        "planner": {"kind": "prompted", "model": "openai/p", "api_base": upstream.base_url}
        | ({"clearance": clearance} if clearance else {}),
        "workers": [{"name": "w", "kind": "text", "clearance": "confidential"}],
    }
    pool = pool_from(content)
    answer = await conduct("q", pool=pool, planner=make_planner(pool), label="internal")
    assert (len(upstream.requests) > 0) is asked
    assert answer.status == ("no_plan" if asked else "stopped_label")


def test_labels_that_are_not_there():
    pool = pool_cleared("public")
    assert label_of(pool, None) == "public"
    with pytest.raises(InputError, match="public, internal, confidential") as caught:
        label_of(pool, "secret")
    assert caught.value.code == "label_unknown"
    assert not is_cleared(pool, "nonsense", "public")


@pytest.mark.parametrize(
    ("clearance", "label", "allowed"),
    [(None, "public", True), (None, "internal", False), ("internal", "internal", True), ("x", "public", False)],
)
def test_prefects_server_has_a_clearance_too(monkeypatch, clearance, label, allowed):
    monkeypatch.delenv("CONDUCTOR_SERVER_CLEARANCE", raising=False)
    if clearance:
        monkeypatch.setenv("CONDUCTOR_SERVER_CLEARANCE", clearance)
    assert server_may_see(pool_cleared("confidential"), label) is allowed
