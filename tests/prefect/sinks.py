"""All that Prefect keeps of runs, as texts to be searched."""

import json
import os
import sqlite3
from functools import partial
from pathlib import Path

import asyncpg
import prefect.settings
from prefect.client.orchestration import get_client


async def everything_of_the_api():
    """What the server tells about runs, by sink."""
    async with get_client() as client:
        read = {
            "flow runs": client.read_flow_runs,
            "task runs": client.read_task_runs,
            "artifacts": client.read_artifacts,
            "logs": client.read_logs,
            "blocks": partial(client.read_block_documents, include_secrets=False),
        }
        sinks = {}
        for name, page in read.items():
            found, offset = [], 0
            while more := await page(offset=offset, limit=100):
                found += [item.model_dump_json() for item in more]
                offset += len(more)
            sinks[name] = "\n".join(found)
        events = await client._client.post("/events/filter", json={"limit": 50})
        pages = [events.text]
        while following := json.loads(pages[-1]).get("next_page"):
            pages.append((await client._client.get(following)).text)
        return {**sinks, "events": "\n".join(pages)}


async def database(server):
    """Every row of every table as text."""
    url = prefect.settings.PREFECT_API_DATABASE_CONNECTION_URL.value()
    if isinstance(server, str):
        with sqlite3.connect(f"file:{url.partition(':///')[2]}?mode=ro", uri=True) as connection:
            names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return "\n".join(repr(row) for name in names for row in connection.execute(f'SELECT * FROM "{name}"'))
    connection = await asyncpg.connect(server.postgres_url.replace("+asyncpg", ""))
    try:
        tables = await connection.fetch(
            "SELECT quote_ident(tablename) AS name FROM pg_tables WHERE schemaname = 'public'"
        )
        rows = [await connection.fetch(f"SELECT t::text AS row FROM {table['name']} t") for table in tables]
        return "\n".join(row["row"] for found in rows for row in found)
    finally:
        await connection.close()


def files():
    """Result storage, and whatever else lies under a PREFECT_HOME, as text."""
    homes = {Path(os.environ["PREFECT_HOME"]), Path(prefect.settings.PREFECT_HOME.value())}
    found = (path.read_bytes() for home in homes for path in home.rglob("*") if path.is_file())
    return b"\n".join(found).decode("latin-1")
