"""The planner `routerdc:FOLDER` (RouterDC, Chen et al. 2024): one worker, the nearest to the question.

Questions and workers are vectors in one space: the question's is a linear map of a frozen text encoder's output
(the original trains the encoder as a whole), a worker's is learned. The largest cosine gets the question.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conductor_plugin.graph import CallStep
from conductor_plugin.models import Frozen
from conductor_plugin.planners.base import PlanRequest, Proposal
from conductor_plugin.planners.encoder import Encoder, load_encoder
from conductor_plugin.planners.saved import Saved, check_pool, folder_of, read_model, write_model

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class RouterDCModel:
    """`projection` maps an encoded question (size) into the space (dimension); `vectors` has a row for each worker."""

    encoder: Encoder
    workers: tuple[str, ...]
    projection: "Array"
    vectors: "Array"

    def route(self, question: str) -> int:
        """The number of the worker with the largest cosine (the question's own length does not change which)."""
        import numpy as np

        [encoded] = self.encoder.encode([question])
        directions = self.vectors / np.linalg.norm(self.vectors, axis=1, keepdims=True)
        return int((directions @ (encoded @ self.projection)).argmax())

    def save(self, folder: Path) -> None:
        """Save it for `load`."""
        arrays = {"projection": self.projection, "vectors": self.vectors}
        write_model(folder, "routerdc", {"workers": self.workers}, arrays)
        self.encoder.save(folder / "encoder")

    @staticmethod
    def load(folder: Path) -> "RouterDCModel":
        """What `save` wrote. InputError `planner_unreadable` if it is not there."""
        facts, arrays = read_model(folder, "routerdc")
        coder = load_encoder(folder / "encoder")
        return RouterDCModel(coder, tuple(facts["workers"]), arrays["projection"], arrays["vectors"])


@cache
def _loaded(saved: Saved) -> RouterDCModel:
    return RouterDCModel.load(folder_of(saved))


class RouterDC(Frozen):
    """The trained router."""

    model: Saved
    name: str = "routerdc"
    tries: int = 1

    async def propose(self, request: PlanRequest) -> Proposal:
        """One step. InputError `planner_pool` if it was trained on another pool."""
        model = _loaded(self.model)
        check_pool(model.workers, request.pool, self.name)
        return Proposal(steps=(CallStep(worker=model.route(request.question)),))
