"""The pools that come with the package: by name, as the paper has them, with settings that litellm takes."""

import json

import pytest

from conductor_plugin.errors import PoolError
from conductor_plugin.llm import price_map_entry, price_of
from conductor_plugin.planners import make_planner
from conductor_plugin.pool import load_pool, shipped_pools
from conductor_plugin.pricing import check_priced, listings
from conductor_plugin.worker_spec import LLM
from tests.unit.strategies import one_worker
from tests.unit.test_cli import run

NAMES = ["closed", "open", "paper-constrained", "paper-unconstrained", "present-day"]
SEVEN = ["gemma", "qwen", "qwen-thinking", "r1-distill", "claude", "gemini", "gpt"]


def test_they_are_all_there_and_differ():
    assert shipped_pools() == NAMES
    assert len({load_pool(name).fingerprint for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_budget_can_be_kept_with_each(name):
    pool = load_pool(name)
    check_priced(pool, make_planner(pool, "moa"))
    assert len({worker.key for worker in pool.workers}) == len(pool.workers)  # else two would share their samples


def settings(name):
    return {worker.name: worker.params for worker in load_pool(name).workers}


def test_the_papers_constrained_workers():
    found = settings("paper-constrained")
    assert list(found) == SEVEN
    assert {params["max_tokens"] for params in found.values()} == {4096}
    assert {name for name, params in found.items() if params.get("temperature") != 0.2} == {"gpt"}
    assert found["gemini"]["thinking"]["budget_tokens"] == 128
    assert found["claude"]["thinking"] == {"type": "disabled"}
    assert found["gpt"]["reasoning_effort"] == "minimal"
    assert found["qwen"]["extra_body"] == {"top_k": 20, "chat_template_kwargs": {"enable_thinking": False}}


def test_the_papers_unconstrained_workers():
    found = settings("paper-unconstrained")
    caps = [found[name]["max_tokens"] for name in SEVEN]
    assert caps[:4] == [20480] * 4
    assert all(64_000 <= cap <= 128_000 for cap in caps[4:])
    for name in ("claude", "gemini"):
        assert found[name]["thinking"]["budget_tokens"] < found[name]["max_tokens"]


@pytest.mark.parametrize("tag", ["open", "closed"])
def test_open_and_closed_are_the_papers(tag):
    assert load_pool(tag).workers == load_pool("paper-constrained").subset([tag]).workers


def test_the_present_days_workers_are_described():
    assert all(worker.describe for worker in load_pool("present-day").workers)


# What becomes of the reasoning settings on the wire; a setting that litellm does not take raises.
SENT = {
    "anthropic/claude-sonnet-4-20250514": ({"type": "disabled"}, {"type": "enabled", "budget_tokens": 56000}),
    "gemini/gemini-2.5-pro": (128, 32768),
    "openai/gpt-5": ("minimal", "high"),
}


@pytest.mark.parametrize("name", NAMES)
def test_litellm_takes_their_settings(name):
    import litellm
    from litellm.utils import get_optional_params

    for worker in load_pool(name).workers:
        if worker.model:
            model, provider, _, _ = litellm.get_llm_provider(worker.model)
            sent = get_optional_params(model=model, custom_llm_provider=provider, **worker.params)
            found = sent.get("thinkingConfig", {}).get("thinkingBudget") or sent.get("reasoning_effort")
            assert worker.output_cap in sent.values()
            if worker.model in SENT:
                assert (found or sent["thinking"]) == SENT[worker.model][name == "paper-unconstrained"]


def test_a_file_of_that_name_wins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "closed").mkdir()  # a directory is none
    assert [worker.name for worker in load_pool("closed").workers] == ["claude", "gemini", "gpt"]
    (tmp_path / "open").write_text(json.dumps(one_worker(name="mine")))
    assert [worker.name for worker in load_pool("open").workers] == ["mine"]


def test_an_unknown_name_is_told_the_shipped_ones():
    with pytest.raises(PoolError, match="closed, open, paper-constrained, paper-unconstrained, present-day") as caught:
        load_pool("opne")
    assert caught.value.code == "pool_unreadable"


def test_the_map_makes_no_price_up_for_what_has_retired():
    """litellm gives retired models of Anthropic a price of 0, with which a budget would never end."""
    for model in ("anthropic/claude-sonnet-4-20250514", "openai/no-such-model"):
        assert price_map_entry(model) is None
        assert price_of(LLM(model=model)) is None
    assert price_of(LLM(model="openai/gpt-4o")).output > price_of(LLM(model="openai/gpt-4o")).input > 0


def test_models_are_looked_up_unless_the_endpoint_is_ones_own():
    found = {listing.who: listing for listing in listings(load_pool("paper-constrained"))}
    assert list(found) == ["claude", "gemini", "gpt"]
    assert not found["claude"].known  # although the file gives its price
    assert list(listings(load_pool("present-day")))[-1].who == "the planner"
    assert listings(load_pool("open")) == listings(load_pool()) == []


def test_the_command_lists_them(capsys, tmp_path):
    code, out, _ = run(capsys, "pool", "--pool", "closed", "--check-models")
    assert code == 1
    assert "gone: claude: anthropic/claude-sonnet-4-20250514 is not in the price map" in out
    code, out, _ = run(capsys, "pool", "--pool", "closed", "--check-models", "--json")
    assert (code, json.loads(out)["models"][0]["known"]) == (1, False)
    assert run(capsys, "pool", "--pool", "closed", "--only", "claude")[0] == 0
    pool = tmp_path / "pool.yaml"
    pool.write_text(json.dumps(one_worker(model="openai/gpt-4o")))
    assert run(capsys, "pool", "--pool", pool, "--check-models")[0] == 0
