"""A prompted planner whose server is told the grammar of its plans."""

from typing import Any

import pytest

from conductor_plugin.conduct import conduct
from conductor_plugin.errors import PoolError
from conductor_plugin.plan import PlanRules
from conductor_plugin.plan_grammar import plan_grammar
from conductor_plugin.planners import make_planner
from conductor_plugin.pool import pool_from
from tests.unit.strategies import lists
from tests.upstream import Text, Upstream

WORKERS = [{"name": name, "kind": "text", "tags": [name]} for name in ("a", "b", "c")]
PLANNER = {"kind": "prompted", "model": "openai/conductor", "api_base": "http://127.0.0.1:1/v1", "grammar": {}}


def pool(**planner: Any) -> Any:
    return pool_from({"workers": WORKERS, "planner": PLANNER | planner})


@pytest.mark.parametrize("named", [None, "openai/conductor"])
async def test_the_server_is_told_the_grammar_of_this_question(upstream: Upstream, named: str | None) -> None:
    upstream.script(Text(lists("[0, 2]", '["", ""]', '[[], "all"]')), Text(lists("[]", "[]", "[]")))
    body = {"top_k": 20, "chat_template_kwargs": {"enable_thinking": False}}
    bounds = {"reasoning": 0, "subtask": 30}
    members = pool(api_base=upstream.base_url, params={"extra_body": body}, grammar=bounds).subset(exclude=["b"])
    await conduct('Reverse "abc"', pool=members, planner=make_planner(members, named), max_steps=3, max_rounds=1)
    first, second = (request.body for request in upstream.requests)
    rules = PlanRules(workers=2, max_steps=3, conductor=True)
    assert first["structured_outputs"] == {"grammar": plan_grammar(rules, **bounds)}
    assert (first["top_k"], first["chat_template_kwargs"]) == (20, {"enable_thinking": False})
    answered = rules.model_copy(update={"answered": True})
    assert second["structured_outputs"] == {"grammar": plan_grammar(answered, **bounds)}


async def test_without_it_the_field_is_not_sent(upstream: Upstream) -> None:
    upstream.script(Text(lists()))
    members = pool(api_base=upstream.base_url, grammar=None)
    await conduct("q", pool=members, planner=make_planner(members))
    assert "structured_outputs" not in upstream.requests[0].body


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"kind": "conductor", "model": None, "api_base": None}, "grammar is for a planner of kind prompted"),
        ({"api_base": None}, "grammar is for a planner of kind prompted that vLLM serves"),
        ({"model": "anthropic/claude"}, "openai/NAME"),
        ({"grammar": {"reasoning": -1}}, "greater than or equal to 0"),
        ({"grammar": {"subtask": 0}}, "greater than or equal to 1"),
        ({"grammar": {"steps": 3}}, "known keys: reasoning, subtask"),
        ({"grammar": "vllm"}, "must be a mapping"),
        ({"grammar": {"reasoning": True}}, "valid integer"),  # as YAML reads `yes`
        ({"grammar": {"subtask": "400"}}, "valid integer"),
        ({"params": {"extra_body": {"structured_outputs": {"regex": "a"}}}}, "leave params.response_format and"),
        ({"params": {"extra_body": {"response_format": {"type": "json_object"}}}}, "leave params.response_format and"),
        ({"params": {"response_format": {"type": "json_object"}}}, "leave params.response_format and"),
        ({"params": {"structured_outputs": {"regex": "a"}}}, "leave params.response_format and"),
        ({"params": {"extra_body": "x"}}, "extra_body as a mapping"),
    ],
)
def test_it_is_refused_where_no_server_reads_it(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(PoolError, match="planner") as caught:
        pool(**wrong)
    assert caught.value.code in ("pool_bad_value", "pool_unknown_key")
    assert says in str(caught.value)
