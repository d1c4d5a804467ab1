"""What workers answered in this run, kept in its folder: who asks again, after a crash say, pays nothing.

A call is known by its worker, by all that the worker is shown, and by which draw of it is wanted. A worker that
always answers alike (an exact tool, a model at temperature 0) has one draw, so that equal calls of a batch run once.
Any other gets one for each rollout of each iteration: a resumed run that makes the same call for the same rollout is
told the same answer.
"""

import asyncio
import hashlib
import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from conductor_plugin.context import WorkerReply
from conductor_plugin.in_flight import once
from conductor_plugin.models import Frozen
from conductor_plugin.step import StepJob, StepResult, request_for, run_step_with_retries
from conductor_plugin.worker_spec import WorkerSpec

EXACT_TOOLS = ("calculator", "number", "text", "python")
_TABLE = "CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID"


def is_deterministic(worker: WorkerSpec) -> bool:
    """Whether equal calls of the worker get equal answers."""
    return worker.kind in EXACT_TOOLS or worker.params.get("temperature") == 0


class Call(Frozen):
    """A call that was answered: how, in how many attempts and seconds."""

    reply: WorkerReply
    attempts: int
    took_s: float


class PaidCalls:
    """The calls of a run, for one event loop. Writes of a moment share one transaction; `flush` waits for them."""

    def __init__(self, path: Path) -> None:
        self._reader = sqlite3.connect(path, check_same_thread=False)
        self._writer = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._writer.executescript(f"PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; {_TABLE};")
        self._unwritten: dict[str, Call] = {}
        self._writing: asyncio.Task[None] | None = None
        self._flying: dict[str, asyncio.Task[Call]] = {}
        self._keys: dict[int, tuple[WorkerSpec, str]] = {}
        self.made = 0
        """Calls that were really made, by this process."""

    async def step(self, job: StepJob, visible: Sequence[StepResult], draw: str) -> StepResult:
        """The executor's step: from the store, from an equal call in flight, or made now."""
        if job.worker is None:
            return await run_step_with_retries(job, visible)
        request = request_for(job, visible)
        which = "" if is_deterministic(job.worker) else f"{draw}/{job.index}"
        # The numbers of the steps too: no message tells them, but a tool's instruction may name a step.
        seen = [[earlier.index, earlier.subtask, earlier.output] for earlier in request.seen]
        history = [[message.role, message.content] for message in request.history]
        words = [request.question, request.subtask, seen, history]
        asked = json.dumps([self._key_of(job.worker), words, which, request.sample])
        key = hashlib.sha256(asked.encode()).hexdigest()[:32]
        call = await once(self._flying, key, lambda: self._find(key), lambda: self._pay(key, job, visible))
        return StepResult(
            index=job.index, subtask=request.subtask, reply=call.reply, attempts=call.attempts, took_s=call.took_s
        )

    def _key_of(self, worker: WorkerSpec) -> str:
        """`worker.key`, hashed once for each object; the object is kept, so that its id stays its own."""
        if id(worker) not in self._keys:
            self._keys[id(worker)] = (worker, worker.key)
        return self._keys[id(worker)][1]

    async def _find(self, key: str) -> Call | None:
        return self._unwritten.get(key) or self._read(key)

    async def _pay(self, key: str, job: StepJob, visible: Sequence[StepResult]) -> Call:
        began = time.perf_counter()
        self.made += 1
        result = await run_step_with_retries(job, visible)
        call = Call(reply=result.reply, attempts=result.attempts, took_s=time.perf_counter() - began)
        self._unwritten[key] = call
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return call

    def _read(self, key: str) -> Call | None:
        row = self._reader.execute("SELECT record FROM calls WHERE key = ?", (key,)).fetchone()
        return None if row is None else Call.model_validate_json(row[0])

    async def _write(self) -> None:
        """Write until nothing is left; what arrives meanwhile goes into the next transaction."""
        try:
            while self._unwritten:
                batch = dict(self._unwritten)
                await asyncio.to_thread(self._insert, batch)
                for key in batch:
                    self._unwritten.pop(key, None)
        finally:
            self._writing = None

    def _insert(self, batch: Mapping[str, Call]) -> None:
        rows = [(key, call.model_dump_json()) for key, call in batch.items()]
        self._writer.execute("BEGIN")
        self._writer.executemany("INSERT OR IGNORE INTO calls VALUES (?, ?)", rows)
        self._writer.execute("COMMIT")

    async def flush(self) -> None:
        """Return when every call that was made is on the disk."""
        while self._writing is not None:
            await asyncio.shield(self._writing)

    def close(self) -> None:
        """Close the file."""
        self._reader.close()
        self._writer.close()
