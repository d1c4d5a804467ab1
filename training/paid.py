"""What workers answered in this run, kept in its folder: who asks again, after a crash say, pays nothing.

A call is known by its worker, its messages and which draw of it is wanted. A worker that always answers alike (an
exact tool, a model at temperature 0) has one draw, so that equal calls of a batch run once. Any other gets one for
each rollout of each iteration: a resumed run that makes the same call for the same rollout is told the same answer.
"""

import asyncio
import json
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from conductor_plugin.context import WorkerReply, build_messages
from conductor_plugin.step import StepJob, StepResult, request_for, run_step_with_retries
from conductor_plugin.worker_spec import WorkerSpec, digest

EXACT_TOOLS = ("calculator", "number", "text", "python")
_TABLE = "CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID"


def is_deterministic(worker: WorkerSpec) -> bool:
    """Whether equal calls of the worker get equal answers."""
    return worker.kind in EXACT_TOOLS or worker.params.get("temperature") == 0


class PaidCalls:
    """The calls of a run, for one event loop. Writes of a moment share one transaction; `flush` waits for them."""

    def __init__(self, path: Path) -> None:
        self._reader = sqlite3.connect(path, check_same_thread=False)
        self._writer = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._writer.executescript(f"PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; {_TABLE};")
        self._unwritten: dict[str, str] = {}
        self._writing: asyncio.Task[None] | None = None
        self._flying: dict[str, asyncio.Task[dict[str, object]]] = {}
        self.made = 0
        """Calls that were really made, by this process."""

    async def step(self, job: StepJob, visible: Sequence[StepResult], draw: str) -> StepResult:
        """The executor's step: from the store, from an equal call in flight, or made now."""
        if job.worker is None:
            return await run_step_with_retries(job, visible)
        request = request_for(job, visible)
        which = "" if is_deterministic(job.worker) else f"{draw}/{job.index}"
        messages = [(message.role, message.content) for message in build_messages(request)]
        key = digest([job.worker.key, messages, which, request.sample], 32)
        record = await self._once(key, job, visible)
        return StepResult(
            index=job.index,
            subtask=request.subtask,
            reply=WorkerReply.model_validate(record["reply"]),
            attempts=record["attempts"],
            took_s=record["took_s"],
        )

    async def _once(self, key: str, job: StepJob, visible: Sequence[StepResult]) -> dict[str, object]:
        while (flying := self._flying.get(key)) is not None:
            try:
                return await asyncio.shield(flying)
            except asyncio.CancelledError:
                if (current := asyncio.current_task()) and current.cancelling():
                    raise
                # Whoever paid was cancelled: it is our turn.
        if (found := self._unwritten.get(key) or self._read(key)) is not None:
            record: dict[str, object] = json.loads(found)
            return record
        task = asyncio.ensure_future(self._pay(key, job, visible))
        self._flying[key] = task
        try:
            return await task
        finally:
            self._flying.pop(key, None)

    async def _pay(self, key: str, job: StepJob, visible: Sequence[StepResult]) -> dict[str, object]:
        began = time.perf_counter()
        self.made += 1
        result = await run_step_with_retries(job, visible)
        record = {
            "reply": result.reply.model_dump(mode="json"),
            "attempts": result.attempts,
            "took_s": time.perf_counter() - began,
        }
        self._unwritten[key] = json.dumps(record)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return record

    def _read(self, key: str) -> str | None:
        row = self._reader.execute("SELECT record FROM calls WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    async def _write(self) -> None:
        """Write until nothing is left; what arrives meanwhile goes into the next transaction."""
        try:
            while self._unwritten:
                batch = dict(self._unwritten)
                await asyncio.to_thread(self._insert, list(batch.items()))
                for key in batch:
                    self._unwritten.pop(key, None)
        finally:
            self._writing = None

    def _insert(self, rows: list[tuple[str, str]]) -> None:
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
