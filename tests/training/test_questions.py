"""Training rows: split from what is held out, reproducible, and byte for byte what a planner is asked at inference."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.conduct import conduct
from conductor_plugin.errors import InputError, LabelError
from conductor_plugin.planners.prompted import PromptedPlanner
from conductor_plugin.pool import pool_from
from conductor_plugin.worker_spec import LLM
from tests.training.world import QUESTIONS, Exact, completion, config, pool_file
from tests.upstream import Text
from training.config import QuestionSet
from training.paid import PaidCalls
from training.questions import feedback, label_of_question, load_questions, prompt_of, request_of, rows
from training.reward import Rewarder, Rollout

WORKERS = {
    "workers": [
        {"name": name, "kind": f"tests.training.world:{kind}", "describe": "never shown", "tags": [tag]}
        for name, kind, tag in (("a", "echo", "x"), ("b", "fool", "x"), ("c", "fool", "y"))
    ]
}
TRICKY = Question(id="t", benchmark="b", text='Was "ist" 2⁵?\n\n$x · ${y}\t{z}\\', gold="1", grader="text")


def sets(*given):
    return [QuestionSet.model_validate(one) for one in given]


def test_the_split_has_no_text_on_both_sides():
    families = sets(*({"name": f"rg:{name}", "limit": 40, "held_out": 20} for name in ("gcd", "count_bits")))
    split = load_questions(families)
    assert (len(split.train), len(split.held_out)) == (80, 40)
    assert not {q.text for q in split.train.values()} & {q.text for q in split.held_out.values()}
    assert load_questions(families) == split
    fewer = load_questions(sets({"name": "rg:gcd", "limit": 10}))
    assert list(fewer.train) == list(split.train)[:10]


def test_a_text_that_two_sets_share_is_used_once(tmp_path):
    row = {"question": "2 + 2?", "gold": "4"}
    path = tmp_path / "feedback.jsonl"
    others = [{"question": f"{i} + 2?", "gold": str(i + 2)} for i in range(3, 6)]
    path.write_text("\n".join(json.dumps(r) for r in [row, row, {**row, "question": " 2  + 2? "}, *others]))
    split = load_questions(sets({"file": str(path), "limit": 2, "held_out": 2}))
    assert len({q.text for q in (split.train | split.held_out).values()}) == 4
    with pytest.raises(InputError, match="has 4 questions that no other set has; 3 to train on and 2 held out"):
        load_questions(sets({"file": str(path), "limit": 3, "held_out": 2}))
    with pytest.raises(InputError, match="nothing to train on"):
        load_questions(sets({"file": str(path), "limit": 0, "held_out": 2}))


def test_feedback_keeps_grader_and_label_and_names_a_bad_line(tmp_path):
    path = tmp_path / "f.jsonl"
    path.write_text('{"question": "a", "gold": "b", "grader": "math", "label": "internal"}\n\n{"question": 1}\n')
    with pytest.raises(InputError, match=r"f\.jsonl, line 3: a row of feedback is"):
        feedback(path)
    path.write_text(path.read_text().splitlines()[0])
    (question,) = feedback(path)
    assert (question.grader, label_of_question(question)) == ("math", "internal")
    with pytest.raises(InputError, match="cannot read the feedback export"):
        feedback(tmp_path / "none.jsonl")


def test_questions_all_come_before_one_comes_again(tmp_path):
    settings = config(pool_file(tmp_path), grpo={"iterations": 6})
    found = rows(settings, pool_from(WORKERS), QUESTIONS)
    assert [row["iteration"] for row in found] == [i for i in range(6) for _ in range(2)]
    assert set(Counter(row["question"] for row in found).values()) == {2}
    assert found == rows(settings, pool_from(WORKERS), QUESTIONS)
    other = rows(config(pool_file(tmp_path), grpo={"iterations": 6, "seed": 1}), pool_from(WORKERS), QUESTIONS)
    assert [row["question"] for row in other] != [row["question"] for row in found]


@given(smallest=st.integers(1, 3), more=st.integers(0, 3), seed=st.integers(0, 100))
def test_subsets_are_of_the_size_asked_for_and_in_the_pools_order(tmp_path_factory, smallest, more, seed):
    folder = tmp_path_factory.mktemp("pool")
    subsets = {"smallest": smallest, "largest": smallest + more}
    settings = config(pool_file(folder), subsets=subsets, grpo={"iterations": 5, "seed": seed})
    found = rows(settings, pool_from(WORKERS), QUESTIONS)
    for row in found:
        assert smallest <= len(row["workers"]) <= min(smallest + more, 3)
        assert row["workers"] == sorted(set(row["workers"]))
        assert f"models: {len(row['workers'])} " in row["prompt"]
    assert found == rows(settings, pool_from(WORKERS), QUESTIONS)


def test_second_rounds_stand_behind_their_first(tmp_path):
    settings = config(
        pool_file(tmp_path), rules={"max_rounds": 1}, recursion={}, grpo={"questions": 4, "iterations": 2}
    )
    found = rows(settings, pool_from(WORKERS), QUESTIONS)
    assert [(row["round"], row["forced"]) for row in found[:6]] == [
        *((0, False), (0, True), (1, True)),
        *((0, False), (0, True), (1, True)),
    ]
    assert all(found[i]["question"] == found[i - 1]["question"] for i in range(12) if found[i]["round"])


async def sent(upstream, pool, question, texts, max_rounds=0):
    """The messages that `conduct` sends for a prompted planner, blind, one list a round."""
    upstream.script(*(Text(text) for text in texts), model="planner")
    planner = PromptedPlanner(llm=LLM(model="openai/planner", api_base=upstream.base_url, api_key_env=None), blind=True)
    await conduct(question.text, pool=pool, planner=planner, max_rounds=max_rounds)
    return [request.body["messages"] for request in upstream.requests]


@pytest.mark.parametrize("question", [QUESTIONS["q1"], TRICKY], ids=["plain", "tricky"])
@pytest.mark.parametrize("only", [(), ("x",)], ids=["full pool", "subset"])
async def test_a_rows_prompt_is_what_inference_sends(tmp_path, upstream, monkeypatch, question, only):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    whole = pool_from(WORKERS)
    (messages,) = await sent(upstream, whole.subset(only), question, [completion(0)])
    subsets = {"smallest": 2, "largest": 2} if only else None
    settings = config(pool_file(tmp_path), prompt={"style": "conductor"}, subsets=subsets, grpo={"iterations": 20})
    found = [row for row in rows(settings, whole, {question.id: question}) if not only or row["workers"] == [0, 1]]
    assert json.dumps(found[0]["prompt"]).encode() == json.dumps(messages).encode()


@pytest.mark.parametrize("access", ['"all"', "[]", "[0]"])
async def test_a_later_rounds_prompt_is_what_inference_sends(tmp_path, upstream, monkeypatch, access):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    pool, question = pool_from(WORKERS), QUESTIONS["q1"]
    first = f'model_id = [1, 2, 3]\nsubtasks = ["do", "it", ""]\naccess_list = [[], "all", {access}]'
    _, messages = await sent(upstream, pool, question, [first, completion(0)], max_rounds=1)
    settings = config(pool_file(tmp_path), prompt={"style": "conductor"}, rules={"max_rounds": 1})
    paid = PaidCalls(tmp_path / "calls.sqlite")
    rewarder = Rewarder(settings, pool, QUESTIONS, paid=paid, grader=Exact)
    (outcome,) = await rewarder.score([Rollout("q1", first, (0, 1, 2), 0, 0)])
    request = request_of(question, pool, settings.rules, (outcome.view,), answered=True)
    assert json.dumps(prompt_of(request, settings.prompt)).encode() == json.dumps(messages).encode()


def test_workers_that_may_not_see_a_question_are_not_offered(tmp_path):
    workers = [{**worker, "clearance": "internal"} for worker in WORKERS["workers"][:2]] + WORKERS["workers"][2:]
    pool = pool_from({"workers": workers})
    secret = {"s": Question(id="s", benchmark="b", text="?", gold="1", grader="text", metadata={"label": "internal"})}
    subsets = {"smallest": 1, "largest": 3}
    found = rows(config(pool_file(tmp_path), subsets=subsets, grpo={"iterations": 20}), pool, secret)
    assert {tuple(row["workers"]) for row in found} == {(0,), (1,), (0, 1)}
    everyone = rows(config(pool_file(tmp_path), reward={"label_violation": "format"}), pool, secret)
    assert everyone[0]["workers"] == [0, 1, 2]
    none = pool_from({"workers": WORKERS["workers"]})
    with pytest.raises(LabelError, match="no worker of the pool is cleared for internal"):
        rows(config(pool_file(tmp_path)), none, secret)
