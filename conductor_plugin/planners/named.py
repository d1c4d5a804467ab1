"""The planners of the compared systems, as the command line spells them: NAME, NAME:WORKER or NAME:FOLDER."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec

from conductor_plugin.errors import InputError
from conductor_plugin.planners.base import Planner
from conductor_plugin.planners.consensus import Consensus
from conductor_plugin.planners.context5 import LongContext
from conductor_plugin.planners.default_conductor import ALSO_SHIPPED, default_folder
from conductor_plugin.planners.manifest import FILE
from conductor_plugin.planners.masrouter import MasRouter
from conductor_plugin.planners.moa import MixtureOfAgents
from conductor_plugin.planners.random_plan import RandomPlan
from conductor_plugin.planners.reflection import SelfReflection
from conductor_plugin.planners.routerdc import RouterDC
from conductor_plugin.planners.rules import RuleRouter, load_rules
from conductor_plugin.planners.saved import saved_at
from conductor_plugin.planners.single import SingleWorker
from conductor_plugin.planners.smoothie import SmoothieDependent, SmoothieIndependent
from conductor_plugin.planners.template import TemplatePlanner, load_template
from conductor_plugin.planners.trained_conductor import TrainedConductor
from conductor_plugin.planners.trinity import Trinity
from conductor_plugin.pool import Pool

OF_WORKER: Mapping[str, Callable[..., Planner]] = {
    "single": SingleWorker,
    "context5": LongContext,
    "reflection": SelfReflection,
    "consensus": Consensus,
}
PLAIN: Mapping[str, Callable[[], Planner]] = {"moa": MixtureOfAgents, "random": RandomPlan}
TRAINED: Mapping[str, Callable[..., Planner]] = {
    "smoothie": SmoothieDependent,
    "smoothie-independent": SmoothieIndependent,
    "routerdc": RouterDC,
    "masrouter": MasRouter,
    "trinity": Trinity,
}
CONDUCTOR = "conductor"
# What a trained one needs beyond the core; scikit-learn brings numpy.
NEEDS = {"masrouter": ("sklearn", "torch")}
UNTRAINED_TOO = ("masrouter", "trinity")


def named_planner(pool: Pool, planner: str) -> Planner | None:
    """The planner of that name; None if it is none of these. InputError if what follows its name does not fit."""
    kind, _, name = planner.partition(":")
    if kind == "template":
        load_template(name)
        return TemplatePlanner(template=name)
    if kind == CONDUCTOR:
        own = name and name not in ALSO_SHIPPED
        return conductor_in(name, () if own or pool.planner is None else pool.planner.workers)
    if kind == "rules":
        load_rules(name or "default")
        return RuleRouter(rules=name or "default")
    if kind in OF_WORKER:
        if not name:
            raise InputError(f"{kind} needs a worker; write {kind}:{pool.workers[0].name}, say", code="planner_unknown")
        pool.worker(name)
        return OF_WORKER[kind](worker=name)
    if kind in TRAINED:
        if not name and kind not in UNTRAINED_TOO:
            raise InputError(f"{kind} needs the folder that it was saved in: {kind}:FOLDER", code="planner_unknown")
        return _trained(kind, name) if name else TRAINED[kind]()
    if kind in PLAIN:
        if name:
            raise InputError(f"{kind} takes nothing after its name; write {kind} alone", code="planner_unknown")
        return PLAIN[kind]()
    return None


def conductor_in(folder: str = "", workers: tuple[str, ...] = ()) -> Planner:
    """The trained Conductor in a folder, or of a shipped one's name; without either, the default.

    Its files are checked when it is first asked.
    """
    saved = saved_at(ALSO_SHIPPED.get(folder, folder) or default_folder(), FILE)
    return TrainedConductor(model=saved, name=f"{CONDUCTOR}:{folder}" if folder else CONDUCTOR, workers=workers)


def _trained(kind: str, folder: str) -> Planner:
    missing = [module for module in NEEDS.get(kind, ("sklearn",)) if find_spec(module) is None]
    if missing:
        extras = ",".join({"sklearn": "evaluate", "torch": "local"}[module] for module in missing)
        raise InputError(
            f'{kind} is not installed: run `pip install "prefect-conductor[{extras}]"`', code="extra_missing"
        )
    return TRAINED[kind](model=saved_at(folder))


def spellings() -> str:
    """How the planners are written, for a sentence."""
    optional = [f"{name}[:FOLDER]" for name in (CONDUCTOR, *UNTRAINED_TOO)]
    folders = [f"{name}:FOLDER" for name in TRAINED if name not in UNTRAINED_TOO]
    return ", ".join(["rules", *PLAIN, *(f"{name}:WORKER" for name in OF_WORKER), *folders, *optional])
