"""The process of a stage: `python -m training.stage_process STAGE OPTIONS`, OPTIONS being `StageOptions` as JSON.

Exit code 0 with `stages/STAGE.json` in the run's folder, or that of its error with `stages/STAGE.error.json`. It ends
when its standard input does: that is the other end of the leash, and who held it is gone.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from conductor_plugin.errors import ConductorError
from training.supervise import STAGES, Stage, StageOptions, error_path, result_path

LEASH_GRACE_SECONDS = 3.0


def hold_leash() -> None:
    """Watch standard input in a thread; at its end, end this process and its group."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.killpg(0, signal.SIGTERM)
        time.sleep(LEASH_GRACE_SECONDS)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, name="leash", daemon=True).start()


def run(stage: Stage, options: StageOptions) -> int:
    """Do the stage, and leave its result or its error in the folder. The exit code."""
    from training.stages import FUNCTIONS

    folder = Path(options.folder)
    first = os.environ.get("RANK", "0") == "0"  # of several processes, one speaks for all
    try:
        result = FUNCTIONS[stage](options)
    except ConductorError as error:
        if first:
            _write(error_path(folder, stage), {"code": error.code, "message": str(error)})
        print(f"{stage}: {error}", file=sys.stderr)
        return error.exit_code
    if first:
        _write(result_path(folder, stage), result)
    return 0


def _write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    partial.replace(path)


def main(arguments: list[str]) -> int:
    """See the module."""
    stage, options = arguments
    if stage not in STAGES:
        raise SystemExit(f"there is no stage {stage!r}; there are {', '.join(STAGES)}")
    hold_leash()
    return run(stage, StageOptions.model_validate_json(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
