"""The flow that the deployment `conductor/answer` points at."""

from conductor_plugin.on_prefect.flow import conductor

__all__ = ["conductor"]
