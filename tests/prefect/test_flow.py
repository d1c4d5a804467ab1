"""The flow `conductor` on a real server: edges, overlap, retries, persistence, artifact."""

import asyncio
import random
from uuid import UUID

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

from conductor_plugin.graph import compile_plan, needed_steps
from conductor_plugin.on_prefect.flow import conductor
from conductor_plugin.on_prefect.history import whole_history
from conductor_plugin.plan import Plan, render_plan
from conductor_plugin.receipt import Answer
from tests.unit import workbench
from tests.unit.workbench import CALLS, OVERLAPS, SCRIPTS, permanent, transient

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_sqlite")]


@pytest.fixture(autouse=True)
def _fresh():
    workbench.reset()


def content(*names, **fields):
    return workbench.pool_of(*names, **fields).model_dump(mode="json", exclude_defaults=True)


async def run(plan, pool, **options):
    async with whole_history():
        state = await conductor(
            options.pop("question", "ok"),
            pool=pool,
            plan=plan if isinstance(plan, str) else render_plan(plan),
            return_state=True,
            **options,
        )
    answer = await state.result(raise_on_failure=False)
    assert isinstance(answer, Answer), answer
    return answer, state


async def drawn_edges(flow_run_id):
    """Pairs of task run names that the server's graph API connects."""
    async with get_client() as client:
        reply = await client._client.get(f"/flow_runs/{flow_run_id}/graph-v2")
    nodes = dict(reply.json()["nodes"])
    edges = {(nodes[parent["id"]]["label"], node["label"]) for node in nodes.values() for parent in node["parents"]}
    return edges, [node["label"] for node in nodes.values()]


async def task_runs(flow_run_id):
    async with get_client() as client:
        runs = await client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[UUID(flow_run_id)])))
    return {task_run.name: task_run for task_run in runs}


def random_plan(seed):
    """Any topology; every text is the same word, also the question, so that only identity can tell steps apart."""
    rng = random.Random(seed)
    n = rng.randint(1, 6)
    access = ["all" if i and rng.random() < 0.2 else tuple(j for j in range(i) if rng.random() < 0.5) for i in range(n)]
    return Plan(model_id=(0,) * n, subtasks=tuple(rng.choice(["ok", ""]) for _ in range(n)), access_list=tuple(access))


async def test_the_ui_graph_shows_exactly_the_plans_edges():
    plans = [random_plan(seed) for seed in range(50)]
    async with whole_history():
        answers = [
            await conductor("ok", pool=content("ok"), plan=render_plan(plan), max_steps=6, run_all=i % 2 == 0)
            for i, plan in enumerate(plans)
        ]
    for i, (plan, answer) in enumerate(zip(plans, answers, strict=True)):
        graph = compile_plan(plan)
        ran = set(graph.nodes) if i % 2 == 0 else needed_steps(graph)
        edges, labels = await drawn_edges(answer.flow_run_id)
        assert edges == {(f"step-{a} · ok", f"step-{b} · ok") for a, b in graph.edges if a in ran and b in ran}, plan
        assert sorted(labels) == sorted(["plan", *(f"step-{i} · ok" for i in ran)])


async def test_a_step_starts_while_another_of_its_level_still_runs():
    plan = Plan(
        model_id=(0, 0, 0, 0),
        subtasks=("a 0.02", "b 1.5", "c 0.02", "d 0.02"),
        access_list=((), (), (0,), "all"),
    )
    await run(plan, content("sleeper"))
    assert frozenset(("b 1.5", "c 0.02")) in OVERLAPS
    assert [request.subtask for _, request in CALLS] == ["a 0.02", "c 0.02", "b 1.5", "d 0.02"]


async def test_retries_are_prefects_own_and_visible():
    SCRIPTS["main"] = [transient(), transient(), "fine"]
    plan = Plan(model_id=(0,), subtasks=("",), access_list=((),))
    answer, _ = await run(plan, content("scripted:main"))
    task_run = (await task_runs(answer.flow_run_id))["step-0 · scripted-main"]
    async with get_client() as client:
        states = [state.name for state in await client.read_task_run_states(task_run.id)]
    assert (answer.answer, answer.rounds[0].steps[0].attempts, task_run.run_count) == ("fine", 3, 3)
    assert states.count("AwaitingRetry") == 2 or states.count("Retrying") == 2


FAULTS = {
    "none": [],
    "two transient": [transient(), transient()],
    "more than the retries": [transient()] * 5,
    "permanent": [permanent()],
    "transient, then permanent": [transient(), permanent()],
    "asks for too long a wait": [transient(retry_after_s=3600.0)],
    "not ours": [ValueError("boom")],
}


@pytest.mark.parametrize("script", FAULTS, ids=str)
async def test_both_kinds_of_retry_make_the_same_calls(script):
    from conductor_plugin.conduct import conduct
    from conductor_plugin.planners import make_planner

    plan = Plan(model_id=(0,), subtasks=("",), access_list=((),))
    outcomes = []
    for prefect in (True, False):
        workbench.reset()
        SCRIPTS["main"] = list(FAULTS[script])
        pool = workbench.pool_of("scripted:main", retries=2)
        if prefect:
            answer, _ = await run(plan, pool.model_dump(mode="json", exclude_defaults=True))
        else:
            answer = await conduct("ok", pool=pool, planner=make_planner(pool, plan=render_plan(plan)))
        outcomes.append((answer.status, answer.error, answer.answer, answer.rounds[0].steps[0].attempts, len(CALLS)))
    assert outcomes[0] == outcomes[1]


async def test_a_failed_answer_is_a_failed_run_that_keeps_its_receipt():
    SCRIPTS["bad"] = [permanent()]
    plan = Plan(model_id=(0, 1), subtasks=("", ""), access_list=((), (0,)))
    answer, state = await run(plan, content("ok", "scripted:bad"))
    assert state.is_failed()
    assert "never" in state.message
    assert (answer.status, [step.status for step in answer.rounds[0].steps]) == ("failed", ["completed", "failed"])
    async with get_client() as client:
        kept = await (await client.read_flow_run(UUID(answer.flow_run_id))).state.result(raise_on_failure=False)
    assert kept == answer


async def test_one_artifact_a_run_and_its_text_stays_text():
    SCRIPTS["main"] = ["</pre><script>alert(1)</script> ```` [x](http://evil) |"]
    plan = Plan(model_id=(0,), subtasks=("# `x`",), access_list=((),), reasoning="r")
    answer, _ = await run(plan, content("scripted:main"), question="What? ``` <b>")
    async with get_client() as client:
        of_the_run = FlowRunFilter(id=FlowRunFilterId(any_=[UUID(answer.flow_run_id)]))
        artifacts = [a for a in await client.read_artifacts(flow_run_filter=of_the_run) if a.key]
    assert [a.key for a in artifacts] == ["conductor-answer"]
    markdown = str(artifacts[0].data)
    fence = "`````text\n"
    assert f"{fence}</pre><script>alert(1)</script> ```` [x](http://evil) |\n`````" in markdown
    for part in ("model_id = [0]", "0 · scripted-main", "step 0", "completed", "| step | worker | sees |"):
        assert part in markdown


async def test_later_rounds_are_subflows():
    first = Plan(model_id=(0, 1), subtasks=("a", ""), access_list=((), "all"))
    answer, _ = await run(first, content("echo"), max_rounds=1)
    # A given plan is given again in the second round, and the bound ends it there.
    assert (answer.status, len(answer.rounds)) == ("completed", 2)
    async with get_client() as client:
        runs = await client.read_flow_runs()
    round_1 = [r for r in runs if r.name == "round-1" and r.parent_task_run_id]
    assert round_1
    parents = await task_runs(answer.flow_run_id)
    assert round_1[0].parent_task_run_id in {t.id for t in parents.values()}


async def test_a_rerun_of_the_same_flow_run_pays_for_nothing_twice():
    """Plan and steps come from storage when Prefect runs the same flow run again."""
    from prefect.flow_engine import run_flow_async
    from prefect.states import Scheduled

    SCRIPTS["bad"] = [permanent(), "fine"]
    plan = Plan(model_id=(0, 0, 1), subtasks=("a", "b", "c"), access_list=((), (0,), "all"))
    parameters = {"question": "q", "pool": content("ok", "scripted:bad"), "plan": render_plan(plan)}
    state = await conductor(**parameters, return_state=True)
    assert state.is_failed()
    assert [name for name, _ in CALLS] == ["ok", "ok", "bad"]
    answer = await state.result(raise_on_failure=False)
    async with get_client() as client:
        flow_run_id = UUID(answer.flow_run_id)
        await client.set_flow_run_state(flow_run_id, Scheduled(name="AwaitingRetry"), force=True)
        flow_run = await client.read_flow_run(flow_run_id)
    again = await run_flow_async(
        conductor, flow_run=flow_run, parameters=conductor.validate_parameters(parameters), return_type="state"
    )
    answer = await again.result(raise_on_failure=False)
    assert (answer.status, answer.answer) == ("completed", "fine")
    assert [name for name, _ in CALLS] == ["ok", "ok", "bad", "bad"]


async def test_equal_calls_of_one_plan_stay_two_calls():
    plan = Plan(model_id=(0, 0, 0), subtasks=("", "", "last"), access_list=((), (), "all"))
    await run(plan, content("ok"))
    assert len(CALLS) == 3


async def test_many_runs_keep_their_whole_history():
    async with whole_history():
        plan = Plan(model_id=(0,) * 5, subtasks=("",) * 5, access_list=((), (), (0,), (0, 1), "all"))
        pool = content("ok")
        states = [
            await conductor("q", pool=pool, plan=render_plan(plan), return_state=True, max_steps=5) for _ in range(5)
        ]
    for state in states:
        answer = await state.result()
        runs = await task_runs(answer.flow_run_id)
        assert len(runs) == 6
        assert all(task_run.state.is_completed() for task_run in runs.values())


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"pool": "nowhere.yaml"}, "cannot read the pool file nowhere.yaml"),
        ({"pool": {"workers": []}}, "workers"),
        ({"pool": "block/none-such"}, "no Conductor Pool block named 'none-such'"),
        ({"planner": "template:none"}, "no template 'none'"),
        ({"only": ["nobody"]}, "'nobody' is neither a name nor a tag"),
        ({"max_steps": 0}, "max_steps"),
        ({"max_rounds": -1}, "max_rounds"),
        ({"history": [{"role": "judge", "content": "x"}]}, "history.0.role"),
    ],
)
async def test_bad_parameters_fail_the_run_with_one_sentence(parameters, complaint):
    state = await conductor("q", **parameters, return_state=True)
    assert state.is_failed()
    assert complaint in state.message
    await asyncio.sleep(0)
