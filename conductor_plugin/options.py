"""What can be set for an answer, checked before anything starts: shared by the flows and the command line."""

from typing import Annotated, Literal

from pydantic import Field

from conductor_plugin.labels import label_of
from conductor_plugin.models import Frozen
from conductor_plugin.plan import PlanRules, parse_plan
from conductor_plugin.planners import check_planner_key, make_planner
from conductor_plugin.planners.base import Planner
from conductor_plugin.pool import Pool
from conductor_plugin.pricing import check_priced

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
AtLeastOne = Annotated[int, Field(ge=1)]
AtLeastZero = Annotated[int, Field(ge=0)]
Reuse = Literal["run", "always", "never"]


class AnswerOptions(Frozen):
    """The options of `conductor answer` but the question and the pool; see the flow `conductor` for each."""

    planner: str | None = None
    plan: str | None = None
    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    blind: bool = False
    few_shot: str = "default"
    max_steps: AtLeastOne = 5
    max_rounds: AtLeastZero = 0
    run_all: bool = False
    label: str | None = None
    budget_usd: Positive | None = None
    deadline_s: Positive | None = None
    reuse: Reuse = "run"
    approve: bool = False


def prepare(pool: Pool, options: AnswerOptions) -> tuple[Pool, Planner]:
    """The workers that may be used, and the planner.

    InputError for whatever can be seen to be wrong without asking anyone: names, the plan, keys, prices.
    """
    members = pool.subset(options.only, options.exclude)
    planner = make_planner(members, options.planner, plan=options.plan, blind=options.blind, few_shot=options.few_shot)
    if options.plan is not None:
        conductor = options.max_rounds > 0
        parse_plan(
            options.plan, PlanRules(workers=len(members.workers), max_steps=options.max_steps, conductor=conductor)
        )
    label_of(members, options.label)
    members.check_keys()
    check_planner_key(planner)
    if options.budget_usd is not None:
        check_priced(members, planner)
    return members, planner
