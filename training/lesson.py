"""A lesson of the curriculum, as a configuration's `lessons` have it: a run of GRPO with a subject (`curriculum`)."""

from typing import Annotated, Literal

from pydantic import Field

from conductor_plugin.models import Frozen
from training.values import Count, Flag, Rate

Kept = Literal["length", "workers but the first", "all but the first worker"]


class Lesson(Frozen):
    """A share of the iterations, on questions of one subject (None: all).

    `max_steps` and `lr` take the place of the configuration's where they are given; with `by_length` plans of one
    length are compared; what is `kept` of the cold start is rehearsed with this `weight`. With `rollouts` a question,
    an iteration has as many completions as it would have, of more or fewer questions, unless `questions` says of how
    many. Only the `first` has to write valid plans of every length: later on, lengths that nobody needs are forgotten.
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
    share: Annotated[float, Field(gt=0, le=1)]
    subject: str | None = None
    max_steps: Count | None = None
    by_length: Flag = False
    lr: Rate | None = None
    schedule: Literal["constant", "cosine"] = "constant"
    first: Flag = False
    kept: Kept | None = None
    weight: Rate = 1.0
    rollouts: Annotated[Count, Field(ge=2)] | None = None
    questions: Count | None = None
