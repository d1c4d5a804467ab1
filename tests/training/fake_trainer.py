"""A stand-in for a stage's process, of the same interface: it trains nothing.

    python -m tests.training.fake_trainer STAGE FOLDER SCRIPT

SCRIPT is a comma list of what it does in turn: `step` (adds a line to the log and saves a checkpoint), `slow` (the
same, forever, one in 50 ms), `child` (starts a process that never ends, and notes its id), `deaf` (heeds no SIGTERM),
`pause`, `raise`, `die` (SIGKILL), `done`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from conductor_plugin.errors import ConductorError
from training.records import COMPLETE, last_checkpoint
from training.stage_process import hold_leash
from training.supervise import error_path, result_path, write_json


def step(folder: Path) -> None:
    """Log and save, as a step that follows the last checkpoint."""
    last = last_checkpoint(folder / "checkpoints")
    number = int(last.name.rpartition("-")[2]) + 1 if last else 1
    with (folder / "log.jsonl").open("a") as log:
        figures = {"reward_mean": 0.5 + number / 1000, "parse_rate": 1.0, "plan_length": 2.0, "worker/sums": 1.0}
        log.write(json.dumps({"step": number, **figures}) + "\n")
    checkpoint = folder / "checkpoints" / f"checkpoint-{number}"
    checkpoint.mkdir(parents=True)
    (checkpoint / COMPLETE).touch()


def main(stage: str, folder: Path, script: list[str]) -> None:
    hold_leash()
    with (folder / "starts").open("a") as starts:
        starts.write(f"{os.getpid()}\n")
    for what in script:
        if what == "step":
            step(folder)
        while what == "slow":
            step(folder)
            time.sleep(0.05)
        if what == "child":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            (folder / "child").write_text(str(child.pid))
        if what == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if what == "pause":
            error = ConductorError("the guard paused the run: the parse rate was below 0.7", code="paused")
            write_json(error_path(folder, stage), {"code": error.code, "message": str(error)})
            sys.exit(1)
        if what == "raise":
            raise RuntimeError("out of memory")
        if what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
    content = {"iterations": 8, "steps": 8, "candidate": {"accuracy": 0.75}, "promoted": False, "sentence": "no"}
    write_json(result_path(folder, stage), content)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3].split(","))
