"""Fit which families of questions a planner knows (`conductor_plugin.planners.known`), and how often that errs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from conductor_plugin.errors import InputError
from conductor_plugin.planners.known import Family, Known, Rates, cosine, unit, wording

LARGEST = 300  # features of a family; its shared wording is far smaller, the rest is what one question said
FEWEST = 8  # questions of a family, so that each of the three parts has some


def fit_known(inside: Mapping[str, Sequence[str]], outside: Mapping[str, Sequence[str]]) -> Known:
    """The families with their wording, thresholds and measured error rates.

    `inside` has questions by family: the first half of each makes its wording, the next quarter its threshold, the
    last quarter is measured. `outside` has questions of other families: every other family (in order) helps to set the
    thresholds, those between are measured, so that no rate comes from what it was set on. InputError `bad_option`
    for too few.
    """
    for name, texts in inside.items():
        if len(texts) < FEWEST:
            raise InputError(f"the family {name} has {len(texts)} questions; give {FEWEST} or more", code="bad_option")
    if not inside or len(outside) < 2:
        raise InputError("give questions of the known families, and of two others or more", code="bad_option")
    others = list(outside.values())
    strangers = [wording(text) for texts in others[::2] for text in texts]
    families = {name: _family(texts, strangers) for name, texts in inside.items()}
    measured = [text for texts in inside.values() for text in texts[_parts(texts)[1] :]]
    known = Known(families=families, rates=Rates(false_reject=0, inside=0, false_accept=0, outside=0))
    return known.model_copy(
        update={"rates": measure(known, measured, [text for texts in others[1::2] for text in texts])}
    )


def measure(known: Known, inside: Sequence[str], outside: Sequence[str]) -> Rates:
    """The shares of the inside questions that are refused, and of the outside ones that are taken in."""
    refused = sum(known.family_of(text) is None for text in inside)
    taken = sum(known.family_of(text) is not None for text in outside)
    return Rates(
        false_reject=refused / max(len(inside), 1),
        inside=len(inside),
        false_accept=taken / max(len(outside), 1),
        outside=len(outside),
    )


def _parts(texts: Sequence[str]) -> tuple[int, int]:
    """Where the questions for the threshold begin, and those to measure on."""
    return len(texts) // 2, len(texts) * 3 // 4


def _family(texts: Sequence[str], strangers: Sequence[Mapping[str, float]]) -> Family:
    first, last = _parts(texts)
    total: Counter[str] = Counter()
    for text in texts[:first]:
        total.update(wording(text))
    # Largest first, equal ones by name: the same questions make the same file.
    largest = sorted(total.items(), key=lambda item: (-item[1], item[0]))[:LARGEST]
    mean = {feature: round(value, 6) for feature, value in unit(dict(largest)).items()}
    own = [cosine(mean, wording(text)) for text in texts[first:last]]
    return Family(wording=mean, threshold=_threshold(own, [cosine(mean, stranger) for stranger in strangers]))


def _threshold(own: Sequence[float], strangers: Sequence[float]) -> float:
    """The cut with the fewest errors, shares of each side added: in the middle of the widest gap that has them.

    A fit may not rest on the last digit of a cosine, hence the middle of a gap; below all and above all are no gaps,
    since both would make a detector that never decides.
    """
    values = sorted({*own, *strangers})
    best = max(
        pairwise(values),
        key=lambda gap: (-round(_errors((gap[0] + gap[1]) / 2, own, strangers), 9), gap[1] - gap[0]),
        default=None,
    )
    return round((best[0] + best[1]) / 2, 6) if best else values[0]


def _errors(cut: float, own: Sequence[float], strangers: Sequence[float]) -> float:
    refused = sum(value < cut for value in own) / len(own)
    return refused + sum(value >= cut for value in strangers) / max(len(strangers), 1)
