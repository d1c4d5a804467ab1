"""What calls of each worker were like so far: seconds, tokens and bytes, no text. Kept in $CONDUCTOR_HOME.

A worker is known by its kind, model, endpoint and settings, so that one that changes starts anew.
"""

import sqlite3
import statistics
from collections.abc import Iterable
from contextlib import closing

from conductor_plugin.home import conductor_home
from conductor_plugin.models import Frozen
from conductor_plugin.pool import Pool
from conductor_plugin.receipt import Answer

KEPT = 200  # calls of each worker
_TABLE = """CREATE TABLE IF NOT EXISTS calls (
    id INTEGER PRIMARY KEY, worker TEXT NOT NULL, latency_s REAL NOT NULL, completion_tokens REAL, output_bytes REAL
);
CREATE INDEX IF NOT EXISTS calls_of_worker ON calls (worker, id);"""


class Typical(Frozen):
    """Medians over a worker's latest calls; tokens are None where no call told them."""

    calls: int
    latency_s: float
    completion_tokens: float | None
    output_bytes: float


def record_calls(pool: Pool, answer: Answer) -> None:
    """Keep the figures of an answer's completed calls. InputError `home_unusable`; sqlite3.Error."""
    known = {worker.name: worker.key for worker in pool.workers}
    rows = [
        (known[step.worker], step.latency_s, step.completion_tokens, len((step.output or "").encode()))
        for record in answer.rounds
        for step in record.steps
        if step.status == "completed" and step.attempts == 1 and step.worker in known and step.latency_s is not None
    ]
    if not rows:
        return
    with closing(_open()) as database, database:
        database.executemany(
            "INSERT INTO calls (worker, latency_s, completion_tokens, output_bytes) VALUES (?, ?, ?, ?)", rows
        )
        for worker in {row[0] for row in rows}:
            database.execute(
                "DELETE FROM calls WHERE worker = ?1 AND id NOT IN "
                "(SELECT id FROM calls WHERE worker = ?1 ORDER BY id DESC LIMIT ?2)",
                (worker, KEPT),
            )


def typical_calls(pool: Pool) -> dict[str, Typical]:
    """What calls of the pool's workers were like, by name; a worker that was never called is not there."""
    found = {}
    with closing(_open()) as database:
        for worker in pool.workers:
            rows = database.execute(
                "SELECT latency_s, completion_tokens, output_bytes FROM calls WHERE worker = ?", (worker.key,)
            ).fetchall()
            if rows:
                latencies, tokens, sizes = zip(*rows, strict=True)
                found[worker.name] = Typical(
                    calls=len(rows),
                    latency_s=statistics.median(latencies),
                    completion_tokens=_median(tokens),
                    output_bytes=statistics.median(sizes),
                )
    return found


def _median(values: Iterable[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return statistics.median(told) if told else None


def _open() -> sqlite3.Connection:
    database = sqlite3.connect(conductor_home() / "calls.sqlite", timeout=10)
    database.executescript(_TABLE)
    return database
