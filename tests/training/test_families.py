"""The families are what `training/README.md` says of them: which tool answers what, and no single call more."""

import asyncio
from itertools import product

import pytest

pytest.importorskip("reasoning_gym")

from conductor_plugin.context import Seen, WorkerRequest
from conductor_plugin.grading.text import grade_text
from conductor_plugin.workers import call_worker
from training.cold_start import PHRASES
from training.families import FAMILIES, SEEDS, TRAINED, UNSEEN, questions, world_pool

TOOLS = range(3)
CALCULATOR, NUMBER, TEXT = TOOLS
KNOWS = {
    "basic_arithmetic": CALCULATOR,
    "products": CALCULATOR,
    "decimal_chain_sum": CALCULATOR,
    "chain_sum": CALCULATOR,
    "gcd": NUMBER,
    "lcm": NUMBER,
    "count_bits": NUMBER,
    "base_conversion": NUMBER,
    "letter_counting": TEXT,
    "spell_backward": TEXT,
}
POOL = world_pool()


def call(worker, question, subtask="", outputs=()):
    seen = tuple(Seen(index=i, subtask="Go on.", output=output) for i, output in enumerate(outputs))
    request = WorkerRequest(question=question.text, subtask=subtask, seen=seen)
    return asyncio.run(call_worker(POOL.workers[worker], request)).output


def is_right(question, answer):
    return grade_text(question.gold, answer).outcome == "right"


@pytest.mark.parametrize("family", [f for f in FAMILIES if not f.chained], ids=lambda f: f.name)
def test_the_right_tool_alone_answers_a_single_question(family):
    for question, phrase in product(questions("held-out", 4, [family]), PHRASES):
        right = [worker for worker in TOOLS if is_right(question, call(worker, question, phrase))]
        assert right == [KNOWS[family.first]]


@pytest.mark.parametrize("family", [f for f in FAMILIES if not f.chained], ids=lambda f: f.name)
def test_a_further_step_that_sees_the_right_answer_spoils_it(family):
    for question in questions("held-out", 2, [family]):
        answer = call(KNOWS[family.first], question)
        after = [call(worker, question, phrase, [answer]) for worker in TOOLS for phrase in PHRASES[1:]]
        assert not any(is_right(question, one) for one in after)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.chained], ids=lambda f: f.name)
def test_only_the_right_tools_in_turn_answer_a_chained_question(family):
    for question in questions("held-out", 3, [family]):
        assert not any(is_right(question, call(w, question, phrase)) for w in TOOLS for phrase in PHRASES)
        outputs = []
        for item in (family.first, *family.then):
            outputs.append(call(KNOWS[item], question, "Go on.", outputs))
        assert is_right(question, outputs[-1])


def test_no_text_is_in_two_splits():
    texts = [q.text for split in SEEDS for q in questions(split, 200, FAMILIES)]
    assert len(texts) == len(set(texts)) == 3 * 200 * len(FAMILIES)


def test_fewer_questions_are_the_beginning_of_more():
    assert questions("test", 2) == questions("test", 5)[: 2 * len(TRAINED)]


def test_half_of_the_trained_families_are_chained_and_no_unseen_one_is_trained_on():
    assert sum(family.chained for family in TRAINED) * 2 == len(TRAINED)
    assert not {f.name for f in TRAINED} & {f.name for f in UNSEEN}
