"""A hard cap on what a question may cost: reserve the worst case before a call, settle it after.

The worst case counts every UTF-8 byte of the messages as a token (no tokenizer makes more of it), the
model's `max_tokens`, and the price. What cannot be settled, because the call timed out or the provider
sent no usage, stays reserved: it may have been billed.
"""

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar

from conductor_plugin.context import Message, WorkerReply
from conductor_plugin.errors import BudgetError, InputError, WorkerError
from conductor_plugin.worker_spec import LLM, Price

# What chat templates add around the texts, in tokens: once, and for each message.
TEMPLATE_TOKENS, MESSAGE_TOKENS = 64, 16
_ROUNDING = 1e-12

# The budget of the question that is being answered, shared by its planner and all its steps.
BUDGET: ContextVar["Budget | None"] = ContextVar("budget", default=None)


class Budget:
    """USD of one question: `spent` is settled or may have been billed, `reserved` is in flight."""

    def __init__(self, cap_usd: float) -> None:
        self.cap = cap_usd
        self.spent = 0.0
        self.reserved = 0.0

    def count(self, usd: float) -> None:
        """Take in what was spent before: by an earlier start of the run, or an earlier answer of the batch."""
        self.spent += usd

    @contextlib.contextmanager
    def hold(self, worst_usd: float, who: str) -> Iterator["Hold"]:
        """Reserve the worst case for one call; BudgetError if the cap does not allow it.

        Settles what `Hold.cost` says when the block ends, or the whole reservation where that is unknown.
        """
        if self.spent + self.reserved + worst_usd > self.cap + _ROUNDING:
            raise BudgetError(
                f"{who} may cost {worst_usd:.6f} USD, but of the budget of {self.cap:g} USD only "
                f"{max(self.cap - self.spent - self.reserved, 0):.6f} are left",
                code="budget",
            )
        self.reserved += worst_usd
        held = Hold()
        try:
            yield held
        except WorkerError as error:
            held.cost = None if error.maybe_billed else 0.0
            raise
        finally:
            self.reserved -= worst_usd
            self.spent += worst_usd if held.cost is None else held.cost
        if held.cost is not None and held.cost > worst_usd + _ROUNDING:
            raise BudgetError(
                f"{who} was billed {held.cost:.6f} USD, more than its worst case of {worst_usd:.6f} USD; its price or "
                "max_tokens in the pool file is not what the provider charges",
                code="billed_beyond",
            )


class Hold:
    """One reservation; `cost` is what the call came to in USD, None while that is unknown."""

    def __init__(self) -> None:
        self.cost: float | None = None

    def settle(self, reply: WorkerReply) -> None:
        """Take the reply's cost, where it is known."""
        self.cost = reply.cost_usd


def worst_case(llm: LLM, price: Price | None, messages: Sequence[Message]) -> float:
    """The most that a call can cost, in USD. InputError `unknown_price` or `no_max_tokens` if nobody can say."""
    prompt = TEMPLATE_TOKENS + sum(MESSAGE_TOKENS + len(message.content.encode()) for message in messages)
    return (prompt * known(llm, price).input + most_tokens(llm) * known(llm, price).output) / 1e6


def known(llm: LLM, price: Price | None) -> Price:
    """The price, if there is one. InputError `unknown_price` names the model."""
    if price is None:
        raise InputError(
            f"the price of {llm.model} is unknown, so that no budget can be kept; give it in the pool file: "
            "price: {input: …, output: …} in USD per million tokens",
            code="unknown_price",
        )
    return price


def most_tokens(llm: LLM) -> int:
    """The `max_tokens` of a call. InputError `no_max_tokens` if the pool file sets none."""
    for name in ("max_completion_tokens", "max_tokens"):
        value = llm.params.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    raise InputError(
        f"{llm.model} has no max_tokens, so that no budget can be kept; give it in the pool file: "
        "params: {max_tokens: 4096}",
        code="no_max_tokens",
    )
