"""YAML files that come with the package by name, or are a person's own by path: templates, rules."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from conductor_plugin.errors import InputError
from conductor_plugin.yaml_file import Unreadable, read_yaml

M = TypeVar("M", bound=BaseModel)


def names_in(folder: Path) -> list[str]:
    """The files that come with the package."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def load_named(model: type[M], name: str, folder: Path, *, word: str, there_is_no: str) -> M:
    """Read a file by name, or by path where the name ends in .yaml.

    `word` is what it is called in sentences and codes: InputError `WORD_unknown`, `WORD_unreadable`, `WORD_bad_value`.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
    if path.parent == folder and not path.is_file():
        raise InputError(
            f"{there_is_no} {name!r}; there are {', '.join(names_in(folder))}, or give the path of a .yaml file",
            code=f"{word}_unknown",
        )
    try:
        return model.model_validate(read_yaml(path))
    except Unreadable as error:
        raise InputError(f"cannot read the {word} {path}{error}", code=f"{word}_unreadable") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise InputError(f"{path}: {place}: {first['msg']}", code=f"{word}_bad_value") from None
