"""kill -9 at any moment: the next start goes on, and pays for nothing that was answered."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from conductor_plugin.errors import InputError
from tests.training.world import QUESTIONS, Canned, Drawn, Exact, completion, config, pool_file, save_model
from tests.unit.test_budget import llm_pool
from tests.upstream import Text
from training.config import TrainConfig
from training.grpo import Finished, train
from training.records import Records, last_checkpoint, read_lines

RUN = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from tests.training.world import QUESTIONS, Drawn, Exact
from training.config import TrainConfig
from training.grpo import Finished, train

folder = Path(sys.argv[1])
settings = TrainConfig.model_validate_json((folder / "settings.json").read_text())
print(train(settings, folder / "run", start=folder / "start", questions=QUESTIONS, grader=Exact, sampler=Drawn()).step)
"""


def start_run(folder: Path) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", RUN, str(folder)], stderr=subprocess.DEVNULL, text=True)


def goes_on(folder: Path) -> Finished:
    """Another start, in this process."""
    settings = TrainConfig.model_validate_json((folder / "settings.json").read_text())
    return train(settings, folder / "run", start=folder / "start", questions=QUESTIONS, grader=Exact, sampler=Drawn())


def calls(folder: Path) -> Counter:
    log = folder / "log"
    return Counter(log.read_text().splitlines()) if log.exists() else Counter()


def wait_for(condition, process, seconds=200):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)


def prepare(folder: Path, save_every: int) -> TrainConfig:
    settings = config(
        pool_file(folder, log=str(folder / "log")),
        grpo={"iterations": 4, "save_every": save_every},
        gate={"samples": 4},
    )
    (folder / "settings.json").write_text(settings.model_dump_json())
    save_model(folder / "start")
    return settings


@pytest.mark.parametrize("save_every", [1, 3])
def test_a_killed_run_goes_on_and_repeats_no_call(tmp_path, save_every):
    """Every plan has an instruction of its own, so that each call is one of its kind."""
    prepare(tmp_path, save_every)
    run = tmp_path / "run"
    process = start_run(tmp_path)
    wait_for(lambda: len(read_lines(run / "log.jsonl")) >= 2, process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert (last_checkpoint(run / "checkpoints") is None) == (save_every == 3)
    paid = {tuple(json.loads(line)) for line in calls(tmp_path)}
    assert paid
    assert goes_on(tmp_path).status == "finished"
    rows = read_lines(run / "rollouts.jsonl")
    assert [row["iteration"] for row in rows] == [i for i in range(4) for _ in range(8)]
    assert [row["step"] for row in read_lines(run / "log.jsonl")] == [1, 2, 3, 4]
    # A call in flight at the kill may be made again; of the finished iterations, none.
    finished = {plan for row in rows if row["iteration"] < 2 for plan in row["plan"]["subtasks"]}
    again = [json.loads(line) for line, count in calls(tmp_path).items() if count > 1]
    assert [call for call in again if call[1] in finished] == []


def test_the_resumed_run_is_the_run_that_was_not_killed(tmp_path):
    """The same completions, rewards and weights."""
    from safetensors.torch import load_file

    folders = [tmp_path / "whole", tmp_path / "killed"]
    for folder in folders:
        folder.mkdir()
        prepare(folder, 2)
    process = start_run(folders[1])
    wait_for(lambda: len(read_lines(folders[1] / "run/log.jsonl")) >= 3, process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    for folder in folders:
        goes_on(folder)
    rows = [read_lines(folder / "run/rollouts.jsonl") for folder in folders]
    whole, killed = ([(row["completion"], row["reward"]) for row in found] for found in rows)
    assert whole == killed
    first, second = (load_file(folder / "run/model/model.safetensors") for folder in folders)
    assert all((first[name] == second[name]).all() for name in first)


def test_an_unfinished_checkpoint_is_not_resumed_from(tmp_path):
    for step, complete in ((2, True), (10, True), (12, False)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        if complete:
            (folder / "complete").touch()
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-10"


def test_a_pause_leaves_a_checkpoint_and_the_next_start_goes_on(tmp_path):
    settings = prepare(tmp_path, 10)
    strict = settings.model_copy(
        update={"guard": settings.guard.model_copy(update={"worker_entropy": 1.0, "window": 2})}
    )
    options = {"start": tmp_path / "start", "questions": QUESTIONS, "grader": Exact}
    paused = train(strict, tmp_path / "run", sampler=Drawn(size=1), **options)
    assert (paused.status, paused.step) == ("paused", 2)
    assert paused.reason == "the entropy over workers was below 1 for 2 iterations, at last 0.000"
    assert paused.checkpoint.endswith("checkpoint-2")
    assert not (tmp_path / "run/model").exists()
    finished = train(settings, tmp_path / "run", sampler=Drawn(), **options)
    assert (finished.status, finished.step) == ("finished", 4)


def test_the_budget_is_over_all_starts_and_stops_them_at_a_resumable_point(tmp_path, upstream):
    """Exit, more money, go on: what was paid for before is not paid for again."""
    upstream.script(*[Text("1")] * 24)
    pool = llm_pool(upstream.base_url)
    (tmp_path / "pool.yaml").write_text(json.dumps(pool.model_dump(mode="json", exclude_defaults=True)))
    start = save_model(tmp_path / "start")
    poor = config(tmp_path / "pool.yaml", grpo={"iterations": 3}, budget_usd=475e-6 + 11.5 * 17e-6)
    options = {"start": start, "questions": QUESTIONS, "grader": Exact}
    stopped = train(poor, tmp_path / "run", sampler=Canned(completion(0), completion(1)), **options)
    assert stopped.status == "stopped_budget"
    assert "of the budget of 0.0006705 USD only" in stopped.reason
    paid = len(upstream.requests)
    assert paid == 12  # the worst case of a call, and what each was billed
    assert train(poor, tmp_path / "run", sampler=Canned(completion(0)), **options).status == "stopped_budget"
    assert len(upstream.requests) == paid
    rich = poor.model_copy(update={"budget_usd": 1.0})
    assert train(rich, tmp_path / "run", sampler=Canned(completion(0)), **options).status == "finished"
    assert len(upstream.requests) == 24


def test_another_configuration_is_refused(tmp_path):
    settings = prepare(tmp_path, 1)
    Records(tmp_path / "run").begin(settings, resume=True)
    Records(tmp_path / "run").begin(settings.model_copy(update={"budget_usd": 3.0}), resume=True)
    other = settings.model_copy(update={"prompt": settings.prompt.model_copy(update={"few_shot": "none"})})
    with pytest.raises(InputError, match="was started with another prompt; name another folder"):
        Records(tmp_path / "run").begin(other, resume=True)
    with pytest.raises(InputError, match="holds a run already"):
        Records(tmp_path / "run").begin(settings, resume=False)
