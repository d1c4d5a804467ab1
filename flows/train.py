"""The flows that the deployments `conductor-train/train` and `conductor-retrain/retrain` point at."""

from training.flow import conductor_retrain, conductor_train

__all__ = ["conductor_retrain", "conductor_train"]
