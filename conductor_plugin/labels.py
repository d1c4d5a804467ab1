"""Data boundaries: which worker may see text of which label. Labels are ordered, lowest first, in the pool file.

Every worker is shown the question, so that each step's text has at least the question's label; it flows along
the access edges from there. A worker whose clearance is lower never gets it, as a fallback neither.
"""

from collections.abc import Sequence

from conductor_plugin.errors import InputError, LabelError
from conductor_plugin.graph import CallStep, Step
from conductor_plugin.pool import Pool
from conductor_plugin.worker_spec import WorkerSpec

# The environment variable that says up to which label Prefect's server may hold text (default: the lowest).
SERVER_CLEARANCE = "CONDUCTOR_SERVER_CLEARANCE"


def label_of(pool: Pool, label: str | None) -> str:
    """The question's label, by default the pool's lowest. InputError `label_unknown` if the pool has no such one."""
    if label is None:
        return pool.labels[0]
    if label not in pool.labels:
        raise InputError(f"the pool has no label {label!r}; it has {', '.join(pool.labels)}", code="label_unknown")
    return label


def is_cleared(pool: Pool, clearance: str | None, label: str) -> bool:
    """Whether a clearance (None: the lowest) reaches up to a label. An unknown clearance reaches nothing."""
    clearance = pool.labels[0] if clearance is None else clearance
    return clearance in pool.labels and pool.labels.index(clearance) >= pool.labels.index(label)


def cleared_pool(pool: Pool, label: str) -> Pool:
    """The workers that may see the question, renumbered. LabelError if there is none."""
    workers = [worker for worker in pool.workers if is_cleared(pool, worker.clearance, label)]
    if not workers:
        raise LabelError(f"no worker of the pool is cleared for {label}; give one `clearance: {label}`", code="label")
    return pool.of(workers)


def without_uncleared_fallbacks(pool: Pool, label: str) -> Pool:
    """The same workers with the same ids, none of which falls back on one that may not see the question."""

    def kept(worker: WorkerSpec) -> WorkerSpec:
        names = (name for name in worker.fallbacks if is_cleared(pool, pool.worker(name).clearance, label))
        return worker.model_copy(update={"fallbacks": tuple(names)})

    return pool.model_copy(update={"workers": tuple(kept(worker) for worker in pool.workers)})


def check_steps(steps: Sequence[Step], pool: Pool, label: str) -> None:
    """LabelError naming the edge over which a worker would be shown more than its clearance."""
    for i, step in enumerate(steps):
        if isinstance(step, CallStep):
            worker = pool.workers[step.worker]
            if not is_cleared(pool, worker.clearance, label):
                raise LabelError(
                    f"the edge question -> step {i} would show {label} text to the worker {worker.name!r}, which is "
                    f"cleared for {worker.clearance or pool.labels[0]}",
                    code="label",
                )
