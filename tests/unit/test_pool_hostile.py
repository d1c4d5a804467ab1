"""Whatever a pool file holds: one sentence that names the worker and the key, a stable code, and no secret."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.errors import PoolError
from conductor_plugin.pool import load_pool, pool_from
from conductor_plugin.worker_spec import WorkerSpec
from tests.unit.strategies import one_worker

LLM: dict[str, Any] = one_worker()["workers"][0]
PLANNER = {"kind": "prompted", "model": "openai/m"}
KEYS = [
    *("sk-proj-T3BlbkFJabcdef1234567890abcdef", "sk-ant-api03-abcdefABCDEF-1234567890", "xai-1234567890abcdef"),
    *("AIzaSyA1234567890abcdefghijklmnopqrstuv", "AKIAIOSFODNN7EXAMPLE", "hf_abcdefghijklmnopqrstuvwxyz"),
    *("gsk_abcdefghijklmnop12345678", "0123456789abcdef0123456789abcdef", "0123456789ABCDEF0123456789ABCDEF"),
    "Bearer 0123456789abcdef",
]


def refusal(content: object) -> PoolError:
    with pytest.raises(PoolError) as caught:
        pool_from(content)
    return caught.value


def refused_file(path: Path, text: str | bytes) -> PoolError:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PoolError) as caught:
        load_pool(path)
    assert str(path) in str(caught.value)
    return caught.value


# Content of a pool, the code of its error, and what the sentence must name.
REFUSED: dict[str, tuple[object, str, list[str]]] = {
    "null": (None, "pool_bad_value", ["workers"]),
    "a list": ([LLM], "pool_bad_value", ["workers"]),
    "no workers": ({"labels": ["a"]}, "pool_bad_value", ["workers", "missing"]),
    "empty workers": ({"workers": []}, "pool_bad_value", ["workers", "at least 1"]),
    "null workers": ({"workers": None}, "pool_bad_value", ["workers"]),
    "workers by name": ({"workers": {"a": LLM}}, "pool_bad_value", ["workers"]),
    "a worker that is a text": ({"workers": ["gpt"]}, "pool_bad_value", ["worker", "0"]),
    "unknown key": ({**one_worker(), "worker": []}, "pool_unknown_key", ["'worker'", "workers, labels, planner"]),
    "unknown worker key": (one_worker(temperature=1), "pool_unknown_key", ["'a'", "'temperature'", "params"]),
    "unknown price key": (
        one_worker(price={"input": 1, "output": 1, "cache": 1}),
        "pool_unknown_key",
        ["'a'", "'cache'"],
    ),
    "no name": (one_worker(name=None), "pool_bad_value", ["number 0", "'name'", "missing"]),
    "empty name": (one_worker(name=""), "pool_bad_value", ["'name'"]),
    "blank name": (one_worker(name="  "), "pool_bad_value", ["'name'"]),
    "name of two lines": (one_worker(name="a\nb"), "pool_bad_value", ["'name'"]),
    "two of a name": ({"workers": [LLM, LLM]}, "pool_duplicate_name", ["'a'", "unique"]),
    "no kind": (one_worker(kind=None), "pool_bad_value", ["'a'", "'kind'", "missing"]),
    "unknown kind": (one_worker(kind="lmm"), "pool_unknown_kind", ["'a'", "'lmm'", "calculator"]),
    "path as kind": (one_worker(kind="my/module:f"), "pool_unknown_kind", ["'a'", "package.module:callable"]),
    "search": (one_worker(kind="search"), "pool_kind_not_built", ["'a'", "'search'", "not built yet"]),
    "mcp": (one_worker(kind="mcp"), "pool_kind_not_built", ["'a'", "'mcp'", "not built yet"]),
    "llm without a model": (one_worker(model=None), "pool_bad_value", ["'a'", "model"]),
    "tool with a model": (one_worker(kind="text"), "pool_bad_value", ["'a'", "model belongs to kind llm"]),
    "tool with a key": (
        one_worker(kind="text", model=None, api_key_env="KEY"),
        "pool_bad_value",
        ["'a'", "api_key_env"],
    ),
    "brand": (one_worker(describe="like Claude, but cheaper"), "pool_brand_in_describe", ["'a'", "'Claude'"]),
    "brand and version": (one_worker(describe="as good as gpt-5.2"), "pool_brand_in_describe", ["'a'", "'gpt-5.2'"]),
    "model name": (
        one_worker(model="x/solar-10b", describe="Solar-10B"),
        "pool_brand_in_describe",
        ["'a'", "solar-10b"],
    ),
    "short model name": (
        one_worker(model="openai/o3", describe="o3, thinks long"),
        "pool_brand_in_describe",
        ["'a'", "o3"],
    ),
    "two lines": (one_worker(describe="a\nModel 9: best"), "pool_bad_value", ["'a'", "describe", "one line"]),
    "carriage return": (one_worker(describe="a\rModel 9: best"), "pool_bad_value", ["'a'", "describe", "one line"]),
    "clearance": (one_worker(clearance="secret"), "pool_bad_value", ["'a'", "'secret'", "confidential"]),
    "labels twice": ({**one_worker(), "labels": ["x", "x"]}, "pool_bad_value", ["labels"]),
    "no labels": ({**one_worker(), "labels": []}, "pool_bad_value", ["labels"]),
    "unknown fallback": (one_worker(fallbacks=["b"]), "pool_bad_value", ["'a'", "'b'", "fallback"]),
    "itself as fallback": (one_worker(fallbacks=["a"]), "pool_bad_value", ["'a'", "fallback"]),
    "negative price": (one_worker(price={"input": -1, "output": 1}), "pool_bad_value", ["'a'", "'price'", "'input'"]),
    "half a price": (one_worker(price={"input": 1}), "pool_bad_value", ["'a'", "'price'", "'output'", "missing"]),
    "price NaN": (one_worker(price={"input": 1, "output": float("nan")}), "pool_bad_value", ["'a'", "'output'"]),
    "negative timeout": (
        one_worker(timeout_seconds=-1),
        "pool_bad_value",
        ["'a'", "'timeout_seconds'", "greater than 0"],
    ),
    "no time": (one_worker(timeout_seconds=0), "pool_bad_value", ["'a'", "'timeout_seconds'", "greater than 0"]),
    "timeout as text": (one_worker(timeout_seconds="2 min"), "pool_bad_value", ["'a'", "'timeout_seconds'", "number"]),
    "negative retries": (one_worker(retries=-1), "pool_bad_value", ["'a'", "'retries'"]),
    "many retries": (one_worker(retries=10**6), "pool_bad_value", ["'a'", "'retries'"]),
    "no concurrency": (one_worker(max_concurrency=0), "pool_bad_value", ["'a'", "'max_concurrency'"]),
    "no requests": (one_worker(requests_per_minute=0), "pool_bad_value", ["'a'", "'requests_per_minute'"]),
    "tag that is a number": (one_worker(tags=[1]), "pool_bad_value", ["'a'", "'tags'", "string"]),
    "tags as text": (one_worker(tags="closed"), "pool_bad_value", ["'a'", "'tags'"]),
    "a yes for a number": (one_worker(retries=True), "pool_bad_value", ["'a'", "'retries'", "valid integer"]),
    "a number in quotes": (one_worker(max_concurrency="3"), "pool_bad_value", ["'a'", "'max_concurrency'"]),
    "a price of yes": (one_worker(price={"input": True, "output": 1}), "pool_bad_value", ["'a'", "'input'"]),
    "a time of no": (one_worker(timeout_seconds=False), "pool_bad_value", ["'a'", "'timeout_seconds'"]),
    "a rate of yes": (one_worker(requests_per_minute=True), "pool_bad_value", ["'a'", "'requests_per_minute'"]),
    "a provider alone": (one_worker(model="openai/"), "pool_bad_value", ["'a'", "'model'", "names no model"]),
    "params as text": (one_worker(params="t=1"), "pool_bad_value", ["'a'", "'params'"]),
    "params of the call": (one_worker(params={"num_retries": 2}), "pool_bad_value", ["'a'", "num_retries"]),
    "numbered params": (one_worker(params={1: 2}), "pool_bad_value", ["'a'", "'params'"]),
    "unknown planner key": (
        {**one_worker(), "planner": {"kind": "prompted", "m": 1}},
        "pool_unknown_key",
        ["'planner'", "'m'"],
    ),
    "planner with a yes for retries": (
        {**one_worker(), "planner": {**PLANNER, "retries": True}},
        "pool_bad_value",
        ["'planner'", "'retries'"],
    ),
    "planner without a second": (
        {**one_worker(), "planner": {**PLANNER, "timeout_seconds": 0}},
        "pool_bad_value",
        ["'planner'", "'timeout_seconds'", "greater than 0"],
    ),
    "template that is asked again": (
        {**one_worker(), "planner": {"kind": "template", "name": "solve", "retries": 2}},
        "pool_bad_value",
        ["'planner'", "retries belongs to a planner of kind prompted"],
    ),
    "planner without a kind": (
        {**one_worker(), "planner": {"model": "x/y"}},
        "pool_bad_value",
        ["'planner'", "'kind'"],
    ),
}


@pytest.mark.parametrize(("content", "code", "names"), REFUSED.values(), ids=REFUSED)
def test_refused_content(content: object, code: str, names: list[str]) -> None:
    error = refusal(content)
    assert error.code == code
    assert "\n" not in str(error)
    assert not [name for name in names if name not in str(error)]


# Where a key lands by mistake, given the key.
PLACES: dict[str, Callable[[str], dict[str, Any]]] = {
    "api_key_env": lambda key: one_worker(api_key_env=key),
    "api_key": lambda key: one_worker(api_key=key),
    "params": lambda key: one_worker(params={"api_key": key}),
    "params, another name": lambda key: one_worker(params={"azure_ad_token": key}),
    "inside params": lambda key: one_worker(params={"extra_body": {"api_key": key}}),
    "headers": lambda key: one_worker(params={"extra_headers": {"Authorization": f"Bearer {key}"}}),
    "planner": lambda key: one_worker() | {"planner": PLANNER | {"api_key_env": key}},
    "planner's params": lambda key: one_worker() | {"planner": PLANNER | {"params": {"api_key": key}}},
}


NO_ADDRESSES = [
    *("", "  ", "nonsense", "127.0.0.1:8000", "localhost:8000/v1", "ftp://host/v1", "file:///etc/passwd", "http://"),
    *("http:///v1", "http://:8000/v1", "http://[::", "http://host:x/v1", "http://host:99999/v1", "http://host:0/v1"),
    *("http://a b/v1", "http://host/v1\n", "http://host/\x00"),
]
SECRET_ADDRESSES = ["http://me:S3cr3t@host/v1", "http://S3cr3t@host/v1", "http://host/v1?api_key=S3cr3t&x=1"]


@pytest.mark.parametrize("base", NO_ADDRESSES + SECRET_ADDRESSES)
def test_what_is_no_address_of_a_server(base: str) -> None:
    """An empty one would be none, and the question and a key would go to the provider."""
    planner = {**one_worker(), "planner": {**PLANNER, "api_base": base}}
    for content, named in ((one_worker(api_base=base), "'a'"), (planner, "'planner'")):
        error = refusal(content)
        assert error.code == ("pool_key_in_file" if base in SECRET_ADDRESSES else "pool_bad_value")
        assert named in str(error)
        assert "api_base" in str(error)
        assert "S3cr3t" not in str(error)


def test_a_number_that_is_a_text_in_yaml(tmp_path: Path) -> None:
    (tmp_path / "pool.yaml").write_text("workers: [{name: a, kind: text, timeout_seconds: 1e3}]")
    assert load_pool(tmp_path / "pool.yaml").workers[0].timeout_seconds == 1000


@pytest.mark.parametrize("base", ["http://127.0.0.1:8000/v1", "https://host", "http://[::1]:1/v1/", "http://x.de/?v=1"])
def test_addresses(base: str) -> None:
    assert pool_from(one_worker(api_base=base)).workers[0].api_base == base


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_pasted_key_is_refused_and_not_repeated(place: Callable[[str], dict[str, Any]]) -> None:
    for key in KEYS:
        error = refusal(place(key))
        assert error.code in {"pool_key_in_file", "pool_unknown_key"}
        assert key[:8] not in str(error)
        assert "'a'" in str(error) or "planner" in str(error)


BILLION_LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30))
WORKER = "workers:\n  - name: a\n    kind: llm\n    model: openai/m\n"
UNREADABLE: dict[str, str | bytes] = {
    "not YAML": "workers: [",
    "tab": WORKER + "\ttags: []",
    "binary": bytes(range(256)),
    "zeros": b"\0" * 1000,
    "UTF-16": WORKER.encode("utf-16"),
    "control character": "workers: \x01",
    "the same key twice": WORKER + "    name: b\n",
    "workers twice": WORKER + WORKER,
    "a list as key": "? [a]\n: b\n",
    "deep lists": "[" * 20_000,
    "deep mappings": "{a: " * 20_000,
    "deep dashes": "- " * 20_000,
    "no such anchor": "workers: *a",
    "python": 'workers: !!python/object/apply:os.system ["true"]',
    "unknown tag": WORKER + "    retries: !mine 3",
    "no date": WORKER + "    describe: 2001-99-99",
    "forced date": WORKER + "    describe: !!timestamp today",
    "forced bool": WORKER + "    retries: !!bool maybe",
    "forced int": WORKER + '    retries: !!int ""',
    "giant int": WORKER + "    retries: " + "9" * 5000,
    "two documents": f"{WORKER}---\n{WORKER}",
    "billion laughs": WORKER + "    params:\n" + "".join(f"      {line}\n" for line in BILLION_LAUGHS.splitlines()),
    "billion laughs at the top": BILLION_LAUGHS + WORKER,
    "endless": WORKER + "    params: &p {x: *p}",
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable_files(text: str | bytes, tmp_path: Path) -> None:
    error = refused_file(tmp_path / "pool.yaml", text)
    assert error.code == "pool_unreadable"
    assert len(str(error)) < 300 + len(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "workers"), ("# nothing", "workers"), ("42", "workers")],
)
def test_files_without_a_pool(text: str, says: str, tmp_path: Path) -> None:
    assert says in str(refused_file(tmp_path / "pool.yaml", text))


def test_missing_files_and_directories(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.yaml"):
        with pytest.raises(PoolError, match=r"cannot read the pool file .*: (Is a directory|No such file)") as caught:
            load_pool(path)
        assert caught.value.code == "pool_unreadable"


@pytest.mark.parametrize(
    ("content", "longest"),
    [
        (one_worker(name="x" * 100_000), 400),
        (one_worker(kind="x" * 100_000), 400),
        (one_worker(retries=int("9" * 4000)), 400),
    ],
)
def test_a_giant_value_is_not_repeated(content: object, longest: int) -> None:
    assert len(str(refusal(content))) < longest


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["a", "llm", "text"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(sorted(WorkerSpec.model_fields)), VALUES, max_size=3),
    st.dictionaries(st.sampled_from(["labels", "planner", "workers"]), VALUES, max_size=1),
)
def test_any_content(worker: dict[str, Any], top: dict[str, Any]) -> None:
    """It is a pool that can be stored and listed, or a sentence with a code of the pool's."""
    try:
        pool = pool_from({"workers": [LLM | worker]} | top)
    except PoolError as error:
        code = error.code
        assert str(error)  # noqa: PT017 - any error of this class is right
    else:
        code = "pool_fine"
        assert len(pool.described().splitlines()) == len(pool.workers)
        assert pool.fingerprint
    assert code.startswith("pool_")
