"""A flow that writes down which GPUs its process may use, and whether the deployment's other variables arrived."""

import json
import os
from pathlib import Path

from prefect import flow


@flow
def sees_gpus(path: str) -> None:
    """Write it to that file."""
    names = ("CUDA_VISIBLE_DEVICES", "PREFECT_FLOWS_HEARTBEAT_FREQUENCY")
    Path(path).write_text(json.dumps([os.environ.get(name) for name in names]))
