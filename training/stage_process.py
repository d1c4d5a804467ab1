"""The process of a stage: `python -m training.stage_process STAGE OPTIONS`, OPTIONS being `StageOptions` as JSON.

Exit code 0 with `stages/STAGE.json` in the run's folder, or that of its error with `stages/STAGE.error.json`. It ends
when its standard input does: that is the other end of the leash, and who held it is gone.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

from conductor_plugin.errors import ConductorError
from training.supervise import STAGES, Stage, StageOptions, error_path, write_json

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
    from training.stages import done

    try:
        done(stage, options)
    except ConductorError as error:
        if os.environ.get("RANK", "0") == "0":  # of several processes, one speaks for all
            write_json(error_path(Path(options.folder), stage), {"code": error.code, "message": str(error)})
        print(f"{stage}: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def main(arguments: list[str]) -> int:
    """See the module."""
    stage, options = arguments
    if stage not in STAGES:
        raise SystemExit(f"there is no stage {stage!r}; there are {', '.join(STAGES)}")
    hold_leash()
    return run(stage, StageOptions.model_validate_json(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
