"""Which trained Conductor `--planner conductor` is: the one that was promoted on this machine, else the shipped one.

    $CONDUCTOR_HOME/conductors/default.json     names the promoted folder beside it, and the one before (a rollback)
    conductor_plugin/shipped/conductor          what the package brings
    conductor_plugin/shipped/smollm2            an adapter on SmolLM2, for `--planner conductor:smollm2`

One file names both, so that replacing it changes the default in one stroke (`training.promote` writes it).
"""

from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from conductor_plugin.errors import InputError
from conductor_plugin.home import in_home
from conductor_plugin.models import Frozen
from conductor_plugin.planners.manifest import FILE

SHIPPED = Path(__file__).parent.parent / "shipped" / "conductor"
ALSO_SHIPPED = {"smollm2": SHIPPED.parent / "smollm2"}
"""Others that the package brings, by the name behind `conductor:`; this one needs the extra `[local]`."""
PROMOTED = "conductors"
POINTER = "default.json"


class Default(Frozen):
    """The promoted folder and the one before it, None for the shipped one; and the figures that promoted it."""

    current: str | None
    former: str | None = None
    figures: dict[str, Any] = Field(default_factory=dict)


def read_default() -> Default:
    """What was promoted. InputError `planner_unreadable` if that cannot be read."""
    path = in_home(f"{PROMOTED}/{POINTER}")
    if path is None:
        return Default(current=None)
    try:
        return Default.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        sentence = f"cannot read which Conductor is the default, {path}: {reason}"
        raise InputError(sentence, code="planner_unreadable") from None


def default_folder() -> Path:
    """The folder of the default. InputError `planner_unreadable` if there is none, or if it is gone."""
    current = read_default().current
    folder = SHIPPED if current is None else in_home(f"{PROMOTED}/{current}")
    if folder is None or not (folder / FILE).is_file():
        what = "no trained Conductor comes with this package" if current is None else f"the promoted {current} is gone"
        raise InputError(f"{what}; train one, and name its folder: conductor:FOLDER", code="planner_unreadable")
    return folder
