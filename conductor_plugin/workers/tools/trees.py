"""Formulas as trees, and numbers as text."""

from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple, TypeAlias

MAX_DIGITS = 10_000


class Unreadable(Exception):
    """A text that is not understood to the last word, or that has two readings."""


class Node(NamedTuple):
    """An operation: + * ^ neg inv (one divided by), or the name of a function."""

    op: str
    args: tuple["Tree", ...]


Tree: TypeAlias = Fraction | str | Node
"""A number, a letter (or `pi`, `e`), or an operation on trees."""


def names(tree: Tree) -> set[str]:
    """The letters in it; `pi` and `e` are numbers and do not count."""
    return {name for name in _leaves(tree) if isinstance(name, str)} - {"pi", "e"}


def mentions(tree: Tree, name: str) -> bool:
    """Whether a letter or constant occurs in it."""
    return name in _leaves(tree)


def is_number(tree: Tree) -> bool:
    """Whether it is a number as it stands, with nothing to compute."""
    if isinstance(tree, Node):
        return tree.op == "neg" and isinstance(tree.args[0], Fraction)
    return isinstance(tree, Fraction)


def is_in_degrees(tree: Tree) -> bool:
    """sin(30): with a bare number it is unclear whether degrees are meant."""
    if not isinstance(tree, Node):
        return False
    if tree.op in ("sin", "cos", "tan") and not mentions(tree, "pi") and tree.args[0] != 0:
        return True
    return any(is_in_degrees(argument) for argument in tree.args)


def to_json(tree: Tree) -> object:
    """The nested lists that the helper process takes."""
    if isinstance(tree, str):
        return tree
    if isinstance(tree, Fraction):
        return ["num", digits(tree.numerator), digits(tree.denominator)]
    return [tree.op, *(to_json(argument) for argument in tree.args)]


def unparsed(tree: Tree) -> str:
    """A plain way to write it, without spaces, to tell whether a result is only what was asked."""
    if not isinstance(tree, Node):
        return (
            str(tree)
            if isinstance(tree, str)
            else f"{digits(tree.numerator)}/{digits(tree.denominator)}".removesuffix("/1")
        )
    inner = [unparsed(argument) for argument in tree.args]
    if tree.op in ("+", "*", "^"):
        return tree.op.join(inner).replace("+-", "-")
    return f"-{inner[0]}" if tree.op == "neg" else f"{tree.op}({','.join(inner)})"


# Through Decimal, since Python refuses to convert more than 4,300 digits between int and str, and since the
# switch that lifts this limit would lift it for the whole process.
def digits(n: int) -> str:
    """The decimal digits of an int of any size."""
    return format(Decimal(n), "f")


def integer(text: str) -> int:
    """The int that a string of ASCII digits is, of up to MAX_DIGITS. `Unreadable` if it is longer."""
    if len(text) > MAX_DIGITS:
        raise Unreadable("the number is too long")
    return int(Decimal(text))


def _leaves(tree: Tree) -> set[Fraction | str]:
    if isinstance(tree, Node):
        return set().union(*(_leaves(argument) for argument in tree.args))
    return {tree}
