"""The Conductor's prompt: what it shows, what it never shows, and examples that keep their own rules."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from conductor_plugin.context import NO_ANSWER, Message, Seen
from conductor_plugin.errors import InputError
from conductor_plugin.graph import compile_plan, needed_steps
from conductor_plugin.plan import Plan, PlanRules, parse_plan, render_plan
from conductor_plugin.planners.base import Feedback, PlanRequest, read_completion
from conductor_plugin.planners.prompt import build_prompt, load_few_shot
from conductor_plugin.pool import pool_from
from conductor_plugin.receipt import PlanRecord, RoundView
from tests.unit.strategies import plans, tricky_texts

SECRETS = {
    "name": "Zaphod-17",
    "model": "acme/deepthought-42b",
    "api_base": "http://magrathea.invalid/v1",
    "api_key_env": "BEEBLEBROX_KEY",
    "tags": ["heartofgold"],
    "clearance": "confidential",
}
POOL = pool_from(
    {
        "workers": [
            SECRETS | {"kind": "llm", "describe": "strong at proofs", "params": {"seed": 987654321}},
            {"name": "Marvin-99", "kind": "calculator", "describe": "exact arithmetic"},
            {"name": "Trillian-5", "kind": "llm", "model": "acme/eddie"},
        ],
        "planner": {"kind": "prompted", "model": "acme/slartibartfast"},
    }
)
HIDDEN = (
    *("Zaphod", "acme", "deepthought", "magrathea", "BEEBLEBROX", "heartofgold", "confidential"),
    *("987654321", "Marvin", "Trillian", "eddie", "slartibartfast", "calculator"),
)
LISTS = (
    'model_id = [0]\nsubtasks = ["Try."]\naccess_list = [[]]',
    'model_id = [9]\nsubtasks = [""]\naccess_list = [[]]',
)


def request(question: str = "Why is the sky blue?", conductor: bool = False, **more: Any) -> PlanRequest:
    return PlanRequest(
        question=question, pool=POOL, rules=PlanRules(workers=3, max_steps=4, conductor=conductor), **more
    )


def shown(request: PlanRequest, *, blind: bool = False, few_shot: str = "default") -> str:
    return "\n".join(message.content for message in build_prompt(request, blind=blind, few_shot=few_shot))


def earlier(*outputs: str) -> tuple[RoundView, ...]:
    """A last round that the planner may see so many outputs of, after an older round."""
    old = PlanRecord(model_id=(1,), subtasks=("an old subtask",), access_list=((),))
    last = PlanRecord(
        model_id=(0, None, 3), subtasks=('Say "why".', "majority", ""), access_list=((), (0,), "all"), reasoning="hush"
    )
    seen = tuple(Seen(index=i, subtask="", output=output) for i, output in enumerate(outputs))
    return RoundView(plan=old), RoundView(plan=last, outputs=seen)


def feedback(*completions: str) -> tuple[Feedback, ...]:
    rules = PlanRules(workers=3)
    faults = [read_completion(completion, rules).fault for completion in completions]
    return tuple(Feedback(completion=c, error=f.message) for c, f in zip(completions, faults, strict=True) if f)


REQUESTS = {
    "plain": request(),
    "history": request(history=(Message(role="system", content="Be brief."), Message(role="user", content="Hi"))),
    "conductor": request(conductor=True),
    "earlier": request(conductor=True, earlier=earlier("It scatters.", "")),
    "feedback": request(feedback=feedback("no idea", LISTS[1])),
}


@pytest.mark.parametrize("blind", [True, False])
@pytest.mark.parametrize("asked", REQUESTS.values(), ids=REQUESTS)
def test_nothing_of_a_worker_but_its_description_is_shown(asked: PlanRequest, blind: bool) -> None:
    text = shown(asked, blind=blind)
    assert [word for word in HIDDEN if word.lower() in text.lower()] == []
    assert ("strong at proofs" in text, "exact arithmetic" in text) == (not blind, not blind)
    assert "$" not in text.replace(asked.question, "")


@pytest.mark.parametrize("blind", [True, False])
def test_models_are_listed_by_number(blind: bool) -> None:
    text = build_prompt(request(), blind=blind)[-1].content
    assert re.findall(r"^Model (\d+)", text, re.MULTILINE) == ["0", "1", "2"]
    assert "At most 4 steps" in text


def test_the_conductor_is_offered_only_where_it_may_be_chosen() -> None:
    offered, not_offered = (build_prompt(request(conductor=c), blind=True)[-1].content for c in (True, False))
    assert "Model 3 is you" in offered
    assert "Model 3" not in not_offered


@given(tricky_texts())
def test_the_question_stands_there_as_it_is(question: str) -> None:
    marked, asked = (build_prompt(request(text, conductor=True), blind=True) for text in ("MARKER", question))
    assert asked[0] == marked[0]
    assert [m.content for m in asked[1:]] == [m.content.replace("MARKER", question) for m in marked[1:]]
    assert question in asked[1].content


def test_history_comes_in_order_before_the_question() -> None:
    text = build_prompt(REQUESTS["history"], blind=True)[-1].content
    assert -1 < text.index("system: Be brief.") < text.index("user: Hi") < text.index("Why is the sky blue?")


def test_the_last_round_is_shown_with_the_outputs_that_it_may_see() -> None:
    text = shown(request(conductor=True, earlier=earlier("It scatters.", " ")))
    for part in ("model_id = [0, None, 3]", 'Say "why".', "access_list = [[], [0], 'all']", "It scatters.", NO_ANSWER):
        assert part in text
    assert "an old subtask" not in text
    assert "three empty lists" in text
    assert "chose to see no outputs" in shown(request(conductor=True, earlier=earlier()))
    assert "planned this question before" not in shown(request(conductor=True))


def test_faulty_attempts_alternate_with_what_was_wrong() -> None:
    faults = feedback("no idea", LISTS[1], "")
    messages = build_prompt(request(feedback=faults), blind=True)
    assert [message.role for message in messages] == ["system", "user", *["assistant", "user"] * 3]
    assert [message.content for message in messages[2::2]] == ["no idea", LISTS[1], NO_ANSWER]
    for message, fault in zip(messages[3::2], faults, strict=True):
        assert fault.error in message.content
        assert "\n" not in message.content
    assert messages[:2] == build_prompt(request(), blind=True)


def test_few_shot_sets() -> None:
    none, default = build_prompt(request(), blind=True, few_shot="none"), build_prompt(request(), blind=True)
    assert default[0].content == f"{none[0].content}\n\n{load_few_shot('default')}"
    assert default[1:] == none[1:]
    assert "Example." not in none[0].content


def test_a_few_shot_file_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text("\nExample. Mine, über $all.\n")
    assert build_prompt(request(), blind=True, few_shot=str(tmp_path / "mine.md"))[0].content.endswith(
        "Example. Mine, über $all."
    )
    (tmp_path / "binary.md").write_bytes(b"\xff\xfe")
    for name in ("dafault", str(tmp_path / "none.md"), str(tmp_path / "binary.md"), str(tmp_path), ""):
        with pytest.raises(InputError, match="there are default, none") as caught:
            load_few_shot(name)
        assert caught.value.code == "few_shot_unknown"


EXAMPLES = load_few_shot("default").split("\n\n")


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_every_example_is_a_plan_that_keeps_its_own_rules(example: str) -> None:
    models, steps = re.search(r"\(Models 0 to (\d+), at most (\d+) steps\)", example).groups()  # type: ignore[union-attr]
    plan = parse_plan(example, PlanRules(workers=int(models) + 1, max_steps=int(steps)))
    assert plan.reasoning.startswith("Example. Question: ")
    assert needed_steps(compile_plan(plan)) == set(range(len(plan)))
    assert all(line == "" or not line.startswith(" ") for line in example.splitlines())


def test_the_examples_show_different_shapes() -> None:
    assert len(EXAMPLES) == 4
    shapes = {parse_plan(example, PlanRules(workers=9)).access_list for example in EXAMPLES}
    assert len(shapes) == 4


@given(plans(workers=3))
def test_a_rendered_plan_keeps_the_form_that_the_prompt_asks_for(plan: Plan) -> None:
    asked = re.findall(r"^(\w+) = \[", build_prompt(request(), blind=True, few_shot="none")[0].content, re.MULTILINE)
    written = re.findall(r"^(\w+) = \[", render_plan(plan).rpartition("</think>")[2], re.MULTILINE)
    assert asked == written == ["model_id", "subtasks", "access_list"]
