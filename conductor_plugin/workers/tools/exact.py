"""The exact value of a formula, within bounds, and how a value is written.

Values are `Fraction`s: nothing is ever rounded unless a rounding is asked for. No result, not even one in
between, has more than `MAX_DIGITS` digits; its size is estimated before it is computed.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from conductor_plugin.workers.tools.trees import MAX_DIGITS, Tree, digits

MAX_BITS = int(MAX_DIGITS * math.log2(10))
MAX_EFFORT = 150 * MAX_BITS
MAX_FACTORIAL = 3_248  # the last with at most MAX_DIGITS digits


class Impossible(Exception):
    """It has no value (1/0, 0^0, a root of a negative), or too large a one."""


class Irrational(Exception):
    """It has a value, but no exact one as a fraction. Letters in the formula count as that."""


def evaluate(tree: Tree) -> Fraction:
    """The value of a formula. Raises `Impossible` or `Irrational`."""
    return _Evaluator().value(tree)


def written(value: Fraction, decimal: bool = False) -> str:
    """`12`, `-3/4`; with `decimal`, `0.75` where the decimals end, else a fraction all the same."""
    if value.denominator == 1:
        return digits(value.numerator)
    places = _places(value.denominator) if decimal else None
    if places is None:
        return f"{digits(value.numerator)}/{digits(value.denominator)}"
    return _with_point(value.numerator * 10**places // value.denominator, places)


def rounded(value: Fraction, places: int) -> str:
    """The value to `places` decimals (negative: to tens, hundreds …), halves away from zero."""
    scaled = abs(value) * Fraction(10) ** places
    whole = math.floor(scaled + Fraction(1, 2)) * (-1 if value < 0 else 1)
    return _with_point(whole, places) if places > 0 else digits(whole * 10**-places)


def root(n: int, degree: int) -> int | None:
    """The exact root of a natural number, or None."""
    if degree == 2:
        candidate = math.isqrt(n)
    elif n < 2 or degree >= n.bit_length():
        candidate = min(n, 1)
    else:
        candidate = 1 << -(-n.bit_length() // degree)
        while (smaller := ((degree - 1) * candidate + n // candidate ** (degree - 1)) // degree) < candidate:
            candidate = smaller
    return candidate if candidate**degree == n else None


class _Evaluator:
    """One evaluation, which spends its effort once over all the steps."""

    def __init__(self) -> None:
        self._effort = MAX_EFFORT

    def value(self, tree: Tree) -> Fraction:
        if isinstance(tree, Fraction):
            return tree
        if isinstance(tree, str):
            raise Irrational(tree)
        if tree.op in ("+", "*"):
            result = self.value(tree.args[0])
            for argument in tree.args[1:]:
                other = self.value(argument)
                result = self._checked(result + other if tree.op == "+" else result * other)
            return result
        function = _FUNCTIONS.get(tree.op)
        if function is None:
            raise Irrational(tree.op)
        return self._checked(function(*(self.value(argument) for argument in tree.args)))

    def _checked(self, value: Fraction) -> Fraction:
        bits = max(value.numerator.bit_length(), value.denominator.bit_length())
        self._effort -= bits
        if bits > MAX_BITS + 1 or self._effort < 0:
            raise Impossible("too large")
        return value


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if base == 0 and exponent <= 0:
        raise Impossible("0 to the power of 0, or division by 0")
    if exponent.denominator > 1:
        base, exponent = _root(base, exponent.denominator), Fraction(exponent.numerator)
    if base in (0, 1, -1):
        return base ** (exponent.numerator % 2) if base else base
    if abs(exponent) > (MAX_BITS + 1) / math.log2(max(abs(base.numerator), base.denominator)):
        raise Impossible("too large")
    return base**exponent.numerator


def _root(value: Fraction, degree: int) -> Fraction:
    if value < 0:
        raise Impossible("the root of a negative number")
    numerator, denominator = root(value.numerator, degree), root(value.denominator, degree)
    if numerator is None or denominator is None:
        raise Irrational("the root is irrational")
    return Fraction(numerator, denominator)


def _cube_root(value: Fraction) -> Fraction:
    return -_root(-value, 3) if value < 0 else _root(value, 3)


def _inverse(value: Fraction) -> Fraction:
    if value == 0:
        raise Impossible("division by 0")
    return 1 / value


def _factorial(value: Fraction) -> Fraction:
    if value.denominator != 1 or not 0 <= value <= MAX_FACTORIAL:
        raise Impossible("no factorial, or too large")
    return Fraction(math.factorial(value.numerator))


def _choose(n: Fraction, k: Fraction) -> Fraction:
    if n.denominator != 1 or k.denominator != 1 or not 0 <= k <= n:
        raise Impossible("not two natural numbers")
    smaller = min(k.numerator, n.numerator - k.numerator)
    if min(n.numerator, smaller * n.numerator.bit_length()) > MAX_BITS:
        raise Impossible("too large")
    return Fraction(math.comb(n.numerator, smaller))


def _difference(first: Fraction, second: Fraction) -> Fraction:
    if first < second:
        raise Impossible("some take the difference between 4 and 10 to be 6, others -6")
    return first - second


_FUNCTIONS: dict[str, Callable[..., Fraction]] = {
    "^": _power,
    "abs": abs,
    "cbrt": _cube_root,
    "choose": _choose,
    "difference": _difference,
    "factorial": _factorial,
    "inv": _inverse,
    "max": max,
    "min": min,
    "neg": lambda value: -value,
    "sqrt": lambda value: _root(value, 2),
}


def _places(denominator: int) -> int | None:
    """How many decimals a fraction with this denominator has; None if they never end."""
    twos = (denominator & -denominator).bit_length() - 1
    rest = denominator >> twos
    fives = 0
    while rest % 5 == 0:
        rest //= 5
        fives += 1
    places = max(twos, fives)
    return places if rest == 1 and places <= MAX_DIGITS else None


def _with_point(scaled: int, places: int) -> str:
    text = digits(abs(scaled)).rjust(places + 1, "0")
    return f"{'-' if scaled < 0 else ''}{text[:-places]}.{text[-places:]}"
