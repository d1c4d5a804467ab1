"""The folder of a run: its configuration, log, rollouts and checkpoints; rewound to the checkpoint on a resume."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from conductor_plugin.errors import InputError
from conductor_plugin.home import rewrite
from training.config import TrainConfig
from training.reward import Outcome, Rollout

COMPLETE = "complete"
# What may change between the starts of a run: it decides when to stop, not what is learnt.
MAY_CHANGE = {"budget_usd", "guard", "gate"}


class Records:
    """Where a run writes down what happens. Steps count from 1, iterations from 0: iteration i leads to step i + 1."""

    def __init__(self, folder: Path, process: int = 0) -> None:
        """`process` numbers those that share the run; each writes down the rollouts that it has sampled."""
        self.folder = folder
        self.checkpoints = folder / "checkpoints"
        self._log = folder / "log.jsonl"
        self._rollouts = folder / (f"rollouts.{process}.jsonl" if process else "rollouts.jsonl")
        self._writes_log = process == 0

    def begin(self, config: TrainConfig, *, resume: bool) -> None:
        """Take the folder. InputError `folder_used` without `resume`, `config_changed` if another run is in it."""
        path = self.folder / "config.json"
        self.folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            if not resume:
                raise InputError(f"{self.folder} holds a run already; resume it, or name another", code="folder_used")
            before = TrainConfig.model_validate_json(path.read_text(encoding="utf-8"))
            changed = [
                name
                for name in TrainConfig.model_fields
                if name not in MAY_CHANGE and getattr(before, name) != getattr(config, name)
            ]
            if changed:
                raise InputError(
                    f"the run in {self.folder} was started with another {', '.join(changed)}; name another folder",
                    code="config_changed",
                )
        if self._writes_log:
            rewrite(path, config.model_dump_json(indent=2))  # whole: other processes of the run may be reading it

    def rewind(self, step: int) -> None:
        """Forget what came after that step, and the line that a killed process left half written."""
        if self._writes_log:
            _keep_lines(self._log, lambda row: int(row["step"]) <= step)
        _keep_lines(self._rollouts, lambda row: int(row["iteration"]) < step)

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Add a step's figures."""
        _append(self._log, [{"step": step, **figures}])

    def rollouts(self, rollouts: Sequence[Rollout], outcomes: Sequence[Outcome]) -> None:
        """Add an iteration's rollouts."""
        _append(
            self._rollouts,
            [
                {
                    "iteration": rollout.iteration,
                    "place": rollout.place,
                    "question": rollout.question,
                    "offered": list(rollout.workers),
                    "round": int(rollout.after is not None),
                    "completion": rollout.completion,
                    **outcome.as_json(),
                }
                for rollout, outcome in zip(rollouts, outcomes, strict=True)
            ],
        )

    def mark(self, step: int) -> None:
        """The checkpoint of that step is complete."""
        (self.checkpoints / f"checkpoint-{step}" / COMPLETE).touch()


def last_checkpoint(folder: Path) -> Path | None:
    """The latest checkpoint that was written to its end: a process may be killed while it writes one."""
    found = [path.parent for path in folder.glob(f"checkpoint-*/{COMPLETE}")]
    return max(found, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON lines file, without a last one that is half written; none if there is no file."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]  # what follows the last newline is half a row
    return [json.loads(line) for line in lines]


def _append(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _keep_lines(path: Path, wanted: Callable[[dict[str, Any]], bool]) -> None:
    rows = [row for row in read_lines(path) if wanted(row)]
    rewrite(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
