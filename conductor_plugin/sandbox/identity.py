"""The user that sandboxed code runs as, and how many processes the kernel counts as that user's already.

Root gives each run a uid of its own, which nobody else has. As uid 65534 ("nobody") it would share the count
of processes, inotify's quotas and signals with other sandboxes, and with every service that runs as nobody:
a busy one would use up RLIMIT_NPROC before the code begins.
"""

import os
import re
import secrets
from dataclasses import dataclass
from functools import cache

NOBODY = 65534
FIRST, COUNT = 0x70000000, 2**27
"""A range that no distribution and no container manager hands out."""


@dataclass(frozen=True)
class Identity:
    """`uid` to become (None: stay, we are not root), and `tasks` that the kernel counts besides the run's own."""

    uid: int | None
    tasks: int = 0


def identity(*, own_namespace: bool) -> Identity:
    """For one run. With `own_namespace` it gets a user namespace unless we are root."""
    if os.geteuid() != 0:
        counted_apart = own_namespace and _kernel() >= (5, 14)
        return Identity(None, 0 if counted_apart else _tasks_of(os.geteuid()))
    if _may_be(FIRST + COUNT):
        return Identity(FIRST + secrets.randbelow(COUNT))
    return Identity(NOBODY, _tasks_of(NOBODY))


def _tasks_of(uid: int) -> int:
    """How many processes and threads that user runs on this machine (what RLIMIT_NPROC counts)."""
    count = 0
    for entry in os.scandir("/proc"):
        try:
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                count += len(os.listdir(f"/proc/{entry.name}/task"))
        except OSError:
            continue  # it ended meanwhile
    return count


@cache
def _may_be(uid: int) -> bool:
    """Whether root's own user namespace (a container's, say) has that uid."""
    with open("/proc/self/uid_map") as file:
        ranges = [[int(word) for word in line.split()] for line in file]
    return any(first <= uid < first + count for first, _, count in ranges)


@cache
def _kernel() -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2])
