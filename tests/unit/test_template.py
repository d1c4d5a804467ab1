"""Templates: fixed plans that fit whatever pool is there, and a sentence where they do not."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from conductor_plugin.errors import InputError
from conductor_plugin.plan import Plan, PlanRules
from conductor_plugin.planners.base import PlanRequest
from conductor_plugin.planners.template import Template, TemplatePlanner, fill, load_template, template_names
from conductor_plugin.pool import Pool, load_pool, pool_from
from tests.unit.strategies import make_pool

MIXED = pool_from(
    {
        "workers": [
            {"name": "gpt", "kind": "llm", "model": "openai/m", "tags": ["closed", "strong"]},
            {"name": "sums", "kind": "calculator", "tags": ["tool"]},
            {"name": "words", "kind": "text", "tags": ["tool"]},
            {"name": "own", "kind": "my.module:worker", "tags": ["open"]},
        ]
    }
)


async def propose(template: str | Path, pool: Pool, max_steps: int = 5) -> Plan:
    rules = PlanRules(workers=len(pool.workers), max_steps=max_steps)
    proposal = await TemplatePlanner(template=str(template)).propose(
        PlanRequest(question="Why?", pool=pool, rules=rules)
    )
    assert (proposal.fault, proposal.calls, proposal.cost_usd) == (None, 0, 0.0)
    assert proposal.plan is not None
    return proposal.plan


def filled(pool: Pool, *steps: dict[str, Any]) -> Plan:
    return fill(Template.model_validate({"steps": steps}), pool, "template:test")


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_the_templates_that_come_with_the_package() -> None:
    assert template_names() == ["extract-analyse-write", "first-answer", "plan-code-verify", "solve"]
    assert all(load_template(name).describe for name in template_names())


@pytest.mark.parametrize("name", template_names())
@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
async def test_they_fit_pools_of_any_size(name: str, size: int) -> None:
    plan = await propose(name, make_pool(*"abcdefghi"[:size]))
    assert all(0 <= worker < size for worker in plan.model_id)
    assert len(plan) == {"solve": 1, "first-answer": size + 1}.get(name, 3)
    seen_by_the_last = set(plan.sees(len(plan) - 1))
    assert set(range(len(plan) - 1)) <= seen_by_the_last | {0}


async def test_first_answer_fits_the_embedded_pool() -> None:
    pool = load_pool()
    plan = await propose("first-answer", pool)
    assert len(plan) == len(pool.workers) + 1


def test_positions_wrap_around() -> None:
    steps = [{"worker": i} for i in range(5)]
    assert filled(make_pool("a", "b"), *steps).model_id == (0, 1, 0, 1, 0)
    assert filled(make_pool("a"), *steps).model_id == (0,) * 5


@pytest.mark.parametrize(
    ("worker", "found"),
    [
        ("kind:llm", 0),
        ("kind:text", 2),
        ("kind:my.module:worker", 3),
        ("tag:tool", 1),
        ("tag:open", 3),
        ("name:words", 2),
    ],
)
def test_a_worker_by_kind_tag_or_name(worker: str, found: int) -> None:
    assert filled(MIXED, {"worker": worker}).model_id == (found,)


@pytest.mark.parametrize(
    "worker", ["kind:local", "tag:words", "name:tool", "name:", "kind", "", "words", "EACH", "model:openai/m"]
)
async def test_a_worker_that_is_not_there(worker: str, tmp_path: Path) -> None:
    path = write(tmp_path / "mine.yaml", {"steps": [{"worker": worker}]})
    with pytest.raises(InputError, match=r"mine\.yaml needs a worker with .*template:solve") as caught:
        await propose(path, MIXED)
    assert (caught.value.code, repr(worker) in str(caught.value)) == ("template_no_worker", True)


def test_each_is_one_step_for_every_worker() -> None:
    plan = filled(make_pool("a", "b", "c"), {"worker": "each", "subtask": "Try."}, {"worker": 0, "access": "all"})
    assert (plan.model_id, plan.subtasks) == ((0, 1, 2, 0), ("Try.", "Try.", "Try.", ""))
    assert plan.access_list == ((), (), (), "all")


def test_numbers_in_access_are_steps_of_the_file() -> None:
    """A step that `each` made several of is seen as a whole, however large the pool."""
    plan = filled(
        make_pool("a", "b", "c"),
        {"worker": 1},
        {"worker": "each", "access": [0]},
        {"worker": 0, "access": [1]},
        {"worker": 2, "access": [0, 2]},
    )
    assert [plan.sees(i) for i in range(6)] == [(), (0,), (0,), (0,), (1, 2, 3), (0, 4)]


async def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.yml", {"steps": [{"worker": 1, "subtask": 'Say "no".\n'}, {"worker": 0}]})
    assert (await propose(path, MIXED)).subtasks == ('Say "no".\n', "")


UNFIT: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a step that is not earlier": ([{"worker": 0, "access": [0]}], "bad_access"),
    "a step that is not there": ([{"worker": 0}, {"worker": 0, "access": [7]}], "bad_access"),
}


@pytest.mark.parametrize(("steps", "code"), UNFIT.values(), ids=UNFIT)
async def test_plans_that_break_a_rule(steps: list[dict[str, Any]], code: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        await propose(write(tmp_path / "mine.yaml", {"steps": steps}), MIXED)
    assert caught.value.code == code
    assert "mine.yaml" in str(caught.value)


BAD_FILES: dict[str, tuple[str, str]] = {
    "empty": ("", "template_bad_value"),
    "no steps": ("steps: []", "template_bad_value"),
    "steps missing": ("describe: x", "template_bad_value"),
    "unknown key": ("steps: [{worker: 0, acces: all}]", "template_bad_value"),
    "worker missing": ("steps: [{subtask: x}]", "template_bad_value"),
    "access by name": ("steps: [{worker: 0, access: [first]}]", "template_bad_value"),
    "another word": ("steps: [{worker: 0, access: none}]", "template_bad_value"),
    "not YAML": ("steps: [", "template_unreadable"),
    "binary": ("\0\1", "template_unreadable"),
    "deep": ("[" * 20_000, "template_unreadable"),
    "giant number": ("steps: " + "9" * 5000, "template_unreadable"),
}


@pytest.mark.parametrize(("text", "code"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files(text: str, code: str, tmp_path: Path) -> None:
    path = write(tmp_path / "mine.yaml", text)
    with pytest.raises(InputError) as caught:
        load_template(str(path))
    assert caught.value.code == code
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("slove", "template_unknown"),
        ("", "template_unknown"),
        ("../pool", "template_unreadable"),
        ("none.yaml", "template_unreadable"),
    ],
)
def test_unknown_names(name: str, code: str) -> None:
    with pytest.raises(InputError) as caught:
        load_template(name)
    assert caught.value.code == code
    assert code != "template_unknown" or "plan-code-verify, solve" in str(caught.value)
