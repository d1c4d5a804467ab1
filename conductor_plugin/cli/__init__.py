"""The command `conductor`.

Exit codes: 0 an answer; 2 bad input; 3 stopped by budget, deadline, label or content policy; 4 the planner
gave no valid plan; 130 interrupted; 1 anything else. With --json, stdout holds one JSON object and nothing
else, on failure too.
"""

import asyncio
import contextlib
import itertools
import json
import sys
from typing import Any

import click

from conductor_plugin.cli.answer import answer
from conductor_plugin.cli.check import check
from conductor_plugin.cli.evaluate import evaluate
from conductor_plugin.cli.plan import plan
from conductor_plugin.cli.pool import pool
from conductor_plugin.cli.serve_planner import serve_planner
from conductor_plugin.cli.show import show
from conductor_plugin.cli.store import store
from conductor_plugin.cli.train import train
from conductor_plugin.cli.train_baseline import train_baseline
from conductor_plugin.errors import ConductorError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="prefect-conductor")
def cli() -> None:
    """Answer questions by planned workflows over a pool of models and tools, run as Prefect flows."""


for command in (answer, plan, check, pool, show, store, evaluate, train, train_baseline, serve_planner):
    cli.add_command(command)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit; every failure is one sentence on stderr (and, with --json, on stdout)."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        code = cli.main(arguments, prog_name="conductor", standalone_mode=False)
    except click.UsageError as error:
        where = f"conductor {error.ctx.info_name}" if error.ctx and error.ctx.parent else "conductor"
        code = _fail(f"{error.format_message()} (see {where} --help)", "bad_option", 2, arguments)
    except ConductorError as error:
        code = _fail(str(error), error.code, error.exit_code, arguments)
    except (KeyboardInterrupt, asyncio.CancelledError, click.Abort):
        code = _fail("interrupted", "cancelled", 130, arguments)
    except Exception as error:
        code = _fail(f"{type(error).__name__}: {error}", "internal_error", 1, arguments)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: str, exit_code: int, arguments: list[str]) -> int:
    with contextlib.suppress(OSError):  # a full disk or a closed pipe must not hide the exit code
        print(f"conductor: {message}", file=sys.stderr)
        if "--json" in itertools.takewhile(lambda argument: argument != "--", arguments):
            print(json.dumps(_failure(message, code, arguments), ensure_ascii=False), flush=True)
    return exit_code


def _failure(message: str, code: str, arguments: list[str]) -> dict[str, Any]:
    """The JSON of a command that never came to its result; `answer` keeps the shape of an answer."""
    error = {"code": code, "message": message}
    if arguments[:1] != ["answer"]:
        return {"schema": 1, "error": error}
    from conductor_plugin.receipt import Answer, ErrorRecord, PlannerRecord

    status: Any = {"cancelled": "cancelled", "label": "stopped_label"}.get(code, "failed")
    return Answer(
        answer=None,
        status=status,
        error=ErrorRecord(**error),
        label="public",
        planner=PlannerRecord(name=""),
    ).to_json()
