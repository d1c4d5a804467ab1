"""Can a budget be kept with this pool and planner, and does the price map still know its models?"""

from conductor_plugin.budget import known, most_tokens
from conductor_plugin.errors import InputError
from conductor_plugin.llm import price_map_entry, price_of
from conductor_plugin.models import Frozen
from conductor_plugin.planners.base import Planner
from conductor_plugin.pool import Pool
from conductor_plugin.worker_spec import LLM
from conductor_plugin.workers.llm import llm_of


def check_priced(pool: Pool, planner: Planner) -> None:
    """InputError naming the worker or planner whose price or `max_tokens` is unknown, or whose cost nobody bounds."""
    models: list[tuple[str, LLM]] = []
    for worker in pool.workers:
        if worker.kind == "llm":
            models.append((f"worker {worker.name!r}", llm_of(worker)))
        elif ":" in worker.kind:
            raise InputError(
                f"worker {worker.name!r} is code of your own, whose cost nobody can bound; leave it out with "
                f"--exclude {worker.name}, or set no budget",
                code="unknown_price",
            )
    if isinstance(llm := getattr(planner, "llm", None), LLM):
        models.append((f"the planner {planner.name}", llm))
    for who, llm in models:
        try:
            known(llm, price_of(llm))
            most_tokens(llm)
        except InputError as error:
            raise InputError(f"{who}: {error}", code=error.code) from None


class Listing(Frozen):
    """What litellm's price map has of one model; `retires` is the day that it gives, if it gives one."""

    who: str
    model: str
    known: bool
    retires: str | None = None


def listings(pool: Pool) -> list[Listing]:
    """Each model that a provider serves, looked up in the price map, whatever price the pool file gives.

    An endpoint of your own (`api_base`) serves under names that are its own: those are not looked up.
    """
    asked = [(worker.name, worker.model, worker.api_base) for worker in pool.workers]
    if pool.planner:
        asked.append(("the planner", pool.planner.model, pool.planner.api_base))
    return [_listing(who, model) for who, model, api_base in asked if model and not api_base]


def _listing(who: str, model: str) -> Listing:
    entry = price_map_entry(model)
    return Listing(who=who, model=model, known=entry is not None, retires=(entry or {}).get("deprecation_date"))
