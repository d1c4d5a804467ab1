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
from conductor_plugin.worker_spec import LLM, Grammar, PlannerSpec
from conductor_plugin.workers.llm import llm_of

DEFAULT_TEMPLATE = "solve"


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
    if "/" in planner:
        return _prompted(blind, few_shot, *_reached(pool, planner))
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
    return _prompted(blind, few_shot, _llm(spec), spec.clearance, spec.grammar)


def _prompted(
    blind: bool, few_shot: str, llm: LLM, clearance: str | None = None, grammar: Grammar | None = None
) -> Planner:
    if few_shot != "none":
        load_few_shot(few_shot)
    return PromptedPlanner(llm=llm, clearance=clearance, blind=blind, few_shot=few_shot, grammar=grammar)


def _reached(pool: Pool, model: str) -> tuple[LLM, str | None, Grammar | None]:
    """How to reach a model named on the command line, its clearance, its grammar: as the pool file has them, if so."""
    if pool.planner and pool.planner.model == model:
        return _llm(pool.planner), pool.planner.clearance, pool.planner.grammar
    for worker in pool.workers:
        if worker.model == model:
            return llm_of(worker), worker.clearance, None
    return LLM(model=model), None, None


def _llm(spec: PlannerSpec) -> LLM:
    assert spec.model is not None
    return LLM(
        model=spec.model, api_base=spec.api_base, api_key_env=spec.api_key_env, params=spec.params, price=spec.price
    )


def check_planner_key(planner: Planner) -> None:
    """PoolError `pool_missing_env` if the planner's `api_key_env` names a variable that is not set."""
    name = planner.llm.api_key_env if isinstance(planner, PromptedPlanner) else None
    if name and not name.startswith("secret/") and not os.environ.get(name):
        raise PoolError(
            f"the planner {planner.name} needs the environment variable {name}, which is not set; export it",
            code="pool_missing_env",
        )
