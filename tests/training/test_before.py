"""Before the first iteration: no GRPO on a model that cannot write plans, none on questions that teach nothing."""

import json

import pytest

from conductor_plugin.errors import InputError
from conductor_plugin.plan import PlanRules
from tests.training.test_trainer import KEEP, LATE, RIGHT, WRONG, lines, run
from tests.training.world import QUESTIONS, Canned, Drawn, Exact, completion, config, pool_file, save_model
from training.before import parse_rates
from training.grpo import train

NO_ACCESS = completion(1, 0).replace('"all"', "[7]")


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("start"))


def test_parse_rates_are_by_the_length_that_was_meant():
    texts = [RIGHT, RIGHT, LATE, NO_ACCESS, completion(0, 1, 0, 1), KEEP, "nonsense"]
    assert parse_rates(texts, PlanRules(workers=2, max_steps=3)) == {0: (0, 2), 1: (2, 2), 2: (1, 2), 4: (0, 1)}


def test_grpo_refuses_to_start_when_one_length_is_badly_written(tmp_path, start):
    # 19 of 20 are valid in all, but of the plans of two steps only 9 of 10.
    sampler = Canned(*[RIGHT] * 10, *[LATE] * 9, NO_ACCESS)
    settings = config(
        pool_file(tmp_path, log=str(tmp_path / "log")), gate={"parse_rate": 0.95, "samples": 20, "refuse": True}
    )
    with pytest.raises(InputError) as caught:
        run(settings, tmp_path, start, sampler)
    assert caught.value.code == "parse_rate_low"
    assert str(caught.value).startswith(
        "only 0.950 of 20 sampled plans are valid, the bar is 0.95 (1 steps: 10 of 10, 2 steps: 9 of 10)"
    )
    assert not (tmp_path / "log").exists()  # nothing was paid for


def test_where_rl_learns_the_format_it_is_told(tmp_path, start):
    notes = []
    settings = config(pool_file(tmp_path), gate={"samples": 8, "refuse": False}, grpo={"iterations": 1})
    finished, _, _ = run(settings, tmp_path, start, Canned("nonsense", RIGHT), on_note=notes.append)
    assert finished.status == "finished"
    assert notes == [
        "only 0.500 of 8 sampled plans are valid, the bar is 0.95 (0 steps: 0 of 4, 1 steps: 4 of 4); the first thing "
        "that is learnt is the format"
    ]


def test_questions_whose_rollouts_cannot_differ_are_left_out(tmp_path, start):
    """Those that no worker answers right; kept for the next start."""
    hopeless = {f"h{i}": q.model_copy(update={"id": f"h{i}", "gold": "-"}) for i, q in enumerate(QUESTIONS.values())}
    asked = {**hopeless, **QUESTIONS}
    settings = config(pool_file(tmp_path), sampling={"screen": 8}, grpo={"iterations": 6})
    sampler = Canned(RIGHT, WRONG)
    train(settings, tmp_path / "run", start=start, questions=asked, grader=Exact, sampler=sampler)
    assert json.loads((tmp_path / "run/screened.json").read_text()) == list(QUESTIONS)
    assert {row["question"] for row in lines(tmp_path / "run/rollouts.jsonl")} == set(QUESTIONS)
    with pytest.raises(InputError, match="score alike, so that there is nothing to learn"):
        train(settings, tmp_path / "none", start=start, questions=hopeless, grader=Exact, sampler=Drawn())
