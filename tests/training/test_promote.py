"""Promotion: only by a paired margin, in one stroke, and back again."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conductor_plugin.errors import InputError
from conductor_plugin.evaluation.rows import Row
from conductor_plugin.planners import default_conductor, make_planner
from conductor_plugin.planners.manifest import PromptSettings, TrainedRules
from conductor_plugin.pool import load_pool
from tests.training.tiny import POOL, make_checkpoint
from training.export import export
from training.promote import decide, promote, rollback
from training.stages import current_planner


def rows(right, count=100, failed=()):
    """The first `right` of so many questions are right."""
    outcomes = ["failed" if i in failed else "right" if i < right else "wrong" for i in range(count)]
    return [Row(system="x", benchmark="b", question=f"q{i}", repeat=0, outcome=o) for i, o in enumerate(outcomes)]


@pytest.mark.parametrize(
    ("ours", "theirs", "margin", "promoted"),
    [
        (rows(80), rows(60), 0.05, True),
        (rows(80), rows(60), 0.25, False),
        (rows(60), rows(60), 0.0, False),
        (rows(60), rows(80), 0.0, False),
        (rows(61), rows(60), 0.01, False),  # one question in a hundred is chance
        (rows(80, failed=range(60, 80)), rows(60), 0.05, False),  # what made the difference could not be judged
    ],
)
def test_only_what_is_better_by_the_margin(ours, theirs, margin, promoted):
    decision = decide(ours, theirs, margin)
    assert decision.promote is promoted
    assert decision.low <= decision.gain <= decision.high
    assert ("not promoted" in decision.sentence) is not promoted


def test_pairs_are_needed():
    other = [row.model_copy(update={"question": f"other {row.question}"}) for row in rows(5)]
    with pytest.raises(InputError, match="in common"):
        decide(rows(5), other, 0.0)


@pytest.fixture(scope="module")
def conductors(tmp_path_factory):
    folder = tmp_path_factory.mktemp("conductors")
    make_checkpoint(folder / "checkpoint")
    for run in ("one", "two"):
        given = {"rules": TrainedRules(), "max_tokens": 10, "prompt": PromptSettings(style="short")}
        export(folder / "checkpoint", folder / run, pool=POOL, questions=["x"], run=run, **given)
    return folder


def current():
    return Path(make_planner(POOL, "conductor").model.path)


@pytest.mark.local
def test_promotion_and_rollback(conductors, monkeypatch):
    monkeypatch.setattr(default_conductor, "SHIPPED", conductors / "one")
    assert current() == conductors / "one"
    place = promote(conductors / "two", {"gain": 0.2})
    assert current() == place != conductors / "two"  # a copy: the run's folder may go
    assert default_conductor.read_default().figures == {"gain": 0.2}
    assert promote(conductors / "two", {}) == place  # again, as a retried flow does
    assert default_conductor.read_default().former is None
    assert rollback().current is None
    assert current() == conductors / "one"
    assert rollback().current == "two"
    assert current() == place


@pytest.mark.local
def test_what_is_not_whole_is_not_promoted(conductors, tmp_path):
    shutil.copytree(conductors / "one", tmp_path / "one")
    (tmp_path / "one" / "model.onnx").write_bytes(b"")
    with pytest.raises(InputError, match="bytes instead of"):
        promote(tmp_path / "one", {})
    with pytest.raises(InputError, match="nothing was promoted"):
        rollback()
    home = Path(os.environ["CONDUCTOR_HOME"])
    assert not (home / "conductors" / "default.json").exists()


@pytest.mark.local
def test_a_default_that_is_gone(conductors, monkeypatch):
    place = promote(conductors / "one", {})
    shutil.rmtree(place)
    with pytest.raises(InputError, match="the promoted one is gone"):
        make_planner(POOL, "conductor")


def test_without_any(monkeypatch, tmp_path):
    monkeypatch.setattr(default_conductor, "SHIPPED", tmp_path / "none")
    with pytest.raises(InputError, match="conductor:FOLDER"):
        make_planner(POOL, "conductor")
    with pytest.raises(InputError, match="no trained planner in"):
        make_planner(POOL, f"conductor:{tmp_path}")


def test_a_pool_file_may_name_it(monkeypatch, tmp_path):
    from conductor_plugin.pool import pool_from

    monkeypatch.setattr(default_conductor, "SHIPPED", tmp_path / "none")
    content = {"workers": [{"name": "a", "kind": "text"}], "planner": {"kind": "conductor"}}
    with pytest.raises(InputError, match="train one"):
        make_planner(pool_from(content))


@pytest.mark.local
def test_the_command(conductors):
    promote(conductors / "one", {})

    def run(*arguments):
        command = [sys.executable, "-m", "training.promote", *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    assert "the shipped one; before, it was one" in run("rollback").stdout
    assert run("rollback").returncode == 0
    assert run("roll").returncode == 2
    assert asyncio.run(make_planner(POOL, "conductor").propose(_request())).calls == 1


def _request():
    from conductor_plugin.plan import PlanRules
    from conductor_plugin.planners.base import PlanRequest

    return PlanRequest(question="x", pool=POOL, rules=PlanRules(workers=2))


def test_what_a_candidate_would_replace():
    """The embedded pool's own planner, which conducts a part of it; a template where the default fits no pool."""
    current = current_planner(load_pool())
    assert (current.name, current.workers) == ("conductor", ("calculator", "number", "text"))
    assert current_planner(load_pool("closed")).name == "template:solve"
