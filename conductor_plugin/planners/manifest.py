"""What a trained Conductor's folder says of itself, checked before anything in it is used.

    manifest.json        this; the others with their hashes
    model.onnx, tokenizer.json, chat_template.jinja          a whole model
    adapter_model.safetensors, adapter_config.json           or an adapter, as PEFT saves it, on the `base`
    known.json           the families of questions that it knows
    README.md            the model card

It names the prompt, the pool and the rules of its training: with others, its plans would be nonsense.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from conductor_plugin.context import Message
from conductor_plugin.errors import InputError
from conductor_plugin.lora_adapter import CONFIG, WEIGHTS
from conductor_plugin.models import Frozen
from conductor_plugin.plan import PlanRules
from conductor_plugin.planners import known
from conductor_plugin.planners.base import PlanRequest
from conductor_plugin.planners.prompt import build_prompt
from conductor_plugin.planners.short_prompt import build_short_prompt
from conductor_plugin.pool import Pool, pool_from
from conductor_plugin.worker_spec import digest

FORMAT = 1
FILE, MODEL, TOKENIZER, TEMPLATE, CARD = (
    "manifest.json",
    "model.onnx",
    "tokenizer.json",
    "chat_template.jinja",
    "README.md",
)
WHOLE = (MODEL, TOKENIZER)
ADAPTED = (WEIGHTS, CONFIG)
OPTIONAL = (TEMPLATE, known.FILE)

Prompt = str | list[Message]
Count = Annotated[int, Field(ge=1)]


class FileRecord(Frozen):
    """A file's size and SHA-256."""

    bytes: int
    sha256: str


class PromptSettings(Frozen):
    """How training builds its prompts, always blind: numbers, never descriptions (paper, "Prompt").

    `conductor` is the whole prompt with its few-shot plans, as a chat; `short` is one text, for a small model that
    learnt the format in its cold start.
    """

    style: Literal["conductor", "short"] = "conductor"
    few_shot: str = "default"

    def build(self, request: PlanRequest) -> Prompt:
        """The prompt of a request, as in training: ordinals alone."""
        if self.style == "short":
            return build_short_prompt(request)
        return build_prompt(request, blind=True, few_shot=self.few_shot)

    def digest(self) -> str:
        """Which text this package makes of the settings now: other words would make another prompt."""
        pool = pool_from({"workers": [{"name": name, "kind": "text"} for name in ("a", "b")]})
        shown = [
            self.build(PlanRequest(question="?", pool=pool, rules=PlanRules(workers=2, conductor=conductor)))
            for conductor in (False, True)
        ]
        return digest([prompt if isinstance(prompt, str) else [m.model_dump() for m in prompt] for prompt in shown], 64)


class TrainedRules(Frozen):
    """The bounds of the plans that it learned to write. With `max_rounds` 0 it never saw itself in the pool."""

    max_steps: Count = 5
    max_rounds: Annotated[int, Field(ge=0)] = 0


class TrainedPool(Frozen):
    """The pool of the training, in order: names are for people, fingerprints identify."""

    fingerprint: str
    names: tuple[str, ...]
    workers: tuple[str, ...]

    @staticmethod
    def of(pool: Pool) -> "TrainedPool":
        """A pool as a manifest has it."""
        return TrainedPool(
            fingerprint=pool.fingerprint,
            names=tuple(worker.name for worker in pool.workers),
            workers=tuple(worker.fingerprint for worker in pool.workers),
        )


class Decoding(Frozen):
    """How completions are made: tokens at most, the tokens that end one, the temperature of attempts after the first.

    `context` is the number of tokens that the model holds, prompt and completion together.
    """

    max_tokens: Count
    eos: Annotated[tuple[int, ...], Field(min_length=1)]
    context: Count
    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0


class Manifest(Frozen):
    """A trained Conductor's settings and files. `special` are the texts of tokens that its chat template names.

    `base` is the package whose weights an adapter needs, with its version; None for a whole model.
    """

    format: Literal[1] = 1
    base: str | None = None
    run: str
    prompt: PromptSettings
    prompt_digest: str
    rules: TrainedRules
    pool: TrainedPool
    subsets: bool = False
    families: tuple[str, ...] = ()
    decoding: Decoding
    special: dict[str, str] = Field(default_factory=dict)
    files: dict[str, FileRecord]

    @field_validator("files")
    @classmethod
    def _has_what_it_needs(cls, files: dict[str, FileRecord], info: ValidationInfo) -> dict[str, FileRecord]:
        needed = ADAPTED if info.data.get("base") else WHOLE
        if missing := [name for name in needed if name not in files]:
            raise ValueError(f"names no {' and no '.join(missing)}")
        if strange := [name for name in files if name not in (*needed, *OPTIONAL)]:
            raise ValueError(f"names {strange[0]!r}, which is no file of a trained Conductor")
        return files


def records(folder: Path) -> dict[str, FileRecord]:
    """The hashes of the files that a manifest names, as they are in a folder."""
    return {name: _record(folder / name) for name in (*WHOLE, *ADAPTED, *OPTIONAL) if (folder / name).is_file()}


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder, whose files are whole and whose prompt this package still builds.

    InputError `planner_unreadable`, `planner_format` for a newer format, `planner_damaged` for a file that is not
    the one that was saved, `planner_prompt` where the prompt's text has changed since the training.
    """
    content = _read_json(folder)
    if isinstance(content.get("format"), int) and content["format"] > FORMAT:
        raise InputError(
            f"{folder} was saved in format {content['format']}, and this version reads {FORMAT}; update "
            "prefect-conductor",
            code="planner_format",
        )
    try:
        manifest = Manifest.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise _unreadable(folder, f"{FILE}: {place}: {first['msg']}") from None
    for name, saved in manifest.files.items():
        _check_file(folder / name, saved)
    if manifest.prompt.digest() != manifest.prompt_digest:
        raise InputError(
            f"{folder} was trained with prompts that this version of prefect-conductor words otherwise; train it "
            "again, or use the version that trained it",
            code="planner_prompt",
        )
    return manifest


def _read_json(folder: Path) -> Mapping[str, Any]:
    try:
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(folder, getattr(error, "strerror", None) or str(error)) from None
    if not isinstance(content, dict):
        raise _unreadable(folder, f"{FILE} is no mapping")
    return content


def _check_file(path: Path, saved: FileRecord) -> None:
    try:
        found = _record(path)
    except OSError as error:
        raise _unreadable(path.parent, f"{path.name}: {error.strerror}") from None
    if found != saved:
        what = f"has {found.bytes} bytes instead of {saved.bytes}" if found.bytes != saved.bytes else "was changed"
        raise InputError(f"{path} {what} since it was saved; copy the folder again", code="planner_damaged")


def _record(path: Path) -> FileRecord:
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            sha.update(block)
    return FileRecord(bytes=path.stat().st_size, sha256=sha.hexdigest())


def _unreadable(folder: Path, reason: str) -> InputError:
    return InputError(f"{folder} holds no trained Conductor: {reason}", code="planner_unreadable")
