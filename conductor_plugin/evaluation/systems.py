"""The systems that are compared, as the command line spells them."""

from collections.abc import Sequence

from conductor_plugin.errors import ConductorError, InputError
from conductor_plugin.evaluation.evaluate import System
from conductor_plugin.planners import check_planner_key, make_planner
from conductor_plugin.planners.template import fill, load_template, template_names
from conductor_plugin.pool import Pool

ALL = "all"
# Whose answers have a text of some length: asking the others five times, or to reflect, changes nothing.
TALKERS = ("llm", "local")


def make_systems(pool: Pool, names: Sequence[str], *, blind: bool = False, max_steps: int = 5) -> list[System]:
    """The systems of those names. InputError for one that there is not, or that does not fit the pool.

    A name is `all`, `planner` for the pool's own, or anything that `--planner` takes. `all` are those that need no
    training and no key beyond the pool's.
    """
    chosen: dict[str, System] = {}
    for name in names:
        for one in _all(pool) if name == ALL else [name]:
            planner = make_planner(pool, None if one == "planner" else one, blind=blind)
            check_planner_key(planner)
            shown = f"{planner.name} (blind)" if blind and one == "planner" else planner.name
            chosen[shown] = System(shown, planner, pool, max_steps=max_steps)
    if not chosen:
        raise InputError("name a system: all, planner, single:WORKER, moa, …", code="bad_option")
    return list(chosen.values())


def _all(pool: Pool) -> list[str]:
    workers = [worker.name for worker in pool.workers]
    talkers = [worker.name for worker in pool.workers if worker.kind in TALKERS]
    several = [f"{kind}:{name}" for kind in ("context5", "reflection", "consensus") for name in talkers]
    templates = [f"template:{name}" for name in template_names() if _fits(pool, name)]
    own = ["planner"] if pool.planner and pool.planner.kind != "template" else []
    untrained = ["moa", "rules", "random", "masrouter", "trinity"]
    return [*(f"single:{name}" for name in workers), *several, *untrained, *templates, *own]


def _fits(pool: Pool, name: str) -> bool:
    """Whether the pool has the workers that a template names."""
    try:
        fill(load_template(name), pool, name)
    except ConductorError:
        return False
    return True
