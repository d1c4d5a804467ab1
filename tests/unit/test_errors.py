"""Every error is picklable with all it carries, has its place in the family, and the exit code of the contract."""

import copy
import inspect
import pickle

import pytest

from conductor_plugin import errors
from conductor_plugin.errors import ConductorError, PlanError, WorkerError

EVERY = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, ConductorError)]
FAMILY = {
    "ConductorError": ("Exception", 1),
    "InputError": ("ConductorError", 2),
    "PlanError": ("InputError", 2),
    "PoolError": ("InputError", 2),
    "NoPlanError": ("ConductorError", 4),
    "BudgetError": ("ConductorError", 3),
    "LabelError": ("ConductorError", 3),
    "WorkerError": ("ConductorError", 1),
    "TransientError": ("WorkerError", 1),
    "WorkerTimeout": ("TransientError", 1),
    "PermanentError": ("WorkerError", 1),
    "QuotaError": ("PermanentError", 1),
    "ContextTooLongError": ("PermanentError", 1),
    "ContentPolicyError": ("PermanentError", 1),
}


def make(cls: type[ConductorError]) -> ConductorError:
    """An error of the class whose every argument has a value of its own."""
    values = {"code": "a_code", "list_name": "subtasks", "index": 3, "retry_after_s": 1.5, "maybe_billed": True}
    taken = {name: values[name] for name in inspect.signature(cls).parameters if name != "message"}
    error = cls("What to do: “this”.", **taken)
    assert vars(error).items() >= taken.items()
    if isinstance(error, WorkerError):
        error.attempts = 4
    return error


def test_the_family_is_complete() -> None:
    assert {cls.__name__: (cls.__bases__[0].__name__, cls.exit_code) for cls in EVERY} == FAMILY


@pytest.mark.parametrize("cls", EVERY)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling(cls: type[ConductorError], protocol: int) -> None:
    error = make(cls)
    for again in (pickle.loads(pickle.dumps(error, protocol)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is cls
        assert (str(again), vars(again)) == (str(error), vars(error))


@pytest.mark.parametrize("cls", EVERY)
def test_a_sentence_is_enough(cls: type[ConductorError]) -> None:
    error = cls("Something is wrong.")
    assert str(error) == "Something is wrong."
    assert error.code == ("worker_failed" if issubclass(cls, WorkerError) else "error")


def test_where_a_plan_is_wrong() -> None:
    error = PlanError("subtasks[2] is 7", code="bad_subtask", list_name="subtasks", index=2)
    assert (error.code, error.list_name, error.index) == ("bad_subtask", "subtasks", 2)
    assert (PlanError("no").list_name, PlanError("no").index) == (None, None)


def test_what_a_worker_error_tells() -> None:
    error = WorkerError("no")
    assert (error.retry_after_s, error.maybe_billed, error.attempts) == (None, False, 1)
