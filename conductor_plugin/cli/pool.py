"""`conductor pool`: the workers of a pool, what a planner is told of them, and what is missing to use them."""

import asyncio
import contextlib
import json
import os
from typing import TYPE_CHECKING

import click

from conductor_plugin.cli.options import json_option, pool_options

if TYPE_CHECKING:
    from conductor_plugin.pool import Pool
    from conductor_plugin.pricing import Listing
    from conductor_plugin.served import Served


@click.command()
@pool_options
@click.option("--check-models", is_flag=True, help="Look models up in litellm's price map; exit code 1 if one is gone.")
@click.option(
    "--check", "check_servers", is_flag=True, help="Ask each api_base what it serves; exit code 1 if not that."
)
@json_option
def pool(
    pool_file: str | None,
    only: tuple[str, ...],
    exclude: tuple[str, ...],
    check_models: bool,
    check_servers: bool,
    as_json: bool,
) -> int:
    """Check a pool file and list its workers with their ids."""
    from conductor_plugin.pool import load_pool
    from conductor_plugin.pricing import listings

    members = load_pool(pool_file).subset(only, exclude)
    missing = [w.api_key_env for w in members.workers if w.needs_variable and not os.environ.get(w.api_key_env or "")]
    found = listings(members) if check_models else None
    served = _served(members) if check_servers else None
    if as_json:
        report = {
            "schema": 1,
            "error": None,
            "fingerprint": members.fingerprint,
            "labels": list(members.labels),
            "workers": [
                {"id": i, **worker.model_dump(mode="json", exclude_none=True)}
                for i, worker in enumerate(members.workers)
            ],
            "missing_variables": missing,
            **({} if found is None else {"models": [listing.model_dump(mode="json") for listing in found]}),
            **({} if served is None else {"served": [one.model_dump(mode="json") for one in served]}),
        }
        print(json.dumps(report, ensure_ascii=False))
    else:
        _show(members)
        for name in missing:
            print(f"not set: the environment variable {name}")
        if found is not None:
            _show_models(found)
        if served is not None:
            print(f"\n{len(served)} models asked for at an api_base of your own")
            print(*(f"{one.state.replace('_', ' ')}: {one.sentence}" for one in served), sep="\n")
    known, up = all(listing.known for listing in found or []), all(one.state == "served" for one in served or [])
    return 0 if known and up else 1


def _served(members: "Pool") -> "list[Served]":
    from conductor_plugin.on_prefect.history import embedded_server
    from conductor_plugin.served import check_served

    named = [worker.api_key_env for worker in members.workers] + [members.planner and members.planner.api_key_env]
    in_blocks = any(name and name.startswith("secret/") for name in named)
    with embedded_server() if in_blocks else contextlib.nullcontext():
        return asyncio.run(check_served(members))


def _show(members: "Pool") -> None:
    width = max(len(worker.name) for worker in members.workers)
    for i, worker in enumerate(members.workers):
        what = worker.model or worker.kind
        print(f"{i:>3}  {worker.name:<{width}}  {what}  {' '.join('#' + tag for tag in worker.tags)}".rstrip())
    print(f"\nA planner is told (with --blind only the numbers):\n{members.described()}")
    print(f"\nfingerprint {members.fingerprint}")


def _show_models(found: "list[Listing]") -> None:
    print(f"\n{len(found)} models looked up in litellm's price map (not those of an api_base of your own)")
    for listing in found:
        if not listing.known:
            print(f"gone: {listing.who}: {listing.model} is not in the price map; name its successor in the pool file")
        elif listing.retires:
            print(f"going: {listing.who}: {listing.model} retires on {listing.retires}")
