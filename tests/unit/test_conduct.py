"""`conduct`: planning attempts, rounds, and an Answer in every case."""

import asyncio

import pytest

from conductor_plugin.conduct import Answered, conduct
from conductor_plugin.graph import CallStep, ConductorStep, Step
from conductor_plugin.models import Frozen
from conductor_plugin.planners import make_planner
from conductor_plugin.planners.base import PlanRequest, Proposal, read_completion
from conductor_plugin.receipt import Answer
from conductor_plugin.rounds import Engine
from tests.unit import workbench
from tests.unit.workbench import CALLS, SCRIPTS, permanent, pool_of, transient

REQUESTS: list[PlanRequest] = []


@pytest.fixture(autouse=True)
def _fresh():
    workbench.reset()
    REQUESTS.clear()


class Scripted(Frozen):
    """A planner that writes the completions it was given, one a request."""

    completions: tuple[str, ...]
    name: str = "scripted"
    tries: int = 3

    async def propose(self, request: PlanRequest) -> Proposal:
        REQUESTS.append(request)
        completion = self.completions[min(len(REQUESTS), len(self.completions)) - 1]
        proposal = read_completion(completion, request.rules)
        return proposal.model_copy(update={"calls": 1, "prompt_tokens": 10, "completion_tokens": 3})


def plan(*rows, reasoning="because"):
    return (
        f"{reasoning}\nmodel_id = {[r[0] for r in rows]}\nsubtasks = {[r[1] for r in rows]}\n"
        f"access_list = {[r[2] for r in rows]}"
    )


async def test_an_answer_with_its_receipt():
    answer = await conduct(
        "q", pool=pool_of("echo"), planner=Scripted(completions=(plan((0, "a", []), (0, "b", "all")),))
    )
    assert (answer.status, answer.answer, answer.label) == ("completed", "b<a<>>", "public")
    assert answer.rounds[0].plan.reasoning == "because"
    assert (answer.planner.attempts, answer.usage.calls, answer.usage.prompt_tokens) == (1, 3, 10)
    assert Answer.model_validate(answer.to_json()) == answer


def test_the_json_has_exactly_the_contracts_keys():
    answer = asyncio.run(conduct("q", pool=pool_of("ok"), planner=Scripted(completions=(plan((0, "", [])),))))
    record = answer.to_json()
    assert list(record) == [
        *("schema", "answer", "status", "error", "flow_run_id", "label", "planner", "rounds", "usage"),
        *("elapsed_s", "critical_path_s"),
    ]
    assert list(record["planner"]) == ["name", "attempts", "prompt_tokens", "completion_tokens", "cost_usd"]
    assert list(record["rounds"][0]) == ["plan", "steps"]
    assert list(record["rounds"][0]["plan"]) == ["model_id", "subtasks", "access_list", "reasoning"]
    assert list(record["rounds"][0]["steps"][0]) == [
        *("index", "worker", "kind", "sees", "status", "attempts", "output", "prompt_tokens", "completion_tokens"),
        *("cost_usd", "latency_s", "model", "fallback_from", "pruned"),
    ]
    assert list(record["usage"]) == ["calls", "prompt_tokens", "completion_tokens", "cost_usd"]


async def test_a_faulty_plan_is_asked_for_again_with_the_reason():
    good = plan((0, "", []))
    answer = await conduct("q", pool=pool_of("ok"), planner=Scripted(completions=("nonsense", plan((9, "", [])), good)))
    assert (answer.status, answer.planner.attempts, answer.usage.calls) == ("completed", 3, 4)
    assert [f.completion for f in REQUESTS[-1].feedback] == ["nonsense", plan((9, "", []))]
    assert "model_id is missing" in REQUESTS[-1].feedback[0].error
    assert "9" in REQUESTS[-1].feedback[1].error


async def test_a_planner_that_never_plans():
    answer = await conduct("q", pool=pool_of("ok"), planner=Scripted(completions=("nonsense",)))
    assert (answer.status, answer.answer, answer.planner.attempts) == ("no_plan", None, 3)
    assert answer.error is not None
    assert answer.error.code == "no_plan"
    assert answer.usage.prompt_tokens == 30
    assert CALLS == []


async def test_a_planner_that_cannot_be_asked_is_a_failure_not_a_bad_plan():
    class Down(Scripted):
        async def propose(self, request: PlanRequest) -> Proposal:
            raise permanent()

    answer = await conduct("q", pool=pool_of("ok"), planner=Down(completions=()))
    assert (answer.status, answer.usage.calls) == ("failed", 1)


async def test_a_transient_planner_fault_is_tried_again(monkeypatch):
    faults = [transient(), transient()]

    class Shaky(Scripted):
        async def propose(self, request: PlanRequest) -> Proposal:
            if faults:
                raise faults.pop()
            return await super().propose(request)

    answer = await conduct("q", pool=pool_of("ok"), planner=Shaky(completions=(plan((0, "", [])),)))
    assert (answer.status, answer.planner.attempts, answer.usage.calls) == ("completed", 3, 3 + 1)


async def test_a_given_plan_is_not_repaired():
    pool = pool_of("ok")
    answer = await conduct("q", pool=pool, planner=make_planner(pool, plan=plan((3, "", []))))
    assert (answer.status, answer.error.code if answer.error else None) == ("no_plan", "bad_model_id")


@pytest.mark.parametrize("empty", ["", "  \n"])
async def test_an_empty_last_output_is_a_failure(empty):
    SCRIPTS["main"] = [empty]
    answer = await conduct("q", pool=pool_of("scripted:main"), planner=Scripted(completions=(plan((0, "", [])),)))
    assert (answer.status, answer.error.code if answer.error else None) == ("failed", "empty_answer")


async def test_two_rounds():
    """The Conductor as last step: the next planner sees the plan and what that step may see."""
    first = plan((0, "a", []), (0, "b", []), (1, "", [0]))
    second = plan((0, "c", []))
    answer = await conduct("q", pool=pool_of("echo"), planner=Scripted(completions=(first, second)), max_rounds=1)
    assert (answer.status, answer.answer) == ("completed", "c<>")
    assert [len(r.steps) for r in answer.rounds] == [3, 1]
    conductor = answer.rounds[0].steps[2]
    assert (conductor.kind, conductor.sees, conductor.status) == ("conductor", (0,), "completed")
    view = REQUESTS[1].earlier[0]
    assert [(s.index, s.subtask, s.output) for s in view.outputs] == [(0, "a", "a<>")]
    assert view.plan.model_id == (0, 0, 1)
    assert answer.usage.calls == 2 + 3


async def test_three_empty_lists_keep_the_answer():
    first = plan((0, "a", []), (1, "", "all"))
    answer = await conduct("q", pool=pool_of("echo"), planner=Scripted(completions=(first, plan())), max_rounds=3)
    assert (answer.status, answer.answer, len(answer.rounds)) == ("completed", "a<>", 2)
    assert answer.rounds[1].steps == ()


async def test_the_step_before_the_conductor_runs_even_if_the_conductor_does_not_see_it():
    first = plan((0, "seen", []), (0, "kept", []), (1, "", [0]))
    answer = await conduct("q", pool=pool_of("echo"), planner=Scripted(completions=(first, plan())), max_rounds=1)
    assert answer.answer == "kept<>"


async def test_the_bound_on_rounds():
    again = plan((0, "x", []), (1, "", "all"))
    answer = await conduct("q", pool=pool_of("ok"), planner=Scripted(completions=(again,)), max_rounds=2)
    assert (answer.status, answer.answer, len(answer.rounds), len(CALLS)) == ("completed", "ok", 3, 3)


async def test_the_conductor_is_not_offered_without_rounds():
    answer = await conduct("q", pool=pool_of("ok"), planner=Scripted(completions=(plan((0, "", []), (1, "", [])),)))
    assert answer.error is not None
    assert "numbered 0 to 0" in answer.error.message


async def test_a_later_round_without_a_plan_loses_nothing_of_the_first():
    first = plan((0, "a", []), (1, "", "all"))
    answer = await conduct("q", pool=pool_of("echo"), planner=Scripted(completions=(first, "?")), max_rounds=1)
    assert (answer.status, answer.answer, len(answer.rounds)) == ("no_plan", "a<>", 1)


async def test_cancellation_tells_a_partial_answer():
    told: list[object] = []
    completion = plan((0, "quick 0.01", []), (0, "slow 30", "all"))
    task = asyncio.create_task(
        conduct("q", pool=pool_of("sleeper"), planner=Scripted(completions=(completion,)), on_event=told.append)
    )
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    answer = next(event.answer for event in told if isinstance(event, Answered))
    assert answer.status == "cancelled"
    assert [step.status for step in answer.rounds[0].steps] == ["completed", "cancelled"]
    assert Answer.model_validate(answer.to_json()) == answer


class Odd(Scripted):
    """A planner that does what no planner should."""

    completions: tuple[str, ...] = ()
    steps: tuple[Step, ...] | None = None
    error: str = ""

    async def propose(self, request: PlanRequest) -> Proposal:
        if self.error:
            raise ValueError(self.error)
        return Proposal(steps=self.steps)


@pytest.mark.parametrize(
    "planner",
    [
        Odd(error="boom"),
        Odd(),
        Odd(steps=(CallStep(worker=7),)),
        Odd(steps=(CallStep(worker=0, access=(3,)),)),
        Odd(steps=(ConductorStep(), CallStep(worker=0))),
    ],
    ids=str,
)
async def test_an_answer_comes_back_whatever_the_planner_does(planner):
    answer = await conduct("q", pool=pool_of("ok"), planner=planner)
    assert answer.status in ("failed", "no_plan")
    assert answer.error is not None
    assert answer.error.code in ("planner_raised", "bad_steps")


async def test_a_cancelled_receipt_has_what_the_planner_took():
    told: list[object] = []
    planner = Scripted(completions=(plan((0, "slow 30", [])),))
    task = asyncio.create_task(conduct("q", pool=pool_of("sleeper"), planner=planner, on_event=told.append))
    while not workbench.RUNNING["slow 30"]:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    answer = next(event.answer for event in told if isinstance(event, Answered))
    assert (answer.planner.attempts, answer.planner.prompt_tokens, answer.usage.calls) == (1, 10, 2)
    assert answer.critical_path_s > 0


@pytest.mark.parametrize("yes", [True, False])
async def test_a_person_approves_off_the_deadlines_clock(yes):
    asked = []

    async def approve(ready):
        asked.append(ready.plan.model_id)
        await asyncio.sleep(0.5)
        return yes

    planner = make_planner(pool_of("ok"), plan=plan((0, "a", []), (0, "b", "all")))
    answer = await conduct("q", pool=pool_of("ok"), planner=planner, engine=Engine(approve=approve), deadline_s=0.4)
    assert asked == [(0, 0)]
    assert (answer.status, len(CALLS)) == (("completed", 2) if yes else ("cancelled", 0))
    assert (answer.error and answer.error.code) == (None if yes else "not_approved")


async def test_every_round_is_approved_by_itself():
    answers = iter([True, False])

    async def approve(ready):
        return next(answers)

    rounds = Scripted(completions=(plan((0, "a", []), (1, "", "all")), plan((0, "b", []))))
    answer = await conduct("q", pool=pool_of("ok"), planner=rounds, max_rounds=1, engine=Engine(approve=approve))
    assert (answer.status, answer.error.code, len(CALLS), len(answer.rounds)) == ("cancelled", "not_approved", 1, 2)
