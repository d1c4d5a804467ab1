"""The flow of the deployment `conductor-serve-planner/serve-planner-gpu`: a command that runs until it is stopped."""

import subprocess

from prefect import flow

from conductor_plugin.errors import ConductorError

GRACE_SECONDS = 10.0  # from SIGTERM to SIGKILL


@flow(name="conductor-serve-planner")
def conductor_serve_planner(adapter: str, options: tuple[str, ...] = ()) -> None:
    """Serve a trained planner until the flow run is cancelled.

    ConductorError `serve_ended` if the command ends by itself. A flow that is struck by a signal ends it, too.

    Args:
        adapter: The folder of a trained adapter, `model` in a training run's folder.
        options: More of that command's options, one a word: `["--port", "8001"]`.
    """
    process = subprocess.Popen(["conductor", "serve-planner", "--run", adapter, *options])
    try:
        code = process.wait()
    finally:
        stop(process)
    raise ConductorError(
        f"conductor serve-planner ended with exit code {code}; its reason is above", code="serve_ended"
    )


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End the process, if it has not ended: SIGTERM, and after GRACE_SECONDS SIGKILL."""
    process.terminate()
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
