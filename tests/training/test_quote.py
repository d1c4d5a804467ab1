"""What training may take, from what calls were like; unknown where nobody can say."""

import json

import pytest

from conductor_plugin.calls import Typical
from conductor_plugin.pool import pool_from
from tests.training.world import QUESTIONS, config, pool_file
from training.quote import quote_lines, quote_training

ASKED = list(QUESTIONS.values())
LIKE = Typical(calls=9, latency_s=2.0, completion_tokens=100, output_bytes=400)


def priced_pool(**changes):
    price = {"input": 1.0, "output": 10.0}
    entry = {"kind": "llm", "params": {"max_tokens": 1000}, "price": price, "retries": 1, "max_concurrency": 4}
    return pool_from({"workers": [{"name": f"w{i}", "model": f"openai/m{i}", **entry, **changes} for i in range(2)]})


def offer(tmp_path, pool, typical, **changes):
    return quote_training(config(pool_file(tmp_path), **changes), pool, ASKED, typical, tmp_path / "run")


def test_figures_are_those_of_all_rollouts(tmp_path):
    found = offer(tmp_path, priced_pool(), {"w0": LIKE, "w1": LIKE})
    assert (found.iterations, found.rollouts) == (2, 16)
    calls = found.calls
    assert (calls.low, calls.likely, calls.high) == (16, 16 * 3, 16 * 5 * 2)
    assert found.completion_tokens.likely == 16 * 3 * 100
    assert found.cost_usd.low < found.cost_usd.likely < found.cost_usd.high
    assert found.cost_usd.likely == pytest.approx((found.prompt_tokens.likely + 10 * 4800) / 1e6)
    assert found.hours.likely == pytest.approx(16 * 3 * 2.0 / 4 / 3600)
    assert any("the workers' alone" in sentence for sentence in found.unknown)


def test_what_is_not_recorded_is_unknown(tmp_path):
    found = offer(tmp_path, priced_pool(), {"w0": LIKE})
    assert (found.calls.likely, found.cost_usd.likely, found.hours.likely) == (48, None, None)
    assert "no call of w1 is recorded yet" in found.unknown
    assert "unknown" in "\n".join(quote_lines(found))
    unpriced = offer(tmp_path, priced_pool(price=None, model="openai/nobody-knows-it"), {"w0": LIKE, "w1": LIKE})
    assert unpriced.cost_usd.high is None
    assert "the price of w0 is unknown" in unpriced.unknown


def test_second_rounds_spare_groups_and_screening_count(tmp_path):
    like = {"w0": LIKE, "w1": LIKE}
    assert offer(tmp_path, priced_pool(), like, sampling={"spare": 1, "screen": 4}).rollouts == 2 * 3 * 4 + 4 * 6
    recursive = offer(tmp_path, priced_pool(), like, rules={"max_rounds": 1}, recursion={"forced_share": 0.5})
    assert recursive.rollouts == 2 * 3 * 4


def test_a_run_on_its_way_is_quoted_from_its_own_steps(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/log.jsonl").write_text(json.dumps({"step": 1, "step_time": 1800.0}) + "\n")
    found = offer(tmp_path, priced_pool(), {"w0": LIKE, "w1": LIKE})
    assert (found.iterations, found.rollouts, found.hours.likely) == (1, 8, 0.5)
