"""A stage of training in a process of its own: started, watched and stopped by whoever waits for it (the flow).

The process dies with its starter, however that ends: it holds the read end of a pipe as its standard input (the leash,
see `stage_process`), and the system closes the other end. Until it is dead it also holds the folder's lock, so that
the next start waits for it instead of training in the same folder beside it.
"""

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from conductor_plugin.errors import ConductorError, InputError
from conductor_plugin.home import rewrite
from conductor_plugin.models import Frozen

Stage = Literal["prepare", "cold-start", "grpo", "evaluate", "register"]
STAGES: tuple[Stage, ...] = ("prepare", "cold-start", "grpo", "evaluate", "register")
GRACE_SECONDS = 6.0  # from SIGTERM to SIGKILL
LOCK_SECONDS = 30.0  # for which a start waits for the dying process of an earlier one
LOOK_SECONDS = 1.0
ACCELERATE = Path(__file__).parent / "accelerate"


class StageOptions(Frozen):
    """What a stage is told: the configuration's name or path, the run's folder, and what the flow overrides.

    `accelerate` says how GRPO's processes are launched (`accelerate_file`), `processes` how many, instead of that file.
    """

    config: str
    folder: str
    budget_usd: float | None = None
    promote: bool = False
    margin: float = 0.02
    processes: int | None = None
    accelerate: str | None = None


def stage_command(stage: Stage, options: StageOptions) -> list[str]:
    """The command line of a stage; GRPO in several processes goes through `accelerate launch`."""
    module = ["-m", "training.stage_process", stage, options.model_dump_json()]
    if stage != "grpo" or (options.accelerate is None and (options.processes or 1) == 1):
        return [sys.executable, *module]
    how = ["--config_file", str(accelerate_file(options.accelerate))] if options.accelerate else ["--multi_gpu"]
    count = ["--num_processes", str(options.processes)] if options.processes else []
    return [sys.executable, "-m", "accelerate.commands.launch", *how, *count, *module]


def accelerate_file(source: str) -> Path:
    """A path that ends in .yaml, or a name in training/accelerate. InputError `accelerate_unknown` if it is no file."""
    path = Path(source) if source.endswith((".yaml", ".yml")) else ACCELERATE / f"{source}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(found.stem for found in ACCELERATE.glob("*.yaml")))
        raise InputError(
            f"there is no accelerate file {source!r}; there are {known}, or give a .yaml file",
            code="accelerate_unknown",
        )
    return path


def result_path(folder: Path, stage: Stage) -> Path:
    """Where a stage that is done leaves what it came to."""
    return folder / "stages" / f"{stage}.json"


def error_path(folder: Path, stage: Stage) -> Path:
    """Where a stage that failed leaves its code and sentence."""
    return folder / "stages" / f"{stage}.error.json"


def read_result(folder: Path, stage: Stage) -> dict[str, Any] | None:
    """What a stage came to; None if it is not done."""
    try:
        found: dict[str, Any] = json.loads(result_path(folder, stage).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a result or an error, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rewrite(path, json.dumps(content, ensure_ascii=False))


class StageFailed(ConductorError):
    """A stage ended without a result. `code` is that of its error: `paused` where the guard paused it."""


async def run_stage(
    stage: Stage, command: Sequence[str], folder: Path, on_look: Callable[[], Awaitable[None]] | None = None
) -> dict[str, Any]:
    """Run a stage's process to its end; what it came to. Done before, it is not run again.

    `on_look` is awaited about once a second, and once more at the end. When this is cancelled, or struck by a signal
    that raises, the process is stopped first: SIGTERM, and after GRACE_SECONDS SIGKILL to its group. StageFailed with
    its sentence, or with the end of its output if it died without one; InputError `folder_in_use`.
    """
    if (done := read_result(folder, stage)) is not None:
        return done
    result_path(folder, stage).parent.mkdir(parents=True, exist_ok=True)
    error_path(folder, stage).unlink(missing_ok=True)
    lock = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR)
    try:
        await _take(lock, folder)
        process = _start(command, folder / f"{stage}.out", lock)
        try:
            while process.poll() is None:
                await asyncio.sleep(LOOK_SECONDS)
                if on_look:
                    await on_look()
        finally:
            stop(process)
    finally:
        os.close(lock)
    if on_look:
        await on_look()
    return _result(stage, folder, process.returncode)


def _start(command: Sequence[str], output: Path, lock: int) -> "subprocess.Popen[bytes]":
    with output.open("ab") as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[lock],
        )


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End the process and all of its group; returns when it is gone.

    It blocks, on purpose: there may be no event loop to wait in any more.
    """
    for strike in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, strike)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # what it left behind
    assert process.stdin
    process.stdin.close()  # processes with groups of their own (accelerate's) feel the leash


async def _take(lock: int, folder: Path) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise InputError(
                    f"another training runs in {folder}; wait for its end, cancel it, or name another folder",
                    code="folder_in_use",
                ) from None
            await asyncio.sleep(0.2)


def _result(stage: Stage, folder: Path, returncode: int) -> dict[str, Any]:
    done = read_result(folder, stage)
    if returncode == 0 and done is not None:
        return done
    try:
        error = json.loads(error_path(folder, stage).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        tail = (folder / f"{stage}.out").read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        last = f": {tail[0][:500]}" if tail else ""
        how = f"was killed by signal {-returncode}" if returncode < 0 else f"ended with exit code {returncode}"
        raise StageFailed(
            f"the process of {stage} {how}{last}; run it again, and it goes on from its last checkpoint",
            code="stage_killed" if returncode < 0 else "stage_failed",
        ) from None
    raise StageFailed(error["message"], code=error["code"])
