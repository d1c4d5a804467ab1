"""A budget that outlives its process: what was reserved and settled is in the store before and after each call."""

import contextlib
from collections.abc import Iterator
from uuid import uuid4

from conductor_plugin.budget import Budget, Hold
from conductor_plugin.errors import WorkerError
from conductor_plugin.evaluation.store import Store


class Ledger(Budget):
    """The budget of one evaluation over all its starts.

    A process that is killed leaves its calls in flight reserved at their worst case: they may have been billed.
    """

    def __init__(self, cap_usd: float, store: Store, name: str) -> None:
        super().__init__(cap_usd)
        self._store, self._name = store, name
        self.count(sum(record["usd"] for record in store.records_of("paid", name)))

    @contextlib.contextmanager
    def hold(self, worst_usd: float, who: str) -> Iterator[Hold]:
        """As `Budget.hold`; on the record before the call is made."""
        key = uuid4().hex
        with super().hold(worst_usd, who) as held:
            self._write(key, worst_usd)
            try:
                yield held
            except WorkerError as error:
                if not error.maybe_billed:
                    self._write(key, 0.0)
                raise
            if held.cost is not None:
                self._write(key, held.cost)

    def _write(self, key: str, usd: float) -> None:
        self._store.replace("paid", key, {"usd": usd}, worker=self._name)
