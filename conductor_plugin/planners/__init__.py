"""Planners: one file each. `make_planner` turns what a person wrote into one."""

import os

from conductor_plugin.errors import InputError, PoolError
from conductor_plugin.planners.base import Planner
from conductor_plugin.planners.given import GivenPlan
from conductor_plugin.planners.named import CONDUCTOR, conductor_in, named_planner, spellings
from conductor_plugin.planners.prompt import load_few_shot
from conductor_plugin.planners.prompted import PromptedPlanner
from conductor_plugin.planners.template import TemplatePlanner, load_template
from conductor_plugin.pool import Pool
from conductor_plugin.worker_spec import LLM, PlannerSpec

DEFAULT_TEMPLATE = "solve"
REACHED = {"model", "api_base", "api_key_env", "params", "price", "clearance"}


def make_planner(
    pool: Pool, planner: str | None = None, *, plan: str | None = None, blind: bool = False, few_shot: str = "default"
) -> Planner:
    """The planner for a question.

    `plan` is a completion to run as it is. `planner` is `template:NAME`, one of the compared systems (see `named`),
    or any litellm model string. With neither, the pool's own `planner:`, else the template `solve`. InputError says
    what to write instead.
    """
    if plan is not None:
        if planner is not None:
            raise InputError("give either --plan or --planner, not both", code="bad_option")
        return GivenPlan(completion=plan)
    if planner is None:
        return _from_spec(pool, blind, few_shot)
    if (found := named_planner(pool, planner)) is not None:
        return found
    if "/" in planner and planner.rpartition("/")[2].strip():
        return _prompted(blind, few_shot, _reached(pool, planner))
    raise InputError(
        f"there is no planner {planner!r}; write template:NAME (template:solve, say), a litellm model string "
        f"with its provider (openai/gpt-5-mini, say), or one of the compared systems: {spellings()}",
        code="planner_unknown",
    )


def _from_spec(pool: Pool, blind: bool, few_shot: str) -> Planner:
    spec = pool.planner or PlannerSpec(kind="template", name=DEFAULT_TEMPLATE)
    if spec.kind == "template" and spec.name:
        load_template(spec.name)
        return TemplatePlanner(template=spec.name)
    if spec.kind == CONDUCTOR:
        return conductor_in(spec.name or "", spec.workers)
    return _prompted(blind, few_shot, spec)


def _prompted(blind: bool, few_shot: str, spec: PlannerSpec) -> Planner:
    assert spec.model is not None
    if few_shot != "none":
        load_few_shot(few_shot)
    llm = LLM(
        model=spec.model, api_base=spec.api_base, api_key_env=spec.api_key_env, params=spec.params, price=spec.price
    )
    return PromptedPlanner(
        llm=llm, clearance=spec.clearance, blind=blind, few_shot=few_shot, grammar=spec.grammar, **spec.patience
    )


def _reached(pool: Pool, model: str) -> PlannerSpec:
    """How to reach a model named on the command line: as the pool file says, of its planner or a worker, if it does."""
    if pool.planner and pool.planner.model == model:
        return pool.planner
    worker = next((worker for worker in pool.workers if worker.model == model), None)
    known = worker.model_dump(include=REACHED) if worker else {"model": model}
    return PlannerSpec(kind="prompted", **known)


def check_planner_key(planner: Planner) -> None:
    """PoolError `pool_missing_env` if the planner's `api_key_env` names a variable that is not set."""
    name = planner.llm.api_key_env if isinstance(planner, PromptedPlanner) else None
    if name and not name.startswith("secret/") and not os.environ.get(name):
        raise PoolError(
            f"the planner {planner.name} needs the environment variable {name}, which is not set; export it",
            code="pool_missing_env",
        )
