"""A stage's process: started, watched, stopped; it dies with who started it, and two never share a folder.

The process is the stand-in of `fake_trainer`; tests/prefect/test_train.py runs the real one.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conductor_plugin.errors import InputError
from training import supervise
from training.records import last_checkpoint, read_lines
from training.supervise import StageFailed, StageOptions, read_result, run_stage, stage_command


def fake(folder, *script, stage="grpo"):
    return [sys.executable, "-m", "tests.training.fake_trainer", stage, str(folder), ",".join(script)]


def starts(folder):
    path = folder / "starts"
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(true, seconds=60):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_stage_runs_once(tmp_path):
    looks = []

    async def look():
        looks.append(len(read_lines(tmp_path / "log.jsonl")))

    for _ in range(2):
        result = asyncio.run(run_stage("grpo", fake(tmp_path, "step", "step", "done"), tmp_path, look))
        assert result["steps"] == 8
    assert len(starts(tmp_path)) == 1
    assert looks[-1] == 2
    assert read_result(tmp_path, "evaluate") is None


@pytest.mark.parametrize(
    ("script", "code", "sentence"),
    [
        ("pause", "paused", "the parse rate"),
        ("raise", "stage_failed", "exit code 1: RuntimeError: out of memory"),
        ("die", "stage_killed", "signal 9"),
    ],
)
def test_how_it_ended_is_said_and_the_next_start_goes_on(script, code, sentence, tmp_path):
    with pytest.raises(StageFailed, match=sentence) as caught:
        asyncio.run(run_stage("grpo", fake(tmp_path, "step", script), tmp_path))
    assert caught.value.code == code
    asyncio.run(run_stage("grpo", fake(tmp_path, "step", "done"), tmp_path))
    assert [row["step"] for row in read_lines(tmp_path / "log.jsonl")] == [1, 2]


async def _cancel_when(folder, command, ready):
    running = asyncio.create_task(run_stage("grpo", command, folder))
    while not ready():  # noqa: ASYNC110 - it waits for files of another process
        await asyncio.sleep(0.02)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()


@pytest.mark.parametrize("script", [["child", "slow"], ["deaf", "child", "slow"]], ids=str)
def test_cancelling_ends_the_whole_group(script, tmp_path, monkeypatch):
    monkeypatch.setattr(supervise, "GRACE_SECONDS", 1.0)
    checkpoints = tmp_path / "checkpoints"
    asyncio.run(_cancel_when(tmp_path, fake(tmp_path, *script), lambda: last_checkpoint(checkpoints)))
    assert not alive(starts(tmp_path)[0])
    until(lambda: not alive(int((tmp_path / "child").read_text())))
    reached = int(last_checkpoint(checkpoints).name.rpartition("-")[2])
    asyncio.run(run_stage("grpo", fake(tmp_path, "step", "done"), tmp_path))
    assert int(last_checkpoint(checkpoints).name.rpartition("-")[2]) == reached + 1


@pytest.mark.parametrize("script", [["child", "slow"], ["deaf", "child", "slow"]], ids=str)
def test_a_killed_starter_takes_its_process_along(script, tmp_path):
    """The leash; and the next start waits until the folder is free."""
    code = "import asyncio; from pathlib import Path; from training.supervise import run_stage\n"
    code += f"asyncio.run(run_stage('grpo', {fake(tmp_path, *script)!r}, Path({str(tmp_path)!r})))"
    starter = subprocess.Popen([sys.executable, "-c", code])
    until(lambda: last_checkpoint(tmp_path / "checkpoints"))
    [trainer] = starts(tmp_path)
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    asyncio.run(run_stage("grpo", fake(tmp_path, "done"), tmp_path))
    assert len(starts(tmp_path)) == 2
    assert not alive(trainer)
    until(lambda: not alive(int((tmp_path / "child").read_text())))


def test_two_in_one_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(supervise, "LOCK_SECONDS", 0.5)

    async def two():
        first = asyncio.create_task(run_stage("grpo", fake(tmp_path, "slow"), tmp_path))
        while not starts(tmp_path):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        with pytest.raises(InputError, match="another training") as caught:
            await run_stage("grpo", fake(tmp_path, "done"), tmp_path)
        assert caught.value.code == "folder_in_use"
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)

    asyncio.run(two())
    assert len(starts(tmp_path)) == 1


def test_the_command_lines(tmp_path):
    options = StageOptions(config="cpu", folder=str(tmp_path), budget_usd=3)
    *_, module, stage, told = stage_command("grpo", options)
    assert (module, stage, StageOptions.model_validate_json(told)) == ("training.stage_process", "grpo", options)
    many = options.model_copy(update={"processes": 4})
    assert stage_command("evaluate", many)[1:4] == ["-m", "training.stage_process", "evaluate"]
    launch = stage_command("grpo", many)
    assert launch[2] == "accelerate.commands.launch"
    assert launch[launch.index("--num_processes") + 1] == "4"


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"config": "nonsense"}, "config_unreadable"), ({"config": "/none.yaml"}, "config_unreadable")],
)
def test_the_real_process_says_what_is_wrong(changes, code, tmp_path):
    options = StageOptions(config="cpu", folder=str(tmp_path)).model_copy(update=changes)
    with pytest.raises(StageFailed) as caught:
        asyncio.run(run_stage("prepare", stage_command("prepare", options), tmp_path))
    assert caught.value.code == code
    assert os.listdir(tmp_path / "stages") == ["prepare.error.json"]
