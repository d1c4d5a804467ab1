"""The store of all that was paid for: worker samples, plans, verdicts and whole results, each under a key.

A sample is (worker, messages, sample index, settings) -> answer, usage, cost, latency. Whatever system asks for it
first pays; every other one is compared on the very same answer. SQLite by default, PostgreSQL by URL; several
processes may write at once, and what one of them has written survives its being killed.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from conductor_plugin.errors import InputError
from conductor_plugin.home import conductor_home

if TYPE_CHECKING:
    import sqlalchemy

NOT_INSTALLED = 'evaluation needs more packages: pip install "prefect-conductor[evaluate]"'


class Store:
    """Records by kind and key. Blocking: call it in a thread, or through `aget` and `aput`."""

    def __init__(self, url: str | None = None) -> None:
        """Open, and create what is missing. InputError `store_unusable` where that cannot be done."""
        self.url = url or f"sqlite:///{conductor_home() / 'samples.sqlite'}"
        try:
            import sqlalchemy
        except ImportError:
            raise InputError(NOT_INSTALLED, code="not_installed") from None
        try:
            self._engine = sqlalchemy.create_engine(self.url, **_options(self.url))
            self._dialect()
            self._records = _table(self._engine)
        except Exception as error:  # of SQLAlchemy, of the driver, or of the system
            raise InputError(
                f"cannot use the sample store {_shown(self.url)}: {type(error).__name__}; give a SQLAlchemy URL like "
                "sqlite:///samples.sqlite or postgresql+psycopg://…, of a database that you may write to",
                code="store_unusable",
            ) from None

    def get(self, kind: str, key: str) -> dict[str, Any] | None:
        """The record, if there is one."""
        return self.get_many(kind, [key]).get(key)

    def get_many(self, kind: str, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Those of the records that there are, by key."""
        import sqlalchemy

        table, found = self._records, {}
        with self._engine.connect() as connection:
            for start in range(0, len(keys), 500):
                chosen = sqlalchemy.select(table.c.key, table.c.record).where(
                    table.c.kind == kind, table.c.key.in_(keys[start : start + 500])
                )
                found.update({row.key: row.record for row in connection.execute(chosen)})
        return found

    def put(
        self, kind: str, key: str, record: dict[str, Any], *, worker: str = "", question: str = ""
    ) -> dict[str, Any]:
        """Keep a record, unless the key has one already; the one that is kept."""
        values = {"kind": kind, "key": key, "worker": worker, "question": question, "record": record}
        with self._engine.begin() as connection:
            written = connection.execute(self._insert(), values).rowcount
        kept = record if written == 1 else self.get(kind, key)  # -1: the driver does not say
        assert kept is not None
        return kept

    def replace(self, kind: str, key: str, record: dict[str, Any], *, worker: str = "", question: str = "") -> None:
        """Keep a record, in the place of the one that the key may have."""
        values = {"kind": kind, "key": key, "worker": worker, "question": question, "record": record}
        changed = {"record": record}
        insert = self._dialect().insert(self._records).values(values)
        with self._engine.begin() as connection:
            connection.execute(insert.on_conflict_do_update(index_elements=["kind", "key"], set_=changed))

    def records_of(self, kind: str, worker: str, question: str | None = None) -> list[dict[str, Any]]:
        """All records of a worker (of an evaluation, for what was paid), of one question if that is named."""
        import sqlalchemy

        table = self._records
        chosen = sqlalchemy.select(table.c.record).where(table.c.kind == kind, table.c.worker == worker)
        if question is not None:
            chosen = chosen.where(table.c.question == question)
        with self._engine.connect() as connection:
            return [row.record for row in connection.execute(chosen)]

    def samples_of(self, worker: str, question: str) -> list[dict[str, Any]]:
        """A worker's samples of one question, by sample index; both as `sampled` keys them."""
        return sorted(self.records_of("sample", worker, question), key=lambda record: int(record["sample"]))

    async def aget(self, kind: str, key: str) -> dict[str, Any] | None:
        """`get`, off the event loop."""
        return await asyncio.to_thread(self.get, kind, key)

    async def aput(self, kind: str, key: str, record: dict[str, Any], **fields: str) -> dict[str, Any]:
        """`put`, off the event loop."""
        return await asyncio.to_thread(lambda: self.put(kind, key, record, **fields))

    async def areplace(self, kind: str, key: str, record: dict[str, Any], **fields: str) -> None:
        """`replace`, off the event loop."""
        await asyncio.to_thread(lambda: self.replace(kind, key, record, **fields))

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    def _insert(self) -> Any:
        """INSERT … ON CONFLICT DO NOTHING: of writers at once, the first wins and the others read what it wrote."""
        return self._dialect().insert(self._records).on_conflict_do_nothing()

    def _dialect(self) -> Any:
        from sqlalchemy.dialects import postgresql, sqlite

        return {"sqlite": sqlite, "postgresql": postgresql}[self._engine.dialect.name]


def _options(url: str) -> dict[str, Any]:
    return {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {"pool_pre_ping": True}


def _table(engine: "sqlalchemy.Engine") -> Any:
    import sqlalchemy as sa

    metadata = sa.MetaData()
    table = sa.Table(
        "conductor_records",
        metadata,
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("worker", sa.String(64), nullable=False),
        sa.Column("question", sa.String(64), nullable=False),
        sa.Column("record", sa.JSON, nullable=False),
        sa.Index("conductor_records_by_worker", "kind", "worker", "question"),
    )
    if engine.dialect.name == "sqlite":
        # Readers do not wait for writers then, and a commit survives the process (if not the power).
        sa.event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA journal_mode=WAL"))
        sa.event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=NORMAL"))
    try:
        metadata.create_all(engine, checkfirst=True)
    except sa.exc.DBAPIError:  # of processes that start at once one creates it, and the others find it there now
        metadata.create_all(engine, checkfirst=True)
    return table


def _shown(url: str) -> str:
    """The URL without its password."""
    from sqlalchemy.engine import make_url

    try:
        return make_url(url).render_as_string(hide_password=True)
    except Exception:
        return "that was given"
