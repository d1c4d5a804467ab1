"""Workers asked while the next groups are sampled, against all groups sampled first: seconds of an iteration.

`sampling.at_once: 1` is the most that the algorithm allows: the next iteration's completions need this one's update.
It helps where the workers' limits make calls wait, as they do here: a worker that answers one group at a time.
"""

import asyncio
import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch

from conductor_plugin.context import WorkerRequest
from tests.training.world import QUESTIONS, Exact, completion, config, pool_file, save_model
from training.grpo import train
from training.records import read_lines
from training.trainer import Sample

SAMPLING, ASKING = 0.75, 0.75  # seconds of a group's sampling, and of a worker's call
GROUPS, ROLLOUTS, ITERATIONS = 4, 4, 3


async def slow(request: WorkerRequest) -> str:
    """Answers right, after a while."""
    await asyncio.sleep(ASKING)
    return request.question.split()[-1]


class Slow:
    """Takes its time for each group."""

    def __init__(self) -> None:
        self.texts = itertools.cycle([completion(0, subtask="a"), "no plan"])

    def __call__(self, prompts, trainer):
        time.sleep(SAMPLING * len(prompts) / ROLLOUTS)
        encode = trainer.processing_class
        ids = [encode(next(self.texts))["input_ids"] + [encode.eos_token_id] for _ in prompts]
        return Sample(encode(prompts)["input_ids"], ids)


def run(folder: Path, at_once: int | None) -> float:
    """The median of an iteration's seconds."""
    folder.mkdir()
    pool = pool_file(folder)
    slow_one = {"name": "slow", "kind": "tests.performance.overlap:slow", "max_concurrency": ROLLOUTS // 2}
    pool.write_text(json.dumps({"workers": [slow_one]}))
    grpo = {"questions": GROUPS, "rollouts": ROLLOUTS, "iterations": ITERATIONS, "batch": 16, "save_every": 10}
    settings = config(pool, sampling={"at_once": at_once}, grpo=grpo)
    options = {"start": save_model(folder / "start"), "questions": QUESTIONS, "grader": Exact, "sampler": Slow()}
    train(settings, folder / "run", **options)
    return statistics.median(row["step_time"] for row in read_lines(folder / "run/log.jsonl"))


def main() -> None:
    """Print the figures."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        after, beside = run(Path(folder, "after"), None), run(Path(folder, "beside"), 1)
    sampling, asking = SAMPLING * GROUPS, ASKING * GROUPS
    print(f"{sampling:g} s of sampling and {asking:g} s of workers an iteration: one after the other {after:.2f} s,")
    print(f"group by group {beside:.2f} s: {(after - beside) / asking:.0%} of the workers' time is hidden")


if __name__ == "__main__":
    main()
