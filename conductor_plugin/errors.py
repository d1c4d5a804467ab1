"""Every error of this package: one clear sentence, a stable `code`, and the CLI's exit code.

    ConductorError                 1
      InputError                   2   a plan, pool, template, prompt or option is wrong
        PlanError                  2   the three lists are missing or break a rule
        PoolError                  2   the pool file is unreadable or breaks a rule
      NoPlanError                  4   the planner gave no valid plan
      BudgetError                  3   the next call could break the budget, or a bill did
      LabelError                   3   somebody would be shown more than their clearance allows
      WorkerError                  1   a step's worker failed
        TransientError                 worth another attempt: rate limit, 5xx, lost connection
          WorkerTimeout                took longer than the worker's `timeout_seconds`
        PermanentError                 another attempt cannot help: wrong key, bad request
          QuotaError                   the account's quota is used up
          ContextTooLongError          the messages do not fit the model's context
          ContentPolicyError           the provider refused on policy grounds

All of them survive pickling, so that they cross process boundaries and Prefect's result storage.
"""


class ConductorError(Exception):
    """Base of all errors raised on purpose. `str(error)` is the sentence shown to a person."""

    exit_code = 1

    # Arguments other than the sentence have defaults: unpickling calls the class with `args` alone and
    # restores the rest from `__dict__`.
    def __init__(self, message: str, *, code: str = "error") -> None:
        # Neither a NUL nor half a surrogate pair is text: databases refuse them.
        super().__init__(message.replace("\0", "").encode("utf-8", "replace").decode())
        self.code = code


class InputError(ConductorError):
    """Something that a person wrote is wrong, and the sentence says what to change."""

    exit_code = 2


class PlanError(InputError):
    """The completion holds no valid plan.

    `code` is one of missing_list, not_literal, too_long, too_many_steps, length_mismatch, bad_model_id,
    bad_access, bad_subtask, empty_plan; `list_name` and `index` say which list and which entry.
    """

    def __init__(
        self, message: str, *, code: str = "error", list_name: str | None = None, index: int | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.list_name = list_name
        self.index = index


class PoolError(InputError):
    """The pool file cannot be read or breaks a rule of its format."""


class NoPlanError(ConductorError):
    """The planner was asked as often as allowed and never gave a valid plan."""

    exit_code = 4


class BudgetError(ConductorError):
    """The budget does not allow the next call, or a provider billed more than the worst case."""

    exit_code = 3


class LabelError(ConductorError):
    """A worker, planner or server would be shown text above its clearance."""

    exit_code = 3


class WorkerError(ConductorError):
    """A worker failed.

    `retry_after_s` is the provider's own word, in seconds. `maybe_billed` says that the provider may charge
    for the failed call all the same, so that its cost is unknown. `attempts` counts the step's calls so far.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "worker_failed",
        retry_after_s: float | None = None,
        maybe_billed: bool = False,
    ) -> None:
        super().__init__(message, code=code)
        self.retry_after_s = retry_after_s
        self.maybe_billed = maybe_billed
        self.attempts = 1


class TransientError(WorkerError):
    """Another attempt may succeed."""


class WorkerTimeout(TransientError):
    """The worker took longer than its `timeout_seconds`."""


class PermanentError(WorkerError):
    """Another attempt with the same input cannot succeed."""


class QuotaError(PermanentError):
    """The account's quota is used up."""


class ContextTooLongError(PermanentError):
    """The messages do not fit into the model's context."""


class ContentPolicyError(PermanentError):
    """The provider refused the request on policy grounds."""
