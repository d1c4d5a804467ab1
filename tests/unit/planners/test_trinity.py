"""TRINITY's turns: roles, accepting, five turns at most; through the real executor."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from conductor_plugin.conduct import conduct
from conductor_plugin.planners import make_planner
from conductor_plugin.planners.base import PlanRequest, Proposal
from conductor_plugin.planners.trinity import SUBTASKS, Role, Turn, next_steps
from tests.unit import workbench
from tests.unit.workbench import CALLS, SCRIPTS, pool_of


@pytest.fixture(autouse=True)
def _fresh():
    workbench.reset()


POOL = pool_of("scripted:a", "scripted:b")
OF = {subtask: role for role, subtask in SUBTASKS.items()}


@dataclass
class Given:
    """A planner whose policy is a list of (worker, role)."""

    choices: list[tuple[int, Role]]
    seen: list[list[Turn]] = field(default_factory=list)
    name: str = "given"
    tries: int = 1

    async def propose(self, request: PlanRequest) -> Proposal:
        return Proposal(steps=next_steps(request, (), self.policy))

    async def grow(self, request: PlanRequest, results):
        return next_steps(request, results, self.policy)

    def policy(self, request: PlanRequest, turns: Sequence[Turn]) -> tuple[int, Role]:
        self.seen.append(list(turns))
        return self.choices[len(turns)]


async def run(choices, a=(), b=()):
    SCRIPTS.update(a=list(a), b=list(b))
    planner = Given(choices)
    answer = await conduct("q", pool=POOL, planner=planner)
    return answer, [OF[request.subtask] for _, request in CALLS], planner


async def test_it_stops_when_a_verifier_accepts():
    choices = [(0, "worker"), (1, "verifier"), (0, "worker")]
    answer, roles, planner = await run(choices, a=["42"], b=["ACCEPT: it is right"])
    assert (answer.status, answer.answer, answer.usage.calls) == ("completed", "42", 2)
    assert roles == ["worker", "verifier"]
    assert planner.seen == [[], [Turn("worker", "42")]]


@pytest.mark.parametrize("verdict", ["REVISE: I cannot ACCEPT it", "Accepting this would be wrong", "", "It is right"])
async def test_no_other_words_accept(verdict):
    choices = [(0, "worker"), (1, "verifier"), (0, "worker"), (1, "verifier")]
    answer, roles, _ = await run(choices, a=["41", "42"], b=[verdict, "**ACCEPT**"])
    assert (answer.answer, roles) == ("42", ["worker", "verifier", "worker", "verifier"])
    assert [seen.output for seen in CALLS[2][1].seen] == ["41", verdict]


async def test_a_worker_who_says_accept_ends_nothing():
    answer, roles, _ = await run([(0, "worker"), (0, "worker"), (1, "verifier")], a=["ACCEPT", "42"], b=["ACCEPT"])
    assert (answer.answer, roles) == ("42", ["worker", "worker", "verifier"])


async def test_five_turns_at_most_and_the_latest_answer():
    choices = [(0, "worker"), (1, "verifier"), (0, "worker"), (1, "verifier"), (1, "thinker")]
    answer, roles, _ = await run(choices, a=["1", "2"], b=["REVISE", "REVISE", "hm"])
    assert (answer.status, answer.answer, answer.usage.calls) == ("completed", "2", 5)
    assert len(roles) == 5
    assert answer.rounds[0].steps[-1].kind == "reduce"


async def test_a_worker_in_the_last_turn_needs_no_selection():
    answer, _, _ = await run([(0, "worker")] * 5, a=list("12345"))
    assert (answer.answer, answer.usage.calls, len(answer.rounds[0].steps)) == ("5", 5, 5)


async def test_a_verifier_before_any_answer_becomes_a_worker():
    answer, roles, _ = await run([(1, "verifier"), (0, "verifier")], a=["ACCEPT"], b=["42"])
    assert (answer.answer, roles) == ("42", ["worker", "verifier"])


async def test_a_verifier_after_a_thought_alone_becomes_a_worker_too():
    answer, roles, _ = await run([(1, "thinker"), (1, "verifier"), (0, "verifier")], a=["ACCEPT"], b=["hm", "42"])
    assert (answer.answer, roles) == ("42", ["thinker", "worker", "verifier"])


async def test_the_last_turn_answers_if_nobody_has():
    answer, roles, _ = await run([(0, "thinker")] * 5, a=["a", "b", "c", "d", "42"])
    assert (answer.answer, roles) == ("42", ["thinker"] * 4 + ["worker"])


async def test_a_thinker_may_name_the_next_role():
    choices = [(0, "worker"), (1, "thinker"), (0, "worker"), (1, "verifier")]
    answer, roles, _ = await run(choices, a=["42", "ACCEPT"], b=["looks done\nNEXT: VERIFIER"])
    assert (answer.answer, roles) == ("42", ["worker", "thinker", "verifier"])


async def test_the_worker_is_asked_the_bare_question_with_the_transcript_in_view():
    await run([(1, "thinker"), (0, "worker"), (1, "verifier")], a=["42"], b=["factor it", "ACCEPT"])
    _, (_, request), _ = CALLS
    assert (request.subtask, [seen.output for seen in request.seen]) == ("", ["factor it"])


@pytest.mark.parametrize("question", [f"q{i}" for i in range(20)])
async def test_untrained_it_draws_and_always_ends_with_an_answer(question):
    answer = await conduct(question, pool=POOL, planner=make_planner(POOL, "trinity"))
    assert (answer.status, answer.answer) == ("completed", "done")
    assert 1 <= answer.usage.calls <= 5
    again = await conduct(question, pool=POOL, planner=make_planner(POOL, "trinity"))
    assert again.rounds[0].plan == answer.rounds[0].plan
