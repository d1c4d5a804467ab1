"""One of two processes that train together on the CPU: `torchrun … -m tests.training.two_processes FOLDER`.

The sampler is one for both, as a vLLM server is: each call waits for the other process's, and both must ask for equally
many. Of the first process no first round has an answer, of the second all have. The guard pauses them; when they go on,
the first one has a taped iteration that the other has not.
"""

import json
import os
import sys
from pathlib import Path

from accelerate.utils import gather_object

from tests.training.world import QUESTIONS, Canned, Exact, completion, config
from training.grpo import train
from training.tape import Tape


class Together(Canned):
    """See the module; `asked` has how many each process asked for, call by call."""

    def __init__(self, *texts):
        super().__init__(*texts)
        self.asked = []

    def __call__(self, prompts, trainer):
        self.asked.append(gather_object([len(prompts)]))
        return super().__call__(prompts, trainer)


def main(folder: Path) -> None:
    """Train until the guard pauses it, and then to the end."""
    rank = int(os.environ["RANK"])
    settings = config(
        folder / "pool.yaml",
        rules={"max_rounds": 1},
        recursion={"forced_share": 1.0},
        grpo={"iterations": 3},
        guard={"parse_rate": 1.0, "failed_share": None, "window": 2},
    )
    sampler = Together("nonsense" if rank == 0 else completion(0))
    options = {"start": folder / "start", "questions": QUESTIONS, "grader": Exact, "sampler": sampler}
    Tape.forget = lambda self, before: None
    ends = [train(settings, folder / "run", **options)]
    if rank == 0:
        tape = folder / "run/tape"
        (tape / "000001-0.json").rename(tape / "000002-0.json")
    free = settings.model_copy(update={"guard": settings.guard.model_copy(update={"parse_rate": None})})
    ends.append(train(free, folder / "run", **options))
    told = {"ends": [[end.status, end.step] for end in ends], "asked": sampler.asked}
    (folder / f"told.{rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
