"""Two real processes share a run (gloo, on the CPU): they stay in step, pause together, and go on together."""

import json
import os
import subprocess
import sys

from tests.training.world import pool_file, save_model
from training.records import last_checkpoint, read_lines


def test_they_stay_in_step(tmp_path):
    save_model(tmp_path / "start")
    pool_file(tmp_path)
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [sys.executable, *launch, "-m", "tests.training.two_processes", str(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "ACCELERATE_USE_CPU": "true"},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = (json.loads((tmp_path / f"told.{rank}.json").read_text()) for rank in (0, 1))
    assert first == second
    assert first["ends"] == [["paused", 2], ["finished", 3]]
    # The gate; then a first and a second round in each iteration, though no first round of process 0 has an answer.
    assert first["asked"] == [[4, 4]] * (1 + 2 * 3)
    assert [row["step"] for row in read_lines(tmp_path / "run/log.jsonl")] == [1, 2, 3]
    assert last_checkpoint(tmp_path / "run/checkpoints").name == "checkpoint-3"
    rows = [read_lines(tmp_path / "run" / name) for name in ("rollouts.jsonl", "rollouts.1.jsonl")]
    assert [[row["place"] for row in found[:8]] for found in rows] == [list(range(8)), list(range(8, 16))]
    assert {row["error"] for row in rows[0] if row["place"] % 16 in range(4, 8)} == {"no_first_round"}
