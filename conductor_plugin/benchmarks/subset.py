"""Seeded orders that hang on nothing but the seed and the ids: no file order, no random generator's version."""

import hashlib
from collections.abc import Iterable

from conductor_plugin.errors import InputError


def subset(ids: Iterable[str], limit: int | None, seed: int) -> list[str]:
    """The first `limit` ids of the seed's order (all without a limit).

    A smaller subset is the beginning of a larger one, and ids that are added or removed move no other.
    InputError `bad_option` for a limit below 1.
    """
    if limit is not None and limit < 1:
        raise InputError(f"a limit is at least 1, not {limit}", code="bad_option")
    return sorted(ids, key=lambda id: (_rank(seed, id), id))[:limit]


def shuffled(options: tuple[str, ...], id: str, seed: int) -> tuple[int, ...]:
    """The order in which a question shows its options, as indices: by seed and id alone, not by the subset."""
    return tuple(sorted(range(len(options)), key=lambda index: _rank(seed, f"{id}#{index}")))


def _rank(seed: int, text: str) -> bytes:
    return hashlib.sha256(f"{seed}/{text}".encode()).digest()
