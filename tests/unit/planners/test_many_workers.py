"""Mixture-of-Agents, the random plan and the rule router, through the real executor."""

import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.conduct import conduct
from conductor_plugin.context import build_messages
from conductor_plugin.errors import InputError
from conductor_plugin.graph import CallStep, compile_steps
from conductor_plugin.plan import PlanRules
from conductor_plugin.planners import make_planner
from conductor_plugin.planners.base import PlanRequest, Proposal
from conductor_plugin.planners.choosing import lot, numbered
from conductor_plugin.planners.moa import MixtureOfAgents
from conductor_plugin.planners.random_plan import RandomPlan
from conductor_plugin.planners.rules import load_rules, route
from conductor_plugin.pool import Pool, load_pool, pool_from
from tests.unit import workbench
from tests.unit.workbench import CALLS, SCRIPTS, pool_of


@pytest.fixture(autouse=True)
def _fresh():
    workbench.reset()


def request_of(question: str, pool: Pool, max_steps: int = 5) -> PlanRequest:
    return PlanRequest(question=question, pool=pool, rules=PlanRules(workers=len(pool.workers), max_steps=max_steps))


async def steps_of(planner, question: str, pool: Pool, **rules: int) -> tuple[CallStep, ...]:
    proposal: Proposal = await planner.propose(request_of(question, pool, **rules))
    return proposal.steps


SEVEN = pool_of(*(f"scripted:{i}" for i in range(7)))


async def test_moa_makes_a_call_a_worker_and_one():
    for i in range(7):
        SCRIPTS[str(i)] = [f"answer {i}", "merged"]
    answer = await conduct("q", pool=SEVEN, planner=make_planner(SEVEN, "moa"))
    assert (answer.status, answer.answer, answer.usage.calls) == ("completed", "merged", 8)
    *proposers, (_, aggregator) = CALLS
    assert {(request.subtask, request.seen) for _, request in proposers} == {("", ())}
    assert [seen.output for seen in aggregator.seen] == [f"answer {i}" for i in range(7)]
    assert "numbered 1 to 7" in aggregator.subtask


async def test_what_proposers_say_stays_in_assistant_turns():
    SCRIPTS.update({str(i): [f"IGNORE {i}"] for i in range(7)})
    await conduct("q", pool=SEVEN, planner=MixtureOfAgents())
    messages = build_messages(CALLS[-1][1])
    assert [m.content for m in messages if m.role == "assistant"] == [f"IGNORE {i}" for i in range(7)]
    assert not any("IGNORE" in m.content for m in messages if m.role != "assistant")


@pytest.mark.parametrize("layers", [2, 3, 4])
async def test_more_layers_repeat_the_middle(layers):
    steps = await steps_of(MixtureOfAgents(layers=layers), "q", SEVEN)
    assert len(steps) == 7 * (layers - 1) + 1
    for i, step in enumerate(steps[7:], 7):
        layer = i // 7
        assert step.access == tuple(range(7 * (layer - 1), 7 * layer))


async def test_the_aggregator_is_drawn_by_seed_and_question():
    drawn = [(await steps_of(MixtureOfAgents(seed=1), f"q{i}", SEVEN))[-1].worker for i in range(700)]
    assert drawn == [(await steps_of(MixtureOfAgents(seed=1), f"q{i}", SEVEN))[-1].worker for i in range(700)]
    assert drawn != [(await steps_of(MixtureOfAgents(seed=2), f"q{i}", SEVEN))[-1].worker for i in range(700)]
    assert all(60 < count < 140 for count in Counter(drawn).values())
    assert set(drawn) == set(range(7))


def test_a_lot_is_the_same_in_another_process():
    code = "from conductor_plugin.planners.choosing import lot; print(lot(3, 'wörd').random())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(result.stdout) == lot(3, "wörd").random()


async def test_random_plans_are_uniform_and_run():
    plans = [await steps_of(RandomPlan(), f"q{i}", SEVEN) for i in range(1000)]
    assert all(150 < count < 250 for count in Counter(map(len, plans)).values())
    assert {len(plan) for plan in plans} == {1, 2, 3, 4, 5}
    workers = Counter(step.worker for plan in plans for step in plan)
    assert all(330 < workers[i] < 530 for i in range(7))
    pairs = [j in plan[i].access for plan in plans for i in range(len(plan)) for j in range(i)]
    assert 0.45 < sum(pairs) / len(pairs) < 0.55
    answer = await conduct("q", pool=SEVEN, planner=make_planner(SEVEN, "random"), run_all=True)
    assert (answer.status, answer.usage.calls) == ("completed", len(await steps_of(RandomPlan(), "q", SEVEN)))


STEPS = st.lists(st.builds(CallStep, worker=st.integers(0, 1), subtask=st.sampled_from(["", "a"])), max_size=9)


@given(STEPS)
def test_equal_calls_get_sample_indices(steps):
    told_apart = numbered(steps)
    assert len({step.model_dump_json() for step in told_apart}) == len(steps)
    assert [step.model_copy(update={"sample": 0}) for step in told_apart] == steps
    assert len(compile_steps(told_apart)) == len(steps)


TAGGED = pool_from(
    {
        "workers": [
            {"name": "plain", "kind": "llm", "model": "openai/a"},
            {"name": "coder", "kind": "llm", "model": "openai/b", "tags": ["code"]},
            {"name": "thinker", "kind": "llm", "model": "openai/c", "tags": ["math"]},
            {"name": "number", "kind": "number"},
        ]
    }
)


@pytest.mark.parametrize(
    ("question", "worker"),
    [
        ("Is 91 prime?", "number"),
        ("Write a Python function that adds.", "coder"),
        ("Solve x^2 = 2.", "thinker"),
        ("Who wrote Faust?", "plain"),
        ("What is 3 + 4?", "plain"),  # this pool has no calculator: the rule is passed over
    ],
)
def test_the_default_rules_on_a_tagged_pool(question, worker):
    assert TAGGED.workers[route(load_rules("default"), question, TAGGED)].name == worker


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is 3 * (4 + 5)?", "27"),
        ("What is the gcd of 12 and 18?", "6"),
        ('Reverse the text "abc".', "cba"),
    ],
)
async def test_the_default_rules_answer_on_the_embedded_pool(question, answer):
    pool = load_pool().subset(only=["tool"], exclude=["sandboxed"] if _has_sandbox() else [])
    result = await conduct(question, pool=pool, planner=make_planner(pool, "rules"))
    assert (result.answer, result.usage.calls) == (answer, 1)


def _has_sandbox() -> bool:
    return any("sandboxed" in worker.tags for worker in load_pool().workers)


def test_where_no_rule_fits_the_first_worker_answers():
    tools = TAGGED.subset(only=["number"])
    assert route(load_rules("default"), "Who wrote Faust?", tools) == 0


async def test_rules_of_ones_own(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("rules:\n  - {when: '^who', worker: 'name:coder'}\n")
    planner = make_planner(TAGGED, f"rules:{file}")
    assert (await steps_of(planner, "Who wrote Faust?", TAGGED))[0] == CallStep(worker=1)
    assert (await steps_of(planner, "They who wrote it", TAGGED))[0] == CallStep(worker=0)


@pytest.mark.parametrize(
    ("content", "code", "says"),
    [
        ("rules: []", "rules_bad_value", "rules: "),
        ("rules: [{when: '(', worker: 'kind:llm'}]", "rules_bad_value", "no regular expression"),
        ("rules: [{when: x, worker: llm}]", "rules_bad_value", "rules.0.worker"),
        ("rules: [", "rules_unreadable", "not valid YAML"),
    ],
)
def test_faulty_rules_are_refused(tmp_path, content, code, says):
    file = tmp_path / "mine.yaml"
    file.write_text(content)
    with pytest.raises(InputError, match=says) as caught:
        make_planner(TAGGED, f"rules:{file}")
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("planner", "code", "says"),
    [
        ("nonsense", "planner_unknown", "consensus:WORKER"),
        ("consensus", "planner_unknown", "consensus:plain"),
        ("single:nobody", "pool_unknown_worker", "'nobody'"),
        ("moa:3", "planner_unknown", "moa alone"),
        ("routerdc", "planner_unknown", "routerdc:FOLDER"),
        ("smoothie", "planner_unknown", "smoothie:FOLDER"),
        ("trinity:/no/such/folder", "planner_unreadable", "no trained planner"),
        ("rules:none-such", "rules_unknown", "default"),
    ],
)
def test_unknown_names_say_what_to_write(planner, code, says):
    with pytest.raises(InputError, match=says) as caught:
        make_planner(TAGGED, planner)
    assert caught.value.code == code


NAMES = ["single:plain", "context5:plain", "reflection:plain", "consensus:plain", "moa", "random", "rules"]


@pytest.mark.parametrize("name", [*NAMES, "masrouter", "trinity"])
def test_a_planner_is_named_as_it_is_spelled(name):
    planner = make_planner(TAGGED, name)
    assert (planner.name, planner.tries) == (name, 1)
    assert type(planner).model_validate(planner.model_dump()) == planner
