"""Where results are kept: asked whether it takes a write before anything is paid for, and heard if it later does not.

Where a result cannot be written, Prefect goes on with it in hand and only logs that. So nothing is called twice
within a run; but a retried or resumed run would pay again, and `conductor show` finds nothing: that must be said.
"""

import sys
import tempfile
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from prefect.client.schemas.objects import State
from prefect.context import TaskRunContext
from prefect.filesystems import LocalFileSystem
from prefect.results import get_result_store
from prefect.settings import PREFECT_HOME
from prefect.transactions import Transaction

from conductor_plugin.errors import InputError
from conductor_plugin.home import reason_of
from conductor_plugin.receipt import Answer

# Who hears of results that could not be kept in this process (the CLI's screen).
UNKEPT: ContextVar[Callable[[str], None] | None] = ContextVar("unkept", default=None)

# A disk with less space than this is full: the step that finds out is paid for already.
_PROBE_BYTES = 2**20
_PROBE_KEY = "conductor-write-check"


def check_prefect_home() -> None:
    """InputError `prefect_home_unusable` if Prefect cannot keep its files: its server would take a minute to fail."""
    home = PREFECT_HOME.value()
    try:
        _take_a_write(home)
    except OSError as error:
        raise InputError(
            f"Prefect cannot keep its files in {home}: {reason_of(error)}; set PREFECT_HOME to a directory that you "
            "may write to",
            code="prefect_home_unusable",
        ) from None


async def check_storage() -> None:
    """InputError `storage_unusable` unless the result storage of the flow that is running takes a write."""
    store = get_result_store()
    try:
        if isinstance(store.result_storage, LocalFileSystem):
            _take_a_write(_directory(store.result_storage))
        else:  # the same object each time: a block need not know how to delete
            await store.awrite(None, key=_PROBE_KEY)
    except Exception as error:  # any block may stand there, and fail as it likes
        raise InputError(
            f"nothing was started, since results could not be kept in {_name(store.result_storage)}: "
            f"{reason_of(error)}; make room there, or name another place in PREFECT_RESULTS_LOCAL_STORAGE_PATH or "
            "PREFECT_RESULTS_DEFAULT_STORAGE_BLOCK",
            code="storage_unusable",
        ) from None


async def tell_unkept_task(transaction: Transaction) -> None:
    """Rollback hook of a task: Prefect calls it where the result of a task that succeeded could not be written."""
    context, error = TaskRunContext.get(), sys.exc_info()[1]
    name = context.task_run.name if context else "a task"
    place = _name(getattr(transaction.store, "result_storage", None))
    reason = f": {reason_of(error)}" if isinstance(error, Exception) else ""
    sentence = (
        f"the result of {name} could not be kept in {place}{reason}; this run goes on with it, but a retry of the "
        "run would pay for it again"
    )
    transaction.logger.warning(sentence)
    _tell(sentence)


def tell_unkept_run(state: State[Any]) -> None:
    """Say so if the receipt of a flow run that just ended in this process was not written."""
    record: Any = state.data  # Prefect's ResultRecord
    if isinstance(getattr(record, "result", None), Answer) and not record.is_persisted:
        _tell("the receipt of this run could not be kept: `conductor show` will not find it")


def _tell(sentence: str) -> None:
    if tell := UNKEPT.get():
        tell(sentence)


def _take_a_write(directory: Path) -> None:
    """OSError unless the directory is there, or can be made, and takes a file of some size."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=directory) as probe:  # permission bits do not tell of a read-only file system
        probe.write(bytes(_PROBE_BYTES))


def _directory(storage: LocalFileSystem) -> Path:
    return Path(storage.basepath or ".").expanduser()


def _name(storage: Any) -> str:
    """The storage as its owner knows it."""
    if isinstance(storage, LocalFileSystem):
        return str(_directory(storage))
    return f"the block {getattr(storage, '_block_document_name', None) or type(storage).__name__}"
