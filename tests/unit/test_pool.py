"""The pool: what a file may hold, what a planner sees of it, its subsets and its fingerprint."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from conductor_plugin.errors import PoolError
from conductor_plugin.planners.default_conductor import SHIPPED
from conductor_plugin.planners.manifest import read_manifest
from conductor_plugin.pool import EMBEDDED_POOL, Pool, load_pool, pool_from
from conductor_plugin.sandbox.probe import Backend
from tests.unit.strategies import make_pool, one_worker

# The example of the design, completed by the workers that it refers to.
EXAMPLE = """
labels: [public, internal, confidential]    # ordered; default as shown
planner: {kind: prompted, model: openai/gpt-5-mini}   # optional default
workers:
  - name: gpt
    kind: llm
    describe: strong at code and proofs
    model: openai/gpt-5
    api_base: http://127.0.0.1:9000/v1
    api_key_env: OPENAI_API_KEY
    params: {temperature: 0.2, max_tokens: 4096}
    tags: [closed]
    clearance: public
    price: {input: 1.25, output: 10.0}
    timeout_seconds: 120
    retries: 3
    fallbacks: [claude]
    max_concurrency: 8
    global_limit: gpt
    requests_per_minute: 500
  - {name: claude, kind: llm, model: anthropic/claude-sonnet-4, api_key_env: secret/claude-key, tags: [closed]}
  - {name: qwen, kind: llm, describe: fast, model: ollama/qwen3, tags: [open], clearance: confidential}
  - {name: own, kind: "my_package.module:worker"}
"""


def test_the_designs_example(tmp_path: Path) -> None:
    (tmp_path / "pool.yaml").write_text(EXAMPLE, encoding="utf-8-sig")
    pool = load_pool(tmp_path / "pool.yaml")
    assert [worker.name for worker in pool.workers] == ["gpt", "claude", "qwen", "own"]
    gpt = pool.worker("gpt")
    assert (gpt.price.input, gpt.params["max_tokens"], gpt.fallbacks) == (1.25, 4096, ("claude",))  # type: ignore[union-attr]
    assert (pool.planner.kind, pool.planner.model) == ("prompted", "openai/gpt-5-mini")  # type: ignore[union-attr]


def test_the_embedded_pool() -> None:
    pool = load_pool()
    assert [worker.name for worker in pool.workers][:3] == ["calculator", "number", "text"]
    assert all(worker.kind != "llm" and worker.describe for worker in pool.workers)
    assert [worker["name"] for worker in yaml.safe_load(EMBEDDED_POOL.read_text())["workers"]][-1] == "smollm2"


def test_the_embedded_pools_planner_was_trained_on_workers_as_they_are_there() -> None:
    pool, manifest = load_pool(), read_manifest(SHIPPED)
    assert pool.planner is not None
    for name in pool.planner.workers:
        assert pool.worker(name).fingerprint in manifest.pool.workers


@pytest.mark.parametrize(
    ("planner", "code"),
    [
        ("{kind: conductor, workers: [a, b]}", "pool_unknown_worker"),
        ("{kind: template, name: solve, workers: [a]}", "pool_bad_value"),
    ],
)
def test_the_workers_of_a_planner(tmp_path: Path, planner: str, code: str) -> None:
    (tmp_path / "pool.yaml").write_text(f"planner: {planner}\nworkers: [{{name: a, kind: number}}]")
    with pytest.raises(PoolError) as caught:
        load_pool(tmp_path / "pool.yaml")
    assert caught.value.code == code


@pytest.mark.parametrize("safe", [True, False])
def test_the_embedded_pool_runs_python_where_a_sandbox_is_safe(monkeypatch: pytest.MonkeyPatch, safe: bool) -> None:
    backend = Backend("bubblewrap" if safe else "unsafe")
    monkeypatch.setattr("conductor_plugin.pool.probe", lambda: backend)
    assert ("python" in [worker.name for worker in load_pool().workers]) is safe


def test_anchors_that_save_typing_are_welcome(tmp_path: Path) -> None:
    (tmp_path / "pool.yaml").write_text(
        "workers:\n  - &base {name: a, kind: llm, model: openai/m, params: &p {top_p: 1}}\n"
        "  - {<<: *base, name: b}\n  - {name: c, kind: llm, model: openai/n, params: *p}\n"
    )
    assert [(w.name, w.model, w.params) for w in load_pool(tmp_path / "pool.yaml").workers] == [
        ("a", "openai/m", {"top_p": 1}),
        ("b", "openai/m", {"top_p": 1}),
        ("c", "openai/n", {"top_p": 1}),
    ]


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "KEY", "K2", "MY_TEAMS_KEY_2027_FOR_TESTS", "secret/my-key", None])
def test_names_of_keys(name: str | None) -> None:
    assert pool_from(one_worker(api_key_env=name)).workers[0].api_key_env == name


def test_missing_variables() -> None:
    pool = pool_from(one_worker(api_key_env="OPENAI_API_KEY"))
    pool.check_keys({"OPENAI_API_KEY": "x"})
    pool_from(one_worker(api_key_env="secret/block")).check_keys({})
    for environment in ({}, {"OPENAI_API_KEY": ""}, {"OTHER": "x"}):
        with pytest.raises(PoolError, match=r"'a' needs the environment variable OPENAI_API_KEY") as caught:
            pool.check_keys(environment)
        assert caught.value.code == "pool_missing_env"


@pytest.mark.parametrize(
    ("only", "exclude", "left"),
    [
        ([], [], ["gpt", "claude", "qwen", "own"]),
        (["closed"], [], ["gpt", "claude"]),
        (["own", "open"], [], ["qwen", "own"]),
        ([], ["closed"], ["qwen", "own"]),
        (["closed"], ["gpt"], ["claude"]),
        ([], ["claude", "open"], ["gpt", "own"]),
    ],
)
def test_subsets_by_name_and_tag(only: list[str], exclude: list[str], left: list[str]) -> None:
    subset = pool_from(yaml.safe_load(EXAMPLE)).subset(only, exclude)
    assert [worker.name for worker in subset.workers] == left
    assert subset.ordinals().splitlines() == [f"Model {i}" for i in range(len(left))]
    assert Pool.model_validate_json(subset.model_dump_json()) == subset  # a round's input crosses processes


def test_subsets_that_cannot_be() -> None:
    pool = pool_from(yaml.safe_load(EXAMPLE))
    for act, code in [
        (lambda: pool.subset(["opne"]), "pool_unknown_worker"),
        (lambda: pool.subset([], ["opne"]), "pool_unknown_worker"),
        (lambda: pool.subset(["gpt"], ["closed"]), "pool_empty"),
        (lambda: pool.worker("opne"), "pool_unknown_worker"),
    ]:
        with pytest.raises(PoolError) as caught:
            act()
        assert caught.value.code == code


def test_a_planner_sees_no_names() -> None:
    pool = pool_from(yaml.safe_load(EXAMPLE))
    assert pool.ordinals() == "Model 0\nModel 1\nModel 2\nModel 3"
    assert pool.described() == "Model 0: strong at code and proofs\nModel 1\nModel 2: fast\nModel 3"


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"name": "b"}, True),
        ({"price": {"input": 1, "output": 2}}, True),
        ({"describe": "good"}, True),
        ({"tags": ["x"], "retries": 1, "timeout_seconds": 9, "max_concurrency": 1, "clearance": "internal"}, True),
        ({"params": {"b": 2, "a": 1}}, True),  # in another order
        ({"model": "openai/n"}, False),
        ({"params": {"a": 1}}, False),
        ({"params": {"a": 1, "b": 3}}, False),
        ({"kind": "local", "model": None}, False),
    ],
)
def test_the_fingerprint_is_of_what_decides_answers(changes: dict[str, Any], same: bool) -> None:
    before, after = (
        pool_from(one_worker(params={"a": 1, "b": 2})),
        pool_from(one_worker(**({"params": {"a": 1, "b": 2}} | changes))),
    )
    assert (before.fingerprint == after.fingerprint) == same
    assert (before.workers[0].fingerprint == after.workers[0].fingerprint) == same


def test_the_fingerprint_is_of_the_order_and_the_number() -> None:
    (a,), (b,) = one_worker()["workers"], one_worker(name="b", model="openai/n")["workers"]
    prints = [pool_from({"workers": workers}).fingerprint for workers in ([a], [b], [a, b], [b, a])]
    assert len(set(prints)) == 4
    pool = pool_from({"workers": [a, b]})
    assert (pool.fingerprint, pool.subset(["b"]).fingerprint) == (prints[2], prints[1])
    assert make_pool("x", "y").fingerprint == make_pool("y", "x").fingerprint  # names alone do not count


def test_params_of_any_yaml_have_a_fingerprint() -> None:
    odd = yaml.safe_load("{when: 2027-01-01, logit_bias: {50256: -100}, big: 1.0e400, none: null}")
    assert pool_from(one_worker(params=odd)).fingerprint == pool_from(one_worker(params=odd)).fingerprint
