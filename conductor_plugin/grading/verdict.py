"""What a grader says of an answer."""

from typing import Literal

from conductor_plugin.models import Frozen


class Verdict(Frozen):
    """One answer judged.

    `unparsed`: the answer has nothing that could be compared. `infrastructure`: it could not be judged, for no
    fault of its own (a grader's process died, no sandbox is there); it counts neither as right nor as wrong.
    """

    outcome: Literal["right", "wrong", "unparsed", "infrastructure"]
    extracted: str | None = None
    detail: str = ""
