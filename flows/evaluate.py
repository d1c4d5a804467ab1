"""The flow that the deployment `conductor-evaluate/evaluate` points at."""

from conductor_plugin.on_prefect.evaluate import conductor_evaluate

__all__ = ["conductor_evaluate"]
