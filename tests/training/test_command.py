"""`conductor train`: the pipeline from the command line, its exit codes, and one sentence where it cannot be run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.training.world import pool_file
from training.curves import plot

ROOT = Path(__file__).parents[2]


RUN = "from conductor_plugin.cli import main; main()"
# An editable install puts the checkout's root on the path, a wheel does not.
AS_A_WHEEL = (
    "import sys, os; sys.path = [p for p in sys.path if not os.path.exists(os.path.join(p, 'training'))]; " + RUN
)


def command(*arguments, cwd=ROOT, path=str(ROOT), code=RUN):
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CONDUCTOR_HOME": str(cwd)}
    line = [sys.executable, "-c", code, "train", *arguments]
    return subprocess.run(line, cwd=cwd, env=environment, capture_output=True, text=True, timeout=250)


def test_the_shipped_configuration_is_quoted():
    done = command("--config", "cpu", "--quote", "--json")
    offer = json.loads(done.stdout)["quote"]
    assert (done.returncode, offer["iterations"]) == (0, 75)
    assert offer["calls"]["low"] == offer["rollouts"] == 75 * 8 * 24
    assert offer["cost_usd"]["high"] == 0.0


def test_without_the_folder_training_it_says_where_to_run_it(tmp_path):
    (tmp_path / "conductor_plugin").symlink_to(ROOT / "conductor_plugin")
    done = command("--config", "cpu", cwd=tmp_path, path=str(tmp_path), code=AS_A_WHEEL)
    assert done.returncode == 2
    assert done.stderr == (
        "conductor: conductor train needs the repository's folder training/, which no wheel ships: run it from the "
        "root of a checkout, or in the image\n"
    )


@pytest.mark.parametrize(("config", "sentence"), [("nothing", "there is no configuration 'nothing'")])
def test_bad_input_is_one_sentence(config, sentence):
    done = command("--config", config)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert sentence in done.stderr


def test_a_run_from_nothing(tmp_path):
    """Cold start, gate, GRPO with the fast hooks, model and curves; a second start has nothing left to do."""
    settings = {
        "model": {"kind": "scratch", "scratch": {"hidden": 16, "layers": 1, "heads": 2, "vocabulary": 320}},
        "pool": str(pool_file(tmp_path)),
        "questions": [{"name": "rg:gcd", "limit": 6}],
        "prompt": {"style": "short"},
        "rules": {"max_steps": 3},
        "cold_start": {"examples": 32, "batch": 16},
        "gate": {"refuse": False, "samples": 4},
        "grpo": {"iterations": 2, "questions": 2, "rollouts": 4, "lr": 1e-3, "batch": 4, "max_completion_tokens": 12},
    }
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(settings))
    done = command("--config", str(path), "--folder", str(tmp_path / "run"), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["training"] == {
        "status": "finished",
        "step": 2,
        "reason": "",
        "checkpoint": str(tmp_path / "run/checkpoints/checkpoint-2"),
    }
    assert "sampled plans are valid" in done.stderr
    made = {item.name for item in (tmp_path / "run").iterdir()}
    assert {"cold_start", "model", "log.jsonl", "rollouts.jsonl", "curves.png", "curves.svg"} <= made
    fresh = command("--config", str(path), "--folder", str(tmp_path / "run"), "--fresh")
    assert (fresh.returncode, "holds a run already" in fresh.stderr) == (2, True)


def test_equal_logs_give_equal_pictures(tmp_path):
    rows = [{"step": i, "reward_mean": i / 5, "worker/a": 0.4, "parse_rate/2": 1.0} for i in range(1, 5)]
    files = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        files.append([path.read_bytes() for path in plot(tmp_path / name)])
    assert files[0] == files[1]
    assert files[0][0].startswith(b"\x89PNG")
    assert plot(tmp_path / "nothing") == []
