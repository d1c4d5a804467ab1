"""Promotion: a trained Conductor becomes the default planner of this machine if it beats the current one.

Paired: both answer the same held-out questions, and what counts is the mean difference. `--planner conductor` is then
the promoted one (`conductor_plugin.planners.default_conductor`); the former stays for a rollback:

    python -m training.promote rollback
"""

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conductor_plugin.errors import ConductorError, InputError
from conductor_plugin.evaluation.rows import Row
from conductor_plugin.evaluation.statistics import difference, marks
from conductor_plugin.home import conductor_home, published, rewrite
from conductor_plugin.models import Frozen
from conductor_plugin.planners.default_conductor import POINTER, PROMOTED, Default, read_default
from conductor_plugin.planners.manifest import read_manifest


class Decision(Frozen):
    """Whether a candidate is better by the margin: accuracies' mean difference and its 95 % interval, in shares."""

    promote: bool
    gain: float
    low: float
    high: float
    questions: int
    sentence: str


def decide(candidate: Sequence[Row], current: Sequence[Row], margin: float) -> Decision:
    """Compare two systems' rows on the same questions.

    Promoted if the gain is at least `margin` and the interval is above 0: a gain by chance is none. Rows that failed
    for their infrastructure are left out. InputError `bad_option` if no question has a row of both.
    """
    ours, theirs = marks(candidate), marks(current)
    found = difference(ours, theirs)
    if found is None:
        raise InputError("the two have no question in common to be compared on", code="bad_option")
    promote = found.mean >= margin and found.low > 0
    questions = len(ours.keys() & theirs.keys())
    verdict = "promoted" if promote else "not promoted"
    sentence = (
        f"on {questions} held-out questions it is {100 * found.mean:+.1f} points against the current one (95 % "
        f"interval {100 * found.low:+.1f} to {100 * found.high:+.1f}); {verdict}, the margin is {100 * margin:g} points"
    )
    return Decision(
        promote=promote, gain=found.mean, low=found.low, high=found.high, questions=questions, sentence=sentence
    )


def promote(folder: Path, figures: Mapping[str, Any]) -> Path:
    """Make a trained Conductor's folder the default: copied into the home, then named, in one stroke.

    The one before stays. Returns where the copy lies; it has the run's name. InputError `planner_…` if the folder is
    not whole, `promote_exists` if another one of that name is there.
    """
    manifest = read_manifest(folder)
    home = conductor_home() / PROMOTED
    home.mkdir(exist_ok=True)
    place = home / manifest.run
    if place.parent != home or place.name.startswith(".") or place.name == POINTER:
        raise InputError(f"a run named {manifest.run!r} makes no folder; name it otherwise", code="bad_option")
    if not place.exists():
        published(place, lambda partial: shutil.copytree(folder, partial, dirs_exist_ok=True))
    elif read_manifest(place) != manifest:
        raise InputError(f"{place} holds another Conductor of that name; name the run otherwise", code="promote_exists")
    before = read_default()
    if before.current != manifest.run:  # a retried flow promotes again: that must not make it its own former
        _point(home, Default(current=manifest.run, former=before.current, figures=dict(figures)))
    return place


def rollback() -> Default:
    """Make the former default the default again, and the present one the former. InputError `no_former`."""
    now = read_default()
    if now.current is None and now.former is None:
        raise InputError("nothing was promoted here, so that there is nothing to go back to", code="no_former")
    then = Default(current=now.former, former=now.current)
    _point(conductor_home() / PROMOTED, then)
    return then


def _point(home: Path, default: Default) -> None:
    rewrite(home / POINTER, default.model_dump_json(indent=1))


def main(arguments: Sequence[str]) -> int:
    """`rollback`, the one thing that a person does by hand."""
    if list(arguments) != ["rollback"]:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        default = rollback()
    except ConductorError as error:
        print(f"conductor: {error}", file=sys.stderr)
        return error.exit_code
    print(f"the default Conductor is {default.current or 'the shipped one'}; before, it was {default.former}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
