"""What a text says about the form of the answer is no part of what a tool is asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.context import WorkerRequest
from conductor_plugin.worker_spec import WorkerSpec
from conductor_plugin.workers import REFUSAL, call_worker
from conductor_plugin.workers.tools.reading import MAX_FORM, without_form

FORMS = [
    'Give the final answer on the last line, as "Answer: …".',
    "Give the final answer between <answer> and </answer>.",
    "Give the final answer in \\boxed{}.",
    "Give only the GCD as your final answer.",
    "Provide only the result.",
    "Only reply with the final value.",
    "Please write the number alone.",
]
ASKED = {
    "calculator": ("What is 17 * 23?", "391"),
    "number": ("Find the Greatest Common Divisor (GCD) of these numbers: 506, 10.", "2"),
    "text": ('Reverse the word "stop".', "pots"),
}


async def said(kind, **texts):
    spec = WorkerSpec(name="t", kind=kind)
    return (await call_worker(spec, WorkerRequest(**texts))).output


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ASKED)
async def test_a_rule_for_the_answers_form_changes_nothing(kind, form):
    question, answer = ASKED[kind]
    assert await said(kind, question=question) == answer
    for end in (f" {form}", f"\n\n{form}", f"\n\n{form}\n{FORMS[0]}"):
        assert await said(kind, question=question + end) == answer
        assert await said(kind, question="anything", subtask=question + end) == answer


@pytest.mark.parametrize("kind", ASKED)
async def test_what_is_more_than_form_is_refused_as_ever(kind):
    question, _ = ASKED[kind]
    for more in ("Give the answer to life.", "Give me the number of moons.", "Add the final answer to 3.", "Why?"):
        assert await said(kind, question=f"{question} {more}") == REFUSAL


@given(st.text(max_size=400))
def test_nothing_but_an_end_is_cut_off(text):
    left = without_form(text)
    assert text.strip().startswith(left)
    assert without_form(left) == left


@pytest.mark.parametrize(
    "text", ["give " * 40_000, "Give the final answer " * 20_000, ". " * 100_000, "give the a " * 9000 + "answer."]
)
def test_long_texts_take_no_time(text):
    assert len(without_form(text)) <= len(text)
    assert MAX_FORM < 1000
