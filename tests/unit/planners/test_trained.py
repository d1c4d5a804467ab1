"""RouterDC, MasRouter and TRINITY: trained on a planted world, saved, used in a new process on held-out questions."""

import asyncio
import subprocess
import sys

import pytest

from conductor_plugin.planners import make_planner
from tests.unit.planners.world import HELD_OUT, POOL, TOPICS, TRAINING, accuracy, attempt, topic_of

pytestmark = pytest.mark.local  # torch


def in_a_new_process(name: str) -> float:
    """The held-out accuracy of a planner by name, in an interpreter that has trained nothing."""
    code = f"""
import asyncio
from conductor_plugin.planners import make_planner
from tests.unit.planners.world import HELD_OUT, POOL, accuracy
print(asyncio.run(accuracy(make_planner(POOL, {name!r}), HELD_OUT)))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(result.stdout)


def best_single() -> float:
    return max(asyncio.run(accuracy(make_planner(POOL, f"single:{w.name}"), HELD_OUT)) for w in POOL.workers)


def check_gain(kind: str, untrained, trained, folder) -> None:
    untrained.save(folder / "untrained")
    trained.save(folder / "trained")
    before = asyncio.run(accuracy(make_planner(POOL, f"{kind}:{folder / 'untrained'}"), HELD_OUT))
    after = in_a_new_process(f"{kind}:{folder / 'trained'}")
    print(f"{kind}: untrained {before:.2f}, trained {after:.2f}, best single {best_single():.2f}")
    assert after >= before + 0.2
    assert after >= best_single() + 0.2
    assert {path.suffix for path in folder.rglob("*") if path.is_file()} == {".json", ".npz"}


def test_routerdc(tmp_path):
    from conductor_plugin.planners.trained.routerdc import new_router, train_routerdc

    scores = [[float(topic_of(question) == topic) for topic in TOPICS] for question in TRAINING]
    untrained = new_router(POOL, TRAINING)
    check_gain("routerdc", untrained, train_routerdc(untrained, TRAINING, scores, steps=300), tmp_path)


def test_masrouter(tmp_path):
    from conductor_plugin.planners.cascade import new_cascade
    from conductor_plugin.planners.trained.masrouter import train_masrouter

    trained = asyncio.run(train_masrouter(POOL, TRAINING, attempt, epochs=8))
    check_gain("masrouter", new_cascade(POOL, TRAINING, "tfidf", 0), trained, tmp_path)


def test_trinity(tmp_path):
    from conductor_plugin.planners.trained.trinity import new_policy, train_trinity

    untrained = new_policy(POOL, TRAINING, size=8)
    trained = asyncio.run(train_trinity(untrained, TRAINING, attempt, iterations=30, population=16, repeats=18))
    check_gain("trinity", untrained, trained, tmp_path)


@pytest.mark.parametrize("kind", ["routerdc", "masrouter", "trinity"])
def test_a_trained_planner_belongs_to_its_pool_and_its_folder(kind, tmp_path):
    """Another pool is refused, and so is a folder that was trained again after the planner was made."""
    from conductor_plugin.conduct import conduct
    from conductor_plugin.planners.cascade import new_cascade
    from conductor_plugin.planners.trained.routerdc import new_router
    from conductor_plugin.planners.trained.trinity import new_policy

    make = {
        "routerdc": lambda questions: new_router(POOL, questions),
        "masrouter": lambda questions: new_cascade(POOL, questions, "tfidf", 0),
        "trinity": lambda questions: new_policy(POOL, questions),
    }[kind]
    make(TRAINING).save(tmp_path / "one")
    make(TRAINING[:20]).save(tmp_path / "other")
    planner = make_planner(POOL, f"{kind}:{tmp_path / 'one'}")
    smaller = POOL.subset(exclude=["expert-0"])
    other = make_planner(POOL, f"{kind}:{tmp_path / 'other'}")
    answer = asyncio.run(conduct(TRAINING[0], pool=smaller, planner=other))
    assert (answer.status, answer.error and answer.error.code) == ("no_plan", "planner_pool")
    assert answer.usage.calls == 0
    make(TRAINING[:30]).save(tmp_path / "one")
    assert make_planner(POOL, f"{kind}:{tmp_path / 'one'}") != planner
    answer = asyncio.run(conduct(TRAINING[0], pool=POOL, planner=planner))
    assert (answer.status, answer.error and answer.error.code) == ("no_plan", "planner_changed")
