"""Which families of questions a trained planner knows: an honest guess from how a question is worded.

A family is the mean of its training questions as vectors of word and word-pair counts, numbers masked, so that it
holds the wording that its questions share. A question is known if its cosine with a family reaches that family's
threshold. `training.known` sets the thresholds and measures how often this errs. Saved as readable JSON.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from conductor_plugin.errors import InputError
from conductor_plugin.models import Frozen

FILE = "known.json"
_TOKEN = re.compile(r"[^\W\d_]+|0|[^\w\s]")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")

Vector = Mapping[str, float]
Share = Annotated[float, Field(ge=0, le=1)]


class Family(Frozen):
    """A family's wording (a vector of unit length) and the least cosine of a question that belongs to it."""

    wording: dict[str, Annotated[float, Field(ge=0, le=1)]]
    threshold: float


class Rates(Frozen):
    """How often the guess errs on questions that set nothing: shares, and of how many questions."""

    false_reject: Share
    inside: int
    false_accept: Share
    outside: int


class Known(Frozen):
    """The families by name."""

    families: dict[str, Family] = Field(min_length=1)
    rates: Rates

    def family_of(self, question: str) -> str | None:
        """The family whose wording is nearest, of those that the question belongs to; None if it belongs to none."""
        vector = wording(question)
        fits = {name: cosine(family.wording, vector) - family.threshold for name, family in self.families.items()}
        nearest = max(fits, key=fits.__getitem__)
        return nearest if fits[nearest] >= 0 else None


def wording(text: str) -> dict[str, float]:
    """A text's words and word pairs as a vector of unit length (empty for an empty text); every number is `0`."""
    tokens = _TOKEN.findall(_NUMBER.sub("0", text.lower()))
    counts = Counter([*tokens, *(f"{left} {right}" for left, right in pairwise(tokens))])
    return unit({feature: 1 + math.log(count) for feature, count in counts.items()})


def unit(vector: Vector) -> dict[str, float]:
    """The vector at length 1."""
    length = math.sqrt(sum(value * value for value in vector.values())) or 1.0
    return {feature: value / length for feature, value in vector.items()}


def cosine(one: Vector, other: Vector) -> float:
    """The cosine of two vectors of unit length."""
    small, large = sorted((one, other), key=len)
    return sum(value * large.get(feature, 0.0) for feature, value in small.items())


def load_known(folder: Path) -> Known:
    """What `training.known` saved. InputError `planner_unreadable` if it cannot be read."""
    try:
        return Known.model_validate_json((folder / FILE).read_bytes())
    except (OSError, ValidationError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise InputError(f"{folder / FILE} holds no families: {reason}", code="planner_unreadable") from None
