"""What each iteration sampled, on disk before it is scored.

A run that is resumed from a checkpoint replays the iterations after it: the same completions from the same weights,
whatever the sampler's state, so that their calls are those that were paid for. A checkpoint makes older ones useless.
"""

import json
from pathlib import Path
from typing import Any

from conductor_plugin.home import rewrite


class Tape:
    """One file an iteration, complete or not there; one for each process that samples."""

    def __init__(self, folder: Path, process: int = 0) -> None:
        self._folder, self._process = folder, process
        folder.mkdir(parents=True, exist_ok=True)

    def read(self, iteration: int) -> dict[str, Any] | None:
        """What the iteration sampled, if it came so far."""
        try:
            found: dict[str, Any] = json.loads(self._path(iteration).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return found

    def write(self, iteration: int, sampled: dict[str, Any]) -> None:
        """Keep it. JSON keeps a float's every bit."""
        rewrite(self._path(iteration), json.dumps(sampled))

    def forget(self, before: int) -> None:
        """Drop the iterations below that one."""
        for path in self._folder.glob(f"*-{self._process}.json"):
            if int(path.name.split("-")[0]) < before:
                path.unlink()

    def _path(self, iteration: int) -> Path:
        return self._folder / f"{iteration:06d}-{self._process}.json"
