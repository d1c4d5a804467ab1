"""Planners of the compared systems as Prefect flows: sample indices in the cache key, growing plans, reuse."""

import pytest

from conductor_plugin.on_prefect.flow import conductor
from conductor_plugin.planners.smoothie import SmoothieModel
from tests.unit import workbench
from tests.unit.planners.test_smoothie import COLOURS, POOL, SUMS, said, table
from tests.unit.workbench import CALLS, SCRIPTS

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_sqlite")]


@pytest.fixture(autouse=True)
def _fresh():
    workbench.reset()


def content(*names):
    return workbench.pool_of(*names).model_dump(mode="json", exclude_defaults=True)


async def test_five_samples_stay_five_calls_and_are_reused_as_five():
    SCRIPTS["vote"] = ["1", "2", "2", "3", "1", "unwanted"]
    outcomes = []
    for _ in range(2):
        answer = await conductor(
            "reused?", pool=content("scripted:vote"), planner="consensus:scripted-vote", reuse="always"
        )
        outcomes.append((answer.answer, [step.output for step in answer.rounds[0].steps]))
    assert len(CALLS) == 5
    assert outcomes[0] == outcomes[1]
    assert sorted(outcomes[0][1][:5]) == ["1", "1", "2", "2", "3"]


async def test_a_growing_plan_selects_in_the_flow(tmp_path):
    SmoothieModel.fit(POOL, COLOURS + SUMS, table()).save(tmp_path)
    SCRIPTS.update({script: [said(i, SUMS[0])] for i, script in enumerate("abc")})
    answer = await conductor(
        SUMS[0], pool=content("scripted:a", "scripted:b", "scripted:c"), planner=f"smoothie:{tmp_path}"
    )
    assert (answer.status, answer.answer) == ("completed", said(1, SUMS[0]))
    assert [step.worker for step in answer.rounds[0].steps] == ["scripted-a", "scripted-b", "scripted-c", "pick"]


async def test_trinitys_turns_in_the_flow():
    SCRIPTS["t"] = ["ACCEPT"] * 5  # whoever is drawn: a Worker answers, a Verifier accepts
    answer = await conductor("turns", pool=content("scripted:t"), planner="trinity")
    assert (answer.status, answer.answer) == ("completed", "ACCEPT")
    assert answer.usage.calls == len(CALLS) <= 5
