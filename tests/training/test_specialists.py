"""What the specialists are taught and asked: nothing twice, and nothing that a tool answers."""

import asyncio

import pytest

pytest.importorskip("torch")
pytest.importorskip("reasoning_gym")

from conductor_plugin.context import WorkerRequest
from conductor_plugin.errors import ConductorError
from conductor_plugin.grading.text import grade_text
from conductor_plugin.workers import call_worker
from training.families import world_pool
from training.specialists import FAMILIES, TESTED, asked_of, examples_of, gaps


@pytest.mark.parametrize("family", FAMILIES)
def test_no_question_is_taught_and_asked(family):
    asked = asked_of(family)
    assert len(asked) == TESTED
    assert not {question for question, _ in asked} & {question for question, _ in examples_of(family)}


async def outcome(worker, question, gold):
    try:
        reply = await call_worker(worker, WorkerRequest(question=question))
    except ConductorError:
        return "refused"
    return grade_text(gold, reply.output).outcome


@pytest.mark.parametrize("family", FAMILIES)
def test_no_tool_answers_any(family):
    tools = [worker for worker in world_pool().workers if "tool" in worker.tags]
    outcomes = [
        asyncio.run(outcome(tool, question, gold)) for question, gold in asked_of(family)[:10] for tool in tools
    ]
    assert len(tools) == 3
    assert "right" not in outcomes


def test_the_gap_is_to_the_next_best():
    shares = {"as it is": [0.5, 0.1], "one": [0.9, 0.2], "two": [0.7, 0.1]}
    assert gaps(shares) == pytest.approx([0.2, 0.1])
