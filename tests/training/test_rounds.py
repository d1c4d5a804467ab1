"""Second rounds: what their cold start shows and lets write, and that it is what `conduct` asks at inference."""

import asyncio
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("torch")

from conductor_plugin.conduct import conduct
from conductor_plugin.models import Frozen
from conductor_plugin.plan import parse_plan
from conductor_plugin.planners.base import Proposal, read_completion
from conductor_plugin.planners.saved import Saved
from conductor_plugin.planners.trained_conductor import TrainedConductor
from conductor_plugin.pool import load_pool
from tests.training import world
from tests.training.world import completion, config
from training.config import Rules
from training.questions import request_of
from training.recursive import Recursing, line, places, recursive, systems
from training.rounds import KEEP, SHOWN, Asked, rounds_of, run_first

pytestmark = pytest.mark.local
ECHO, FOOL, FAULTY = completion(0), completion(1), "model_id = [7]"
Q1 = world.QUESTIONS["q1"]
ASKED: list[list[str]] = []


class Scripted(Frozen):
    """One completion a round; the prompts that a model would be shown are in `ASKED`."""

    completions: tuple[str, ...]
    name: str = "scripted"
    tries: int = 1

    async def propose(self, request) -> Proposal:
        ASKED[-1].append(SETTINGS.build(request))
        return read_completion(self.completions[len(request.earlier)], request.rules)


def settings(folder: Path):
    return config(world.pool_file(folder), prompt={"style": "short"}, rules={"max_steps": 3, "max_rounds": 1})


SETTINGS = config("embedded", prompt={"style": "short"}).prompt


def made(folder):
    """Rounds of one question: right once, wrong twice, faulty once."""
    chosen = settings(folder)
    pool = load_pool(chosen.pool)
    asked = [Asked(Q1, (0, 1), (FOOL, ECHO, FAULTY, FOOL))]
    outcomes = run_first(chosen, pool, asked, world.Exact, folder / "calls.sqlite")
    return pool, outcomes, rounds_of(chosen, pool, asked, outcomes)


def test_first_rounds_have_the_models_own_plans_and_second_ones_may_keep(tmp_path):
    _, [outcomes], rounds = made(tmp_path)
    assert [outcome.answer for outcome in outcomes] == ["no", "1", None, "no"]
    (_, own), *second = rounds.prompts
    assert list(own) == [FOOL, ECHO, FOOL]
    assert len(second) == SHOWN  # of the two answers that differ, one each
    for prompt, known in second:
        assert list(known).count(KEEP) == len(known) / 2
        assert "output 0: " in prompt
    prompt, plans = rounds.draw(Random(0), 50)
    assert prompt in dict(rounds.prompts)
    assert set(plans) <= {FOOL, ECHO, KEEP}


async def test_its_prompts_are_those_of_inference(tmp_path):
    """The wrong worker, then another: `Recursing` goes on behind each plan, until the bound."""
    pool, _, rounds = await asyncio.to_thread(made, tmp_path)
    ASKED.append([])
    planner = Recursing(inner=Scripted(completions=(FOOL, ECHO)), name="recursing")
    answer = await conduct(Q1.text, pool=pool, planner=planner, max_steps=3, max_rounds=1)
    assert (answer.answer, len(answer.rounds)) == ("1", 2)
    assert set(ASKED.pop()) <= set(dict(rounds.prompts))


@pytest.mark.parametrize(("more", "answer", "rounds"), [(0, "no", 1), (1, "1", 2), (2, "1", 3)])
async def test_as_many_rounds_as_the_bound_and_the_plans_allow(tmp_path, more, answer, rounds):
    ASKED.append([])
    pool = load_pool(settings(tmp_path).pool)
    planner = Recursing(inner=Scripted(completions=(FOOL, ECHO, KEEP)), name="recursing")
    found = await conduct(Q1.text, pool=pool, planner=planner, max_steps=3, max_rounds=more)
    assert (found.status, found.answer, len(found.rounds)) == ("completed", answer, rounds)
    assert len(ASKED.pop()) == rounds


async def test_a_plan_that_says_so_itself_is_left_alone(tmp_path):
    ASKED.append([])
    pool = load_pool(settings(tmp_path).pool)
    request = request_of(Q1, pool, Rules(max_steps=3, max_rounds=1))
    planner = Recursing(inner=Scripted(completions=(completion(0, 2),)), name="recursing")
    proposal = await planner.propose(request)
    assert proposal.plan == parse_plan(completion(0, 2), request.rules)
    ASKED.pop()


def test_the_run_forces_a_second_round_behind_every_first():
    from training.config import load_config

    found = recursive(load_config("two-cores"), 10)
    assert found.forced == found.grpo.questions
    assert found.recursion.first_round_weight == 0.25
    assert found.rules.max_rounds == 1


def test_the_parts_of_the_pool():
    assert [len(part) for part in places(load_pool(None).subset(("calculator", "number", "text")))] == [2, 2, 2, 3]


def test_a_line_of_the_table():
    from tests.training.test_tables import row

    def part(right):  # the same question in both, right in one of them
        return [
            row("rounds:0", "gcd", 0, right=False, steps=1),
            row("rounds:1", "gcd", 0, right=right, steps=2),
            row("rounds:2", "gcd", 0, right=True, steps=2),
        ]

    assert line("all", [part(True), part(False)]) == ["all", 2, 0.0, "1.00", 0.5, "2.00", 1.0, "2.00"]


def test_without_further_rounds_the_model_is_asked_as_for_the_first_of_several(tmp_path):
    pool = load_pool(settings(tmp_path).pool)
    planner = TrainedConductor(model=Saved(path=str(tmp_path), digest="0"))
    once, *more = systems(planner, pool, 3)
    assert (once.max_rounds, once.planner.tries) == (1, 1)
    assert [(system.max_rounds, type(system.planner)) for system in more] == [(1, Recursing), (2, Recursing)]
