"""A killed run arrives all the same, and pays for nothing twice; a run that keeps crashing ends.

CONDUCTOR_TEST_KILLS=50 python -m pytest tests/prefect/test_crash.py -s     (more kills than the usual four)
"""

import hashlib
import json
import os
import random
import re
import signal
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

import pytest
from prefect.client.schemas.objects import StateType

from conductor_plugin.on_prefect.crashes import MAX_CRASHES
from conductor_plugin.plan import Plan, render_plan
from deployments.automations import automations, ship
from tests.deployed import deployed, engine_of
from tests.upstream import Delay, Hang, Text, Upstream, text_of

KILLS = int(os.environ.get("CONDUCTOR_TEST_KILLS", "4"))
pytestmark = [pytest.mark.prefect, pytest.mark.postgres, pytest.mark.timeout(600 + 75 * KILLS)]

# A result may take so long from the upstream's last byte to Prefect's storage, on a busy machine. Later, a repeat
# is a fault.
STORED_AFTER = 0.5
# Both shorter than what is shipped. The worker's hooks, for which a run rests, took up to 32 s on a busy machine;
# heartbeats come every 30 s.
REST = timedelta(seconds=45)
SILENCE = timedelta(seconds=45)
PLAN = Plan(model_id=(0,) * 4, subtasks=("a", "b", "c", "d"), access_list=((), (), (0, 1), (2,)))


@pytest.fixture(scope="module")
def deployment(prefect_postgres, tmp_path_factory):
    with deployed(prefect_postgres, tmp_path_factory.mktemp("home")) as found:
        for automation in automations(REST, SILENCE):
            assert ship(found.client, automation) == "updated"
            assert len(found.client.read_automations_by_name(automation.name)) == 1
        yield found


@pytest.fixture
def upstream():
    """Every call takes 0.3 to 0.8 s, the planner's too. Answers depend on all that is shown but the question."""
    delays = random.Random(1)

    def reply(body):
        shown = re.sub(r"question \d+", "question", text_of(body))
        digest = hashlib.sha256(shown.encode()).hexdigest()[:8]
        return Delay(delays.uniform(0.3, 0.8), Text(render_plan(PLAN) if body["model"] == "planner" else digest))

    with Upstream(reply) as server:
        yield server


def parameters(upstream, number=0):
    """Those of a run: a question to a prompted planner."""
    worker = {"name": "a", "kind": "llm", "model": "openai/worker", "api_base": upstream.base_url}
    planner = {"kind": "prompted", "model": "openai/planner", "api_base": upstream.base_url}
    return {"question": f"question {number}", "pool": {"workers": [worker], "planner": planner}}


def calls_of(upstream, number=0):
    return [request for request in upstream.requests if re.search(rf"question {number}\b", text_of(request.body))]


def answer_of(flow_run):
    return flow_run.state.result().answer


def next_process(deployment, run, earlier=frozenset()):
    """The run's next process; empty if the run was over first."""
    while not (found := engine_of(run) - earlier):
        if deployment.client.read_flow_run(run).state.is_completed():
            return set()
        time.sleep(0.05)
    return found


@dataclass(frozen=True)
class Killed:
    number: int
    kills: list[float]
    answer: str


def test_killed_at_random_moments(deployment, upstream):
    """Each call is repeated only where a kill came before its answer could be stored."""
    began, runs = time.monotonic(), []
    with deployment.worker():
        expected = undisturbed(deployment, upstream)

        with ThreadPoolExecutor(2) as two:
            while (left := KILLS - sum(len(run.kills) for run in runs)) > 0:
                numbers = range(len(runs) + 1, len(runs) + 1 + max(1, left // 2))
                runs += two.map(lambda number: run_and_kill(deployment, upstream, number), numbers)
    assert {run.answer for run in runs} == {expected}
    repeated = [repeats(calls_of(upstream, run.number), run.kills) for run in runs]
    print(
        f"\n{sum(len(run.kills) for run in runs)} kills of {len(runs)} runs in {time.monotonic() - began:.0f} s; "
        f"repeated calls: {sum(flying for flying, _ in repeated)} that were in flight, "
        f"{sum(late for _, late in repeated)} answered less than {STORED_AFTER} s before"
    )


def undisturbed(deployment, upstream):
    """The answer of a run that nobody kills."""
    run = deployment.start(**parameters(upstream))
    answer = answer_of(deployment.wait(run, StateType.COMPLETED))
    assert len(upstream.requests) == 5
    return answer


def run_and_kill(deployment, upstream, number):
    """Kill the first two starts of a run at random moments of its life; then leave it alone."""
    chance, kills, earlier = random.Random(number), [], set()
    run = deployment.start(**parameters(upstream, number))
    for most in (5, 3):  # a resumed run has fewer calls to make
        found = next_process(deployment, run, earlier)
        before = len(calls_of(upstream, number))
        calls, delay = chance.randint(0, most), chance.uniform(0, 1)
        # Each moment lies within a second of a call's start, or while the process gets ready: how long that takes
        # depends on the machine.
        while found & engine_of(run) and len(calls_of(upstream, number)) < before + calls:
            time.sleep(0.02)
        time.sleep(delay if calls else 4 * delay)
        if kill(found):
            kills.append(time.monotonic())
        earlier |= found
    return Killed(number, kills, answer_of(deployment.wait(run, StateType.COMPLETED, seconds=240)))


def kill(pids):
    """SIGKILL, and whether it came in time for one of them."""
    killed = False
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
            killed = True
        except ProcessLookupError:
            continue
    return killed


def repeats(requests, kills):
    """How many calls were repeated that a kill cut off, and that were answered just before it. Any other is a fault."""
    calls = defaultdict(list)
    for request in requests:
        calls[json.dumps(request.body, sort_keys=True)].append(request)
    assert len(calls) == 5  # the plan and four steps
    flying = late = 0
    for made in calls.values():
        for request in made[:-1]:
            excused = [at for at in kills if request.received_at <= at <= request.finished_at + STORED_AFTER]
            assert excused, (made, kills)
            flying += request.client_left
            late += not request.client_left
    return flying, late


def test_a_lost_machine(deployment, upstream):
    """Worker and run are gone without a word: the heartbeats end, and another machine finishes the run."""
    upstream.script(Hang(120), when=lambda body: body["messages"][-1]["content"] == "c")
    with deployment.worker("first") as first:
        run = deployment.start(**parameters(upstream))
        found = next_process(deployment, run)
        deadline = time.monotonic() + 60
        while len(upstream.requests) < 4:
            assert time.monotonic() < deadline, deployment.told()
            time.sleep(0.05)
        first.kill()
        assert kill(found)
    with deployment.worker("second"):
        finished = deployment.wait(run, StateType.COMPLETED, seconds=180)
    crash = next(state for state in deployment.states(run) if state.is_crashed())
    assert crash.message == "The run's heartbeats stopped."
    assert answer_of(finished)
    assert len(upstream.requests) == 6  # the third step's call, which was in flight, once more; and the fourth's


def test_a_run_that_keeps_crashing_ends_as_failed(deployment, upstream):
    run = deployment.start(**parameters(upstream))
    for _ in range(MAX_CRASHES):
        deployment.put(run, StateType.RUNNING)
        deployment.put(run, StateType.CRASHED)
        deployment.put(run, StateType.SCHEDULED, "AwaitingRetry")
    with deployment.worker():
        state = deployment.wait(run, StateType.FAILED).state
        assert "this run crashed 5 times in a row and is not started again" in state.message
        assert upstream.requests == []
        deployment.put(run, StateType.SCHEDULED, "AwaitingRetry")  # a person who mended it may go on
        assert answer_of(deployment.wait(run, StateType.COMPLETED))


def test_a_run_that_never_comes_to_start_ends_as_failed(deployment, upstream):
    """No flow counts these crashes: the server does."""
    run = deployment.start(**parameters(upstream))
    for _ in range(2 * MAX_CRASHES):
        deployment.put(run, StateType.CRASHED)
        deployment.put(run, StateType.SCHEDULED, "AwaitingRetry")
    assert "started again 10 times within a day" in deployment.wait(run, StateType.FAILED).state.message
