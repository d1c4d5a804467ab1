"""The temporary server of a machine that has none: it is what `embedded_server` says, not what Prefect's default is."""

import subprocess
import sys

import pytest

from tests.prefect.test_main_job import environment

pytestmark = pytest.mark.prefect

# What the server process was started with, as the kernel has it.
REPORT = """
import subprocess
from conductor_plugin.on_prefect.history import embedded_server

with embedded_server():
    found = subprocess.run(["pgrep", "-f", "prefect.server.api.server", "-g", "0"], capture_output=True, text=True)
    for process in found.stdout.split():
        with open(f"/proc/{process}/environ") as variables:
            print(*variables.read().split("\\0"), sep="\\n")
"""


def test_the_server_process_has_the_settings(tmp_path):
    """It is started from a thread, whose context would have none of them."""
    home = environment(tmp_path)
    told = subprocess.run(
        [sys.executable, "-c", REPORT], env=home, capture_output=True, text=True, timeout=200, start_new_session=True
    )
    assert told.returncode == 0, told.stderr
    server = set(told.stdout.split("\n"))
    assert {
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE=100",
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE=100",
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL=1.0",
        "PREFECT_SERVER_ANALYTICS_ENABLED=False",
    } <= server, told.stdout
