"""What importing costs, and that imports point one way."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("litellm", "torch", "networkx", "transformers", "trl", "vllm", "datasets", "sympy")


def loaded_by(code: str) -> set[str]:
    """The top-level modules that are loaded after running `code` in a new interpreter."""
    script = f"{code}\nimport sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(result.stdout.split("\n")[-2].split())


@pytest.mark.parametrize(
    "code",
    [
        "import conductor_plugin",
        "import conductor_plugin.on_prefect.flow",
        "import conductor_plugin.on_prefect.blocks",
        "import flows.answer",
        "from conductor_plugin import *",
    ],
)
def test_importing_loads_nothing_heavy(code):
    assert not loaded_by(code) & set(HEAVY)


def run_cli(*arguments: str) -> str:
    return f"""
import contextlib, io, sys
from conductor_plugin.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main({list(arguments)!r})
"""


@pytest.mark.parametrize(
    "arguments", [("--help",), ("answer", "--help"), ("pool",), ("check", "PLAN"), ("check", "/none")]
)
def test_light_commands_do_not_load_prefect(arguments, tmp_path):
    plan = tmp_path / "plan.txt"
    plan.write_text("model_id = [0]\nsubtasks = ['']\naccess_list = [[]]")
    arguments = tuple(str(plan) if a == "PLAN" else a for a in arguments)
    assert not loaded_by(run_cli(*arguments)) & {*HEAVY, "prefect"}


def test_the_package_itself_loads_no_third_party_module():
    assert not loaded_by("import conductor_plugin") & {"prefect", "pydantic", "yaml", "click", "rich"}


def test_every_public_name_is_there():
    import conductor_plugin

    for name in conductor_plugin.__all__:
        assert getattr(conductor_plugin, name) is not None
    with pytest.raises(AttributeError):
        _ = conductor_plugin.no_such_name


def test_nothing_heavy_is_imported_at_the_top_of_a_module():
    for path in (ROOT / "conductor_plugin").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                allowed = path.name == "algebra.py" and name.startswith("sympy")  # runs in the child process only
                assert allowed or name.partition(".")[0] not in HEAVY, f"{path}: import {name}"


def test_the_core_environment_has_no_torch():
    """`make answer`'s environment; `make test` sets it up beside this one."""
    python = ROOT / ".venv" / "bin" / "python"
    if not python.exists():
        import os

        assert os.environ.get("CONDUCTOR_TEST_ALL") != "1", "make test sets up .venv first"
        pytest.skip("no core environment here: run make test")
    result = subprocess.run([python, "-c", "import torch"], capture_output=True, text=True)
    assert "No module named 'torch'" in result.stderr


def test_no_public_name_is_hidden_by_a_module():
    """Importing a submodule sets an attribute of its name on the package."""
    import conductor_plugin

    modules = {path.stem for path in (ROOT / "conductor_plugin").iterdir()}
    assert not modules & set(conductor_plugin.__all__)
