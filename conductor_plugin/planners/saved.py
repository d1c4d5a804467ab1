"""What training leaves on disk: `model.json` and `weights.npz`, both of which can be read without running anything.

A planner holds where that is and its digest, not the numbers themselves: it stays a small value that can be
part of a cache key, and training again into the same folder makes it another planner.
"""

import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conductor_plugin.errors import InputError
from conductor_plugin.models import Frozen
from conductor_plugin.pool import Pool

if TYPE_CHECKING:
    import numpy as np

    Arrays = dict[str, np.ndarray[Any, Any]]


class Saved(Frozen):
    """A trained model's folder and the SHA-256 of what is in it."""

    path: str
    digest: str


def write_model(
    folder: Path, kind: str, facts: Mapping[str, Any], arrays: "Mapping[str, np.ndarray[Any, Any]]"
) -> None:
    """Save a model of a kind: `facts` as JSON, `arrays` as npz."""
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.json").write_text(json.dumps({"kind": kind, **facts}, ensure_ascii=False), encoding="utf-8")
    with open(folder / "weights.npz", "wb") as file:
        np.savez(file, **dict(arrays))  # type: ignore[arg-type]


def read_model(folder: Path, kind: str) -> "tuple[dict[str, Any], Arrays]":
    """The facts and arrays that `write_model` saved. InputError `planner_unreadable` if there are none of that kind."""
    import numpy as np

    try:
        facts = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        with np.load(folder / "weights.npz", allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        found = facts.pop("kind")
    except (OSError, ValueError, KeyError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{folder} holds no trained planner: {getattr(error, 'strerror', None) or error}", code="planner_unreadable"
        ) from None
    if found != kind:
        raise InputError(f"{folder} holds a trained {found}, not a {kind}", code="planner_unreadable")
    return facts, arrays


def saved_at(folder: str | Path, file: str = "model.json") -> Saved:
    """A reference to what was saved in a folder. InputError `planner_unreadable` if there is no `file` in it."""
    root = Path(folder).expanduser().resolve()
    try:
        digest = _digest(root) if (root / file).is_file() else None
    except OSError as error:
        raise InputError(
            f"cannot read the trained planner in {folder}: {error.strerror}", code="planner_unreadable"
        ) from None
    if digest is None:
        raise InputError(
            f"there is no trained planner in {folder}; name the folder that training saved it in",
            code="planner_unreadable",
        )
    return Saved(path=str(root), digest=digest)


def _digest(root: Path) -> str:
    sha = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        sha.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()[:16]


def folder_of(saved: Saved, file: str = "model.json") -> Path:
    """Where to load from. InputError `planner_changed` if it is not what the planner was made for any more."""
    if saved_at(saved.path, file) != saved:
        raise InputError(f"{saved.path} was trained again meanwhile; make the planner anew", code="planner_changed")
    return Path(saved.path)


def check_pool(workers: tuple[str, ...], pool: Pool, name: str) -> None:
    """InputError `planner_pool` unless the pool's workers are those of the training, by fingerprint and in order."""
    if tuple(worker.fingerprint for worker in pool.workers) != workers:
        raise InputError(
            f"{name} was trained on another pool of {len(workers)} workers; train it on this one, or use the pool "
            "that it was trained on, whole and in its order",
            code="planner_pool",
        )


def fingerprints(pool: Pool) -> tuple[str, ...]:
    """What identifies each worker of a pool to `check_pool`."""
    return tuple(worker.fingerprint for worker in pool.workers)
