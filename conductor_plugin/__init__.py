"""prefect-conductor: a small language model orchestrates many models and tools, as Prefect flows.

Names are imported when they are first used, so that `import conductor_plugin` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conductor_plugin.context import WorkerReply as WorkerReply
    from conductor_plugin.context import WorkerRequest as WorkerRequest
    from conductor_plugin.errors import ConductorError as ConductorError
    from conductor_plugin.errors import PlanError as PlanError
    from conductor_plugin.errors import PoolError as PoolError
    from conductor_plugin.errors import WorkerError as WorkerError
    from conductor_plugin.graph import compile_plan as compile_plan
    from conductor_plugin.graph import compile_steps as compile_steps
    from conductor_plugin.on_prefect.blocks import ConductorPool as ConductorPool
    from conductor_plugin.on_prefect.flow import conductor as conductor
    from conductor_plugin.on_prefect.history import whole_history as whole_history
    from conductor_plugin.plan import Plan as Plan
    from conductor_plugin.plan import PlanRules as PlanRules
    from conductor_plugin.plan import parse_plan as parse_plan
    from conductor_plugin.plan import render_plan as render_plan
    from conductor_plugin.planners import make_planner as make_planner
    from conductor_plugin.pool import Pool as Pool
    from conductor_plugin.pool import load_pool as load_pool
    from conductor_plugin.receipt import Answer as Answer
    from conductor_plugin.run import run_graph as run_graph

_HOME = {
    "Answer": "receipt",
    "ConductorError": "errors",
    "ConductorPool": "on_prefect.blocks",
    "Plan": "plan",
    "PlanError": "errors",
    "PlanRules": "plan",
    "Pool": "pool",
    "PoolError": "errors",
    "WorkerError": "errors",
    "WorkerReply": "context",
    "WorkerRequest": "context",
    "compile_plan": "graph",
    "compile_steps": "graph",
    "conductor": "on_prefect.flow",
    "load_pool": "pool",
    "make_planner": "planners",
    "parse_plan": "plan",
    "render_plan": "plan",
    "run_graph": "run",
    "whole_history": "on_prefect.history",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
