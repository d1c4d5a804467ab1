"""The real question files, where they are: `$CONDUCTOR_TEST_DATA`, or shared/data next to the repository."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

PLACE = Path(os.environ.get("CONDUCTOR_TEST_DATA") or Path(__file__).resolve().parents[3].parent / "shared" / "data")


def rows(name: str) -> list[dict[str, Any]]:
    """The lines of a file, none if it is not there."""
    path = PLACE / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def rows_or_skip(name: str) -> list[dict[str, Any]]:
    """The lines of a file; without it, the test is skipped."""
    found = rows(name)
    if not found:
        pytest.skip(f"{name} is not in {PLACE} (set CONDUCTOR_TEST_DATA)")
    return found
