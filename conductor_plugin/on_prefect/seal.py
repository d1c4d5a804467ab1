"""Above the clearance of Prefect's server, texts lie in a labelled storage; the server gets hashes and sizes.

What the server keeps of a run are flow parameters, states, logs, artifacts, task names and cache keys. A question
enters by its reference, results of plans and steps go to the storage of their label, and whatever else is
told about the run is covered (see `cover`). Hashes are keyed with a secret that lies in the same storage: who sees
one cannot find a short text by trying.
"""

import contextlib
import hashlib
import hmac
import inspect
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from prefect.context import FlowRunContext
from prefect.filesystems import LocalFileSystem

from conductor_plugin.context import Message
from conductor_plugin.errors import InputError, LabelError
from conductor_plugin.home import conductor_home
from conductor_plugin.labels import SERVER_CLEARANCE, is_cleared, label_of
from conductor_plugin.models import Frozen
from conductor_plugin.on_prefect.blocks import resolve_pool
from conductor_plugin.pool import Pool
from conductor_plugin.receipt import Answer

# The Prefect storage block that holds texts of a label, for example s3-bucket/conductor-{label}. Default: a
# directory of $CONDUCTOR_HOME, which other machines do not see.
STORAGE = "CONDUCTOR_LABELLED_STORAGE"
_KEY_FILE = "hmac-key"
_COVERED = re.compile(r" text: \d+ characters, hash [0-9a-f]{16}\)")


class Asked(Frozen):
    """What a person asks, as it lies in a labelled storage: the question, its history, and a plan if one is given."""

    question: str
    history: tuple[Message, ...] = ()
    plan: str | None = None


@dataclass(frozen=True)
class Seal:
    """The storage of one label, and the secret that its hashes are keyed with."""

    label: str
    storage: Any
    secret: bytes = field(repr=False)

    def digest(self, text: str) -> str:
        """64 hexadecimal digits that only who can read the storage could have computed."""
        return hmac.new(self.secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    def cover(self, text: str) -> str:
        """What stands in for a text."""
        return f"({self.label} text: {len(text)} characters, hash {self.digest(text)[:16]})"

    @contextlib.contextmanager
    def results(self) -> Iterator[None]:
        """Tasks and subflows of the running flow persist their results in the labelled storage."""
        context = FlowRunContext.get()
        assert context is not None
        store = context.result_store.model_copy(update={"result_storage": self.storage})
        with context.model_copy(update={"result_store": store}):
            yield

    async def keep_question(self, asked: Asked) -> str:
        """Store what is asked; its reference, `LABEL/HASH`."""
        content = asked.model_dump_json()
        name = self.digest(content)[:32]
        await _write(self.storage, f"question-{name}", content)
        return f"{self.label}/{name}"

    async def keep_answer(self, answer: Answer) -> None:
        """Store a run's whole answer, for `conductor show`."""
        await _write(self.storage, f"answer-{answer.flow_run_id}", answer.model_dump_json(by_alias=True))


def server_may_see(pool: Pool, label: str) -> bool:
    """Whether Prefect's server is cleared for texts of that label."""
    return is_cleared(pool, os.environ.get(SERVER_CLEARANCE), label)


async def open_seal(label: str) -> Seal:
    """The labelled storage, made where it is this machine's and missing.

    InputError `labelled_storage` if the block that CONDUCTOR_LABELLED_STORAGE names cannot be used.
    """
    storage = await _storage(label)
    try:
        try:
            secret = await _read(storage, _KEY_FILE)
        except Exception:  # the first text of this label; each kind of storage has its own error for that
            await _write(storage, _KEY_FILE, secrets.token_hex(32))
            secret = await _read(storage, _KEY_FILE)  # what another process wrote in the meantime counts
    except Exception as error:
        raise InputError(
            f"the labelled storage for {label} texts takes no files ({type(error).__name__}); see {STORAGE}",
            code="labelled_storage",
        ) from None
    return Seal(label=label, storage=storage, secret=secret)


async def read_question(reference: str) -> tuple[Asked, str]:
    """What was asked, and its label. InputError `question_ref` if the storage does not have it."""
    label, _, name = reference.rpartition("/")
    if label and name.isalnum():
        storage = await _storage(label)
        with contextlib.suppress(Exception):
            return Asked.model_validate_json(await _read(storage, f"question-{name}")), label
    raise InputError(
        f"no question is stored under {reference!r}; store it with `conductor store`, with the same {STORAGE} (or "
        "CONDUCTOR_HOME) as the flow has",
        code="question_ref",
    )


async def by_reference(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters of the flow `conductor` as the server may see them: texts above its clearance are stored first."""
    pool = await resolve_pool(parameters["pool"])
    label = label_of(pool, parameters.get("label"))
    if server_may_see(pool, label):
        return parameters
    asked = Asked.model_validate({name: parameters[name] for name in Asked.model_fields if name in parameters})
    reference = await (await open_seal(label)).keep_question(asked)
    return {name: value for name, value in parameters.items() if name not in Asked.model_fields} | {
        "question_ref": reference
    }


async def whole_answer(answer: Any) -> Any:
    """The answer behind a covered one, where this machine reaches the labelled storage; anything else as it is."""
    if isinstance(answer, Answer) and _COVERED.search(answer.model_dump_json()):
        storage = await _storage(answer.label)
        with contextlib.suppress(Exception):
            return Answer.model_validate_json(await _read(storage, f"answer-{answer.flow_run_id}"))
    return answer


def refuse_text(label: str) -> LabelError:
    """The error for a text that came as a flow parameter, which Prefect's server keeps."""
    return LabelError(
        f"Prefect's server would keep this {label} question, and is not cleared for it; store the question with "
        f"`conductor store` and pass question_ref instead, or set {SERVER_CLEARANCE}={label} if it may hold it",
        code="label",
    )


async def _storage(label: str) -> Any:
    slug = os.environ.get(STORAGE)
    if not slug:
        return LocalFileSystem(basepath=str(conductor_home() / "labelled" / f"label-{quote(label, safe='')}"))
    from prefect.blocks.core import Block

    try:
        return await Block.aload(slug.replace("{label}", label))
    except ValueError:
        raise InputError(
            f"there is no Prefect block {slug.replace('{label}', label)!r}, which {STORAGE} names; save one",
            code="labelled_storage",
        ) from None


async def _read(storage: Any, path: str) -> bytes:
    content = storage.read_path(path)
    return bytes(await content if inspect.isawaitable(content) else content)


async def _write(storage: Any, path: str, text: str) -> None:
    done = storage.write_path(path, text.encode("utf-8", "surrogatepass"))
    if inspect.isawaitable(done):
        await done
