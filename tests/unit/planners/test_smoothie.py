"""Smoothie: the least estimated error is the medoid; independent and dependent selection through the executor."""

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest

from conductor_plugin.conduct import conduct
from conductor_plugin.errors import InputError
from conductor_plugin.planners import make_planner
from conductor_plugin.planners.smoothie import SmoothieModel, distances, estimated_errors, least_error
from tests.unit import workbench
from tests.unit.workbench import SCRIPTS, pool_of

# Questions of two topics. On colours, workers 0 and 1 agree and 2 is odd; on sums, 1 and 2 agree and 0 is odd.
COLOURS = [f"which colour has the {thing}" for thing in ("sky", "grass", "sun", "sea", "snow", "coal", "rose", "sand")]
SUMS = [f"add {i} and {j} please" for i, j in ((1, 2), (3, 4), (5, 6), (7, 8), (2, 9), (4, 4), (8, 1), (6, 3))]
POOL = pool_of("scripted:a", "scripted:b", "scripted:c")
NAMES = [worker.name for worker in POOL.workers]


@pytest.fixture(autouse=True)
def _fresh():
    workbench.reset()


class Table:
    """Samples in a dictionary: (worker, question) to answers."""

    def __init__(self, answers: dict[tuple[str, str], list[str]]) -> None:
        self.table = answers

    def answers(self, worker: str, question: str) -> list[str]:
        return self.table.get((worker, question), [])


def said(worker: int, question: str) -> str:
    """What the worker of that number says."""
    if question in COLOURS:
        return f"the {question.split()[-1]} is bright" if worker < 2 else "forty two apples"
    return f"the sum is {question[4:-7]}" if worker else "purple elephants dance"


def table() -> Table:
    return Table({(NAMES[i], q): [said(i, q), "another sample"] for i in range(3) for q in COLOURS + SUMS})


def test_least_error_is_the_medoid_on_a_thousand_random_cases():
    random = np.random.default_rng(0)
    for _ in range(1000):
        n, size, questions = random.integers(3, 9), random.integers(1, 6), random.integers(1, 4)
        cases = [distances(random.standard_normal((n, size))) for _ in range(questions)]
        between = np.mean(cases, axis=0)
        assert least_error(between) == int(between.sum(1).argmin())
        # The closed form is the definition: the mean over the pairs of the others.
        for i in range(n):
            pairs = itertools.combinations([j for j in range(n) if j != i], 2)
            mean = np.mean([(between[i, j] + between[i, k] - between[j, k]) / 2 for j, k in pairs])
            assert np.isclose(estimated_errors(between)[i], mean)


def test_estimates_can_be_negative_where_the_published_weight_misleads():
    between = np.array([[0, 1, 1.0], [1, 0, 4.0], [1, 4.0, 0]])  # two wide apart, the first between them
    errors = estimated_errors(between)
    assert errors[0] < 0
    assert least_error(between) == 0
    assert int((1 / errors).argmax()) != 0


async def test_independent_equals_the_row_of_the_worker_that_it_selects(tmp_path):
    """As in the paper's table: its accuracy is exactly that of one single worker."""
    SmoothieModel.fit(POOL, COLOURS + SUMS, table()).save(tmp_path)
    planner = make_planner(POOL, f"smoothie-independent:{tmp_path}")
    row, single = [], []
    for question in COLOURS + SUMS:
        SCRIPTS.update({script: [said(i, question)] for i, script in enumerate("abc")})
        answer = await conduct(question, pool=POOL, planner=planner)
        assert answer.usage.calls == 3
        row.append(answer.answer)
        SCRIPTS["b"] = [said(1, question)]
        single.append((await conduct(question, pool=POOL, planner=make_planner(POOL, "single:scripted-b"))).answer)
    assert row == single  # worker 1 agrees with somebody on both topics


async def test_dependent_selects_by_the_neighbours(tmp_path, monkeypatch):
    """A new question on which the three answers alone say nothing: those to similar questions decide."""
    known = COLOURS[1:] + SUMS[1:]
    SmoothieModel.fit(POOL, known, centred(known)).save(tmp_path)
    monkeypatch.setattr("conductor_plugin.planners.smoothie.NEIGHBOURS", 6)  # of 14: those of one topic
    planner = make_planner(POOL, f"smoothie:{tmp_path}")
    chosen = {}
    for question in (COLOURS[0], SUMS[0]):
        SCRIPTS.update({script: [f"{script} unheard of"] for script in "abc"})
        answer = await conduct(question, pool=POOL, planner=planner)
        assert (answer.status, answer.usage.calls, len(answer.rounds[0].steps)) == ("completed", 3, 4)
        chosen[question] = answer.answer
    assert chosen == {COLOURS[0]: "a unheard of", SUMS[0]: "c unheard of"}


def centred(questions: list[str]) -> Table:
    """Samples in which worker 0 says what the other two say between them on colours, and worker 2 on sums."""
    answers = {}
    for question in questions:
        words = ["red blue", "red", "blue"] if question in COLOURS else ["red", "blue", "red blue"]
        answers.update({(NAMES[i], question): [words[i]] for i in range(3)})
    return Table(answers)


def test_dependent_reads_this_questions_own_answers(monkeypatch):
    """The question itself is its nearest one: with no other, the medoid of the answers at hand is selected."""
    monkeypatch.setattr("conductor_plugin.planners.smoothie.NEIGHBOURS", 1)
    model = SmoothieModel.fit(POOL, COLOURS + SUMS, table())
    assert model.dependent(COLOURS[0], ["the sky is bright", "the sky sum is 7", "the sum is 7"]) == 1
    assert model.dependent(COLOURS[0], ["the sum is 7", "the sky is bright", "the sky sum is 7"]) == 2


def test_reloading_in_a_new_process_gives_the_same(tmp_path):
    model = SmoothieModel.fit(POOL, COLOURS + SUMS, table())
    model.save(tmp_path)
    answers = ["x is bright", "x is", "forty two"]
    code = f"""
from pathlib import Path
from conductor_plugin.planners.smoothie import SmoothieModel
model = SmoothieModel.load(Path({str(tmp_path)!r}))
print(model.independent(), model.dependent("add 1 and 9 please", {answers!r}), end=" ")
print(model.encoder.encode(["the sun"]).tolist())
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    expected = (model.independent(), model.dependent("add 1 and 9 please", answers))
    assert printed.startswith(f"{expected[0]} {expected[1]} ")
    assert np.allclose(json.loads(printed.split(" ", 2)[2]), model.encoder.encode(["the sun"]))


def test_fitting_says_what_is_missing():
    with pytest.raises(InputError, match="no sample of scripted-b"):
        SmoothieModel.fit(POOL, ["q"], Table({("scripted-a", "q"): ["x"]}))
    with pytest.raises(InputError, match="3 at least"):
        SmoothieModel.fit(pool_of("ok", "echo"), COLOURS, table())


async def test_another_pool_is_refused(tmp_path):
    SmoothieModel.fit(POOL, COLOURS, table()).save(tmp_path)
    other = pool_of("scripted:a", "scripted:c", "scripted:b")
    for name in ("smoothie", "smoothie-independent"):
        answer = await conduct("q", pool=other, planner=make_planner(other, f"{name}:{tmp_path}"))
        assert (answer.status, answer.error and answer.error.code) == ("no_plan", "planner_pool")


def test_training_again_into_the_same_folder_is_another_planner(tmp_path):
    SmoothieModel.fit(POOL, COLOURS, table()).save(tmp_path)
    first = make_planner(POOL, f"smoothie:{tmp_path}")
    assert make_planner(POOL, f"smoothie:{tmp_path}") == first
    SmoothieModel.fit(POOL, SUMS, table()).save(tmp_path)
    assert make_planner(POOL, f"smoothie:{tmp_path}") != first


@pytest.mark.parametrize("damage", ["weights.npz", "model.json", "encoder/model.json"])
def test_a_damaged_folder_is_one_sentence(tmp_path, damage):
    SmoothieModel.fit(POOL, COLOURS, table()).save(tmp_path)
    (tmp_path / damage).write_text("[1")
    with pytest.raises(InputError) as caught:
        SmoothieModel.load(tmp_path)
    assert caught.value.code == "planner_unreadable"
