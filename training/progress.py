"""The course of a training run in Prefect: a progress bar, a table of the last steps, and plots, from its log.

The trainer knows nothing of Prefect; it adds a line a step to `log.jsonl`, and this reads it.
"""

import asyncio
import base64
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from prefect.artifacts import (
    acreate_image_artifact,
    acreate_markdown_artifact,
    acreate_progress_artifact,
    aupdate_progress_artifact,
)

from training.records import read_lines

KEY = "conductor-training"
COLUMNS = ("step", "reward_mean", "parse_rate", "right_given_valid", "plan_length", "worker_entropy", "dead_groups")
SHOWN = 20  # steps of the table
REDRAW_SECONDS = 60.0

Step = Mapping[str, object]


@dataclass
class Progress:
    """Shows the steps of a run's log, of which there will be `iterations`; await `look` when there may be a new one."""

    folder: Path
    iterations: int
    _bar: UUID | None = None
    _shown: int = -1
    _drawn: int = -1
    _drawn_at: float = field(default=0.0)

    async def look(self) -> None:
        """Move the bar if there is a new step; table and plots once a minute."""
        steps = await asyncio.to_thread(read_lines, self.folder / "log.jsonl")
        if len(steps) == self._shown:
            return
        await self._move(len(steps))
        if steps and time.monotonic() - self._drawn_at > REDRAW_SECONDS:
            await self.draw()

    async def draw(self) -> None:
        """Table and plots of what there is; nothing, if they show it already."""
        steps = await asyncio.to_thread(read_lines, self.folder / "log.jsonl")
        if not steps or len(steps) == self._drawn:
            return
        self._drawn, self._drawn_at = len(steps), time.monotonic()
        await acreate_markdown_artifact(table(steps, self.iterations), key=KEY, description="The course of a training")
        if (image := await asyncio.to_thread(picture, self.folder)) is not None:
            data = base64.b64encode(image).decode()
            await acreate_image_artifact(f"data:image/png;base64,{data}", key=f"{KEY}-curves")

    async def _move(self, steps: int) -> None:
        share = min(100.0, 100.0 * steps / max(self.iterations, 1))
        if self._bar is None:
            self._bar = await acreate_progress_artifact(
                progress=share, key=f"{KEY}-steps", description=f"Steps of {self.iterations}"
            )
        else:
            await aupdate_progress_artifact(self._bar, progress=share)
        self._shown = steps


def table(steps: Sequence[Step], iterations: int) -> str:
    """The last steps as markdown, with the names of workers' shares that the log has."""
    workers = [name for name in steps[-1] if name.startswith("worker/")]
    columns = [*(name for name in COLUMNS if name in steps[-1]), *workers]
    lines = [f"Step {len(steps)} of {iterations}.", "", _row(columns), _row(["---"] * len(columns))]
    lines += [_row([_cell(step.get(name)) for name in columns]) for step in steps[-SHOWN:]]
    return "\n".join(lines) + "\n"


def picture(folder: Path) -> bytes | None:
    """The run's curves as a PNG; None where matplotlib is not installed."""
    from training.curves import plot

    try:
        return next((path.read_bytes() for path in plot(folder) if path.suffix == ".png"), None)
    except ImportError:
        return None


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else "" if value is None else str(value)
