""" "Do the next part." asks a tool for one sentence of the question, told by what the visible steps have done."""

import pytest

from conductor_plugin.workers import REFUSAL
from tests.unit.workers.tools import ask

CHAIN = "Find the gcd of 48 and 180. Then multiply the result by 7. Then spell the result backward."
NEXT = ["Do the next part.", "Go on.", "Continue.", "Please do only the next step of the question.", "carry on"]


@pytest.mark.parametrize("phrase", NEXT)
async def test_each_tool_does_its_part_in_turn(phrase):
    assert await ask("number", CHAIN, phrase) == "12"
    assert await ask("calculator", CHAIN, phrase, ["12"]) == "84"
    assert await ask("text", CHAIN, phrase, ["12", "84"]) == "48"


async def test_a_part_of_another_kind_is_refused():
    assert await ask("calculator", CHAIN, "Go on.") == REFUSAL
    assert await ask("number", CHAIN, "Go on.", ["12"]) == REFUSAL


async def test_nothing_is_left_after_the_last_part():
    assert await ask("text", CHAIN, "Go on.", ["12", "84", "48"]) == REFUSAL
    assert await ask("calculator", "What is 2 + 3?", "Go on.", ["5"]) == REFUSAL


async def test_a_question_of_one_part_is_its_own_next_part():
    assert await ask("calculator", "What is 2 + 3?", "Go on.") == "5"


@pytest.mark.parametrize("outputs", [[REFUSAL, "12"], ["12", REFUSAL], [REFUSAL, "12", "(no answer)"]])
async def test_a_refusal_has_done_no_part(outputs):
    assert await ask("calculator", CHAIN, "Go on.", outputs) == "84"
    assert await ask("number", CHAIN, "Go on.", [REFUSAL]) == "12"


async def test_then_inside_a_quotation_parts_nothing_without_a_stop():
    question = 'How many times does the letter "e" appear in the text: "now and then we see"? Then double the result.'
    assert await ask("text", question, "Go on.") == "4"
    assert await ask("calculator", question, "Go on.", ["4"]) == "8"


async def test_other_instructions_are_read_as_ever():
    assert await ask("number", CHAIN, "Go on with the walk.") == REFUSAL
    assert await ask("number", CHAIN) == REFUSAL
