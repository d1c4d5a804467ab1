"""The planner `template:NAME`: fixed plans from YAML files, mapped onto whatever pool is there.

describe: one line for people
steps:
  - worker: 0          # a position in the pool; positions wrap around in a smaller pool
    subtask: Solve it. # "" is the bare question
    access: []         # [], all, or a list of earlier steps of this file
  - worker: each       # one step for every worker (must come before steps that list numbers)
  - worker: kind:text  # the first worker of a kind; `tag:NAME` and `name:NAME` likewise
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from conductor_plugin.errors import InputError
from conductor_plugin.models import Frozen
from conductor_plugin.plan import Plan, render_plan
from conductor_plugin.planners.base import PlanRequest, Proposal, read_completion
from conductor_plugin.planners.choosing import find_worker
from conductor_plugin.planners.files import load_named, names_in
from conductor_plugin.pool import Pool

TEMPLATES = Path(__file__).parent.parent / "templates"


class TemplateStep(Frozen):
    """One entry of `steps:`."""

    worker: int | str
    subtask: str = ""
    access: Literal["all"] | tuple[Annotated[int, Field(ge=0)], ...] = ()


class Template(Frozen):
    """A template file's content."""

    describe: str = ""
    steps: tuple[TemplateStep, ...] = Field(min_length=1)


class TemplatePlanner(Frozen):
    """A template by name (`solve`) or by path (`./mine.yaml`)."""

    template: str
    tries: int = 1

    @property
    def name(self) -> str:
        """As the CLI spells it."""
        return f"template:{self.template}"

    async def propose(self, request: PlanRequest) -> Proposal:
        """The template's plan on the request's pool. InputError if the pool lacks a worker that it names.

        `max_steps` bounds what a model writes; a template has as many steps as its file says.
        """
        plan = fill(load_template(self.template), request.pool, self.name)
        steps = max(request.rules.max_steps, len(plan.model_id))
        proposal = read_completion(render_plan(plan), request.rules.model_copy(update={"max_steps": steps}))
        if proposal.fault:
            raise InputError(f"{self.name} does not fit: {proposal.fault.message}", code=proposal.fault.code)
        return proposal


def template_names() -> list[str]:
    """The templates that come with the package."""
    return names_in(TEMPLATES)


def load_template(name: str) -> Template:
    """Read a template by name, or by path where the name ends in .yaml. InputError says what is wrong."""
    return load_named(Template, name, TEMPLATES, word="template", there_is_no="there is no template")


def fill(template: Template, pool: Pool, name: str) -> Plan:
    """Map the template's steps onto the pool's ids; a step that several steps came of is seen as all of them."""
    lists: dict[str, list[Any]] = {"model_id": [], "subtasks": [], "access_list": []}
    became: list[list[int]] = []
    for step in template.steps:
        access: Any = step.access
        if access != "all":
            try:
                access = tuple(i for earlier in access for i in became[earlier])
            except IndexError:
                raise InputError(
                    f"{name}: step {len(became)} of the file sees {list(step.access)}, but only earlier steps "
                    f"can be seen",
                    code="bad_access",
                ) from None
        workers = _workers(step, pool, name)
        became.append([len(lists["model_id"]) + i for i in range(len(workers))])
        lists["model_id"] += workers
        lists["subtasks"] += [step.subtask] * len(workers)
        lists["access_list"] += [access] * len(workers)
    return Plan.model_validate({key: tuple(values) for key, values in lists.items()})


def _workers(step: TemplateStep, pool: Pool, name: str) -> list[int]:
    if isinstance(step.worker, int):
        return [step.worker % len(pool.workers)]
    if step.worker == "each":
        return list(range(len(pool.workers)))
    if (found := find_worker(pool, step.worker)) is not None:
        return [found]
    raise InputError(
        f"{name} needs a worker with {step.worker!r}, which the pool does not have "
        f"(write a position, each, kind:KIND, tag:TAG or name:NAME); use another pool or --planner template:solve",
        code="template_no_worker",
    )
