"""`conductor show`: the receipt of a finished run, from Prefect's result storage."""

import asyncio
from typing import Any
from uuid import UUID

import click

from conductor_plugin.cli.options import json_option, quiet_prefect
from conductor_plugin.errors import ConductorError, InputError


@click.command()
@click.argument("flow_run_id")
@json_option
def show(flow_run_id: str, as_json: bool) -> int:
    """Print the receipt of the finished run FLOW_RUN_ID."""
    from conductor_plugin.cli.screen import as_json as as_json_line
    from conductor_plugin.cli.screen import print_answer

    try:
        run_id = UUID(flow_run_id)
    except ValueError:
        raise InputError(
            f"{flow_run_id!r} is no flow run id; it looks like 0193f1c2-8a5e-7c41-9d0e-3b2f6a7c8d9e", code="bad_run_id"
        ) from None
    quiet_prefect()
    from conductor_plugin.on_prefect.history import embedded_server

    with embedded_server():
        answer = asyncio.run(_load(run_id))
    if as_json:
        print(as_json_line(answer.to_json()))
    else:
        print_answer(answer)
    return 0


async def _load(run_id: UUID) -> Any:
    from prefect.client.orchestration import get_client
    from prefect.exceptions import MissingResult, ObjectNotFound

    from conductor_plugin.on_prefect.seal import whole_answer
    from conductor_plugin.receipt import Answer

    async with get_client() as client:
        try:
            run = await client.read_flow_run(run_id)
        except ObjectNotFound:
            raise InputError(f"Prefect's server knows no flow run {run_id}", code="run_unknown") from None
        if run.state is None or not run.state.is_final():
            name = run.state.name if run.state else "no state"
            raise ConductorError(f"the run {run_id} has not finished; it is {name}", code="run_unfinished")
        try:
            state: Any = run.state
            result = await state.result(raise_on_failure=False)
        except (MissingResult, ValueError, OSError) as error:
            raise ConductorError(
                f"the result of run {run_id} is not in this machine's result storage: {error}", code="result_missing"
            ) from None
    if not isinstance(result, Answer):
        reason = f"; it ended as {run.state.name}: {run.state.message}" if run.state.message else ""
        raise ConductorError(f"the run {run_id} has no receipt{reason}", code="no_receipt")
    return await whole_answer(result)
