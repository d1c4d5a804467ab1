"""What several planners need to choose workers: by a word, by name, by lot; and to number equal calls."""

from collections import Counter
from collections.abc import Iterable
from random import Random

from conductor_plugin.graph import CallStep
from conductor_plugin.pool import Pool
from conductor_plugin.worker_spec import WorkerSpec


def find_worker(pool: Pool, word: str) -> int | None:
    """The number of the first worker that fits `kind:KIND`, `tag:TAG` or `name:NAME`, or None."""
    what, _, value = word.partition(":")
    return next((i for i, worker in enumerate(pool.workers) if _is(worker, what, value)), None)


def _is(worker: WorkerSpec, what: str, value: str) -> bool:
    return {"kind": worker.kind == value, "tag": value in worker.tags, "name": worker.name == value}.get(what, False)


def named_worker(pool: Pool, name: str) -> int:
    """The number of the worker of that name. PoolError `pool_unknown_worker` if there is none."""
    return pool.workers.index(pool.worker(name))


def lot(seed: int, question: str) -> Random:
    """A source of random draws that is the same for the same seed and question, in any process."""
    return Random(f"{seed}\n{question}")


def numbered(steps: Iterable[CallStep]) -> tuple[CallStep, ...]:
    """The steps, those that ask the same worker for the same thing told apart by their sample index."""
    equal: Counter[object] = Counter()
    result = []
    for step in steps:
        key = (step.worker, step.subtask, step.access, step.caps)
        result.append(step.model_copy(update={"sample": equal[key]}))
        equal[key] += 1
    return tuple(result)
