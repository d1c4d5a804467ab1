"""Routers trained from the sample store: on a planted world, by the command, without paying twice."""

import json

import pytest

from conductor_plugin import cli
from conductor_plugin.benchmarks.question import Question
from conductor_plugin.evaluation.store import Store
from conductor_plugin.evaluation.train import Trials, train_baseline
from conductor_plugin.grading.verdict import Verdict
from conductor_plugin.planners import make_planner
from conductor_plugin.planners.trained.attempt import Outcome
from tests.unit.planners import world
from tests.unit.planners.world import HELD_OUT, KNOWN, POOL, TRAINING, accuracy

QUESTIONS = [
    Question(id=f"w/{i}", benchmark="world", text=text, gold=KNOWN, grader="text") for i, text in enumerate(TRAINING)
]


class Exact:
    async def grade(self, question, answer):
        return Verdict(outcome="right" if question.gold in answer else "wrong", extracted=answer)


@pytest.fixture
def trials(tmp_path):
    return Trials(POOL, QUESTIONS, Store(f"sqlite:///{tmp_path / 'store.sqlite'}"), Exact())


async def test_labels_are_the_workers_mean_grades(trials):
    labels = await trials.labels(2)
    assert labels[:3] == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


async def test_smoothie_needs_no_labels(trials, tmp_path):
    await train_baseline("smoothie", POOL, QUESTIONS, trials, encoder="tfidf", seed=0, folder=tmp_path / "s")
    planner = make_planner(POOL, f"smoothie:{tmp_path / 's'}")
    assert 0 <= await accuracy(planner, HELD_OUT[:10]) <= 1


@pytest.mark.local
async def test_routerdc_learns_from_the_store(trials, tmp_path, monkeypatch):
    await train_baseline("routerdc", POOL, QUESTIONS, trials, encoder="tfidf", seed=0, folder=tmp_path / "r")
    assert await accuracy(make_planner(POOL, f"routerdc:{tmp_path / 'r'}"), HELD_OUT) > 0.8

    async def nobody(request, topic):
        raise AssertionError("it was sampled before")

    monkeypatch.setattr(world, "expert", nobody)
    await train_baseline("routerdc", POOL, QUESTIONS, trials, encoder="tfidf", seed=1, folder=tmp_path / "again")


@pytest.mark.local
@pytest.mark.parametrize(("name", "runs"), [("masrouter", 2 * len(QUESTIONS)), ("trinity", 2 * 32 * 16)])
async def test_iterations_bound_what_training_runs(trials, tmp_path, name, runs):
    class Counting:
        count = 0

        async def attempt(self, text, planner):
            self.count += 1
            return Outcome(solved=0.0)

    counting = Counting()
    options = {"encoder": "tfidf", "seed": 0, "folder": tmp_path / name, "iterations": 2}
    await train_baseline(name, POOL, QUESTIONS, counting, **options)
    assert counting.count == runs


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        cli.main(list(arguments))
    return ended.value.code, capsys.readouterr()


def test_the_command(capsys, tmp_path):
    options = ["--benchmark", "rg:gcd", "--limit", "12", "--exclude", "local", "--out", str(tmp_path / "s")]
    code, told = run(capsys, "train-baseline", "smoothie", *options)
    assert code == 0, told.err
    assert f"--planner smoothie:{tmp_path / 's'}" in told.out
    code, told = run(
        capsys,
        "plan",
        "What is the gcd of 4 and 6?",
        "--exclude",
        "local",
        "--planner",
        f"smoothie:{tmp_path / 's'}",
        "--json",
    )
    assert (code, len(json.loads(told.out)["plan"]["model_id"])) == (0, 4)
    code, told = run(capsys, "train-baseline", "smoothie", "--iterations", "3", *options)
    assert (code, "smoothie has no iterations; masrouter and trinity have" in told.err) == (2, True)
    code, told = run(capsys, "train-baseline", "nonsense", *options)
    assert (code, "there are smoothie, routerdc, masrouter, trinity" in told.err) == (2, True)
