"""Where this package keeps its state: `$CONDUCTOR_HOME`, or `~/.conductor`."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from conductor_plugin.errors import InputError

REASONS: dict[type[Exception], str] = {
    FileExistsError: "a file of that name stands there",
    FileNotFoundError: "its parent directory does not exist",
    NotADirectoryError: "a parent of it is a file",
    PermissionError: "you may not write there",
}


def conductor_home() -> Path:
    """The absolute path of a directory that exists and takes files.

    InputError `home_unusable` where it can neither be used nor made: only its last part is created, since a
    missing parent is more often a misspelt path or an unmounted volume than a wish.
    """
    path = _named()
    try:
        path = path.expanduser().absolute()
        path.mkdir(mode=0o700, exist_ok=True)  # questions and answers are nobody else's business
        with tempfile.TemporaryFile(dir=path):  # permission bits do not tell of a read-only file system
            return path
    except (OSError, RuntimeError) as error:  # RuntimeError: nobody knows where ~ is
        raise _unusable(path, error) from None


def in_home(name: str) -> Path | None:
    """What lies in the home under that name; None if nothing does, or if there is no home. Makes nothing."""
    try:
        path = _named().expanduser().absolute() / name
        return path if path.exists() else None
    except (OSError, RuntimeError):
        return None


def _named() -> Path:
    return Path(os.environ.get("CONDUCTOR_HOME") or "~/.conductor")


def published(directory: Path, fill: Callable[[Path], object]) -> Path:
    """`directory`, which `fill` made: complete or not there at all, also after a crash.

    `fill` is handed an empty directory beside it, and what it raises passes through. Processes that want
    the same directory at once wait for the first of them. InputError `home_unusable` where it cannot be made.
    """
    if directory.is_dir():
        return directory
    try:
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = open(directory.with_name(f".{directory.name}.lock"), "w")  # noqa: SIM115
    except OSError as error:
        raise _unusable(directory.parent, error) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the system lets go of it when a process dies
        if not directory.is_dir():
            _fill_and_rename(directory, fill)
    return directory


def _fill_and_rename(directory: Path, fill: Callable[[Path], object]) -> None:
    partial = directory.with_name(f".{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # a killed process may have left one
    try:
        partial.mkdir()
        fill(partial)
        partial.rename(directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def rewrite(path: Path, text: str) -> None:
    """Give the file that content, in one stroke: whole, or as it was, also after a crash."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def reason_of(error: Exception) -> str:
    """Why a directory is of no use, in words for a person."""
    return REASONS.get(type(error)) or getattr(error, "strerror", None) or str(error) or type(error).__name__


def _unusable(path: Path, error: OSError | RuntimeError) -> InputError:
    return InputError(
        f"cannot keep files in {path}: {reason_of(error)}; set CONDUCTOR_HOME to a directory that you may write to",
        code="home_unusable",
    )
