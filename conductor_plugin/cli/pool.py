"""`conductor pool`: the workers of a pool, what a planner is told of them, and what is missing to use them."""

import json
import os

import click

from conductor_plugin.cli.options import json_option, pool_options


@click.command()
@pool_options
@json_option
def pool(pool_file: str | None, only: tuple[str, ...], exclude: tuple[str, ...], as_json: bool) -> int:
    """Check a pool file and list its workers with their ids."""
    from conductor_plugin.pool import load_pool

    members = load_pool(pool_file).subset(only, exclude)
    missing = [w.api_key_env for w in members.workers if w.needs_variable and not os.environ.get(w.api_key_env or "")]
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
        }
        print(json.dumps(report, ensure_ascii=False))
        return 0
    width = max(len(worker.name) for worker in members.workers)
    for i, worker in enumerate(members.workers):
        what = worker.model or worker.kind
        print(f"{i:>3}  {worker.name:<{width}}  {what}  {' '.join('#' + tag for tag in worker.tags)}".rstrip())
    print(f"\nA planner is told (with --blind only the numbers):\n{members.described()}")
    print(f"\nfingerprint {members.fingerprint}")
    for name in missing:
        print(f"not set: the environment variable {name}")
    return 0
