"""Whether two formulas have the same value: exactly where both are fractions, else with 60 digits.

Variables get numbers of either sign: formulas that agree at a few such points are the same formula. Nothing here
simplifies, so that nothing here takes long; what would is `OutOfReach`.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from conductor_plugin.grading.formula import Tree, Unreadable, names, read

DIGITS = 60
TOLERANCE_DIGITS = 40
MIN_DECIMALS = 6
"""A decimal with so many digits after its point (and zeros) may stand for a number that has no finite decimal."""
MAX_FRACTION_BITS = 200_000
_POINTS = (("0.7310585786300048792511592418", 1), ("1.3862943611198906188344642429", 1), ("0.5931471805599453094", -1))
_DECIMAL = re.compile(r"-?(?:\d+\.\d*|\.\d+)")


class OutOfReach(Exception):
    """A number so large that no computer can compare it in bounded time, a tower of powers say."""


def same_value(gold: str, answer: str, *, factor: bool = False) -> bool:
    """Whether two formulas are equal; with `factor`, whether they differ by a constant factor only.

    Unreadable if one of them is no formula or has no value; OutOfReach if its value is too large to be had.
    """
    trees = read(gold), read(answer)
    if not factor:
        fractions = [_fraction(tree) for tree in trees]
        if None not in fractions:
            return fractions[0] == fractions[1] or _rounded(gold, answer)
    ours, theirs = names(trees[0]), names(trees[1])
    if ours != theirs and not factor:
        # x - x + 1 is a constant all the same; but nearly always the variables tell.
        if ours - theirs and theirs - ours:
            return False
        theirs |= ours
    pairs = list(_values(*trees, sorted(ours | theirs)))
    if factor:
        return _constant_ratio(pairs)
    return all(_close(one, other) for one, other in pairs) or (not ours and not theirs and _rounded(gold, answer))


def _values(gold: Tree, answer: Tree, variables: list[str]) -> Iterator[tuple[Any, Any]]:
    import mpmath

    with mpmath.workdps(DIGITS):
        found = 0
        for start, sign in _POINTS if variables else _POINTS[:1]:
            point = {name: sign * mpmath.mpf(start) * (n + 2) / (n + 1) for n, name in enumerate(variables)}
            try:
                yield _value(gold, point), _value(answer, point)
                found += 1
            except (ZeroDivisionError, ValueError):
                if not variables:
                    raise Unreadable("it has no value") from None
            except (OverflowError, TypeError, MemoryError):
                raise OutOfReach("its value is out of reach") from None
        if not found:
            raise Unreadable("it has no value where it was tried")


def _fraction(tree: Tree) -> Fraction | None:
    """The value, exactly, where it is built of numbers by the four operations and small powers."""
    operation = tree[0]
    if operation == "number":
        return Fraction(str(tree[1]))
    if operation not in ("+", "-", "*", "/", "negative", "^"):
        return None
    parts = [_fraction(part) for part in tree[1:] if isinstance(part, tuple)]
    if any(part is None for part in parts):
        return None
    return _apply(str(operation), [part for part in parts if part is not None])


def _apply(operation: str, parts: list[Fraction]) -> Fraction | None:
    one, other = parts[0], parts[-1]
    if operation == "negative":
        return -one
    if operation == "/":
        return one / other if other else None
    if operation == "^":
        bits = max(one.numerator.bit_length(), one.denominator.bit_length())
        if other.denominator != 1 or abs(other) * bits > MAX_FRACTION_BITS or (one == 0 and other <= 0):
            return None
        return one ** int(other)
    return one + other if operation == "+" else one - other if operation == "-" else one * other


def _rounded(gold: str, answer: str) -> bool:
    """Whether one is a long decimal, the other is none, and the decimal is the other's rounding."""
    decimals = [_DECIMAL.fullmatch(text.strip()) is not None for text in (gold, answer)]
    if decimals[0] == decimals[1]:
        return False
    decimal, exact = (gold, answer) if decimals[0] else (answer, gold)
    places = decimal.strip().partition(".")[2]
    if len(places.lstrip("0")) < MIN_DECIMALS:
        return False
    import mpmath

    with mpmath.workdps(DIGITS):
        difference = _value(read(decimal), {}) - _value(read(exact), {})
        return bool(abs(difference) <= mpmath.mpf(10) ** -len(places) / 2)


def _close(one: Any, other: Any) -> bool:
    import mpmath

    if mpmath.isinf(one) or mpmath.isinf(other):
        return bool(one == other)
    size = max(abs(one), abs(other))
    # Relative to the values, however tiny they are; a difference of terms that cancel has none, hence the second.
    return bool(abs(one - other) <= size * mpmath.mpf(10) ** -TOLERANCE_DIGITS) or (
        min(abs(one), abs(other)) == 0 and size < mpmath.mpf(10) ** -TOLERANCE_DIGITS
    )


def _constant_ratio(pairs: list[tuple[Any, Any]]) -> bool:
    if len(pairs) < 2 or any(one == 0 or other == 0 for one, other in pairs):
        return all(one == 0 and other == 0 for one, other in pairs)
    first = pairs[0][0] / pairs[0][1]
    return all(_close(one / other, first) for one, other in pairs[1:])


def _value(tree: Tree, point: dict[str, Any]) -> Any:
    """With mpmath's current precision."""
    import mpmath

    operation = str(tree[0])
    if operation == "number":
        return mpmath.mpf(str(tree[1]))
    if operation == "name":
        return point[str(tree[1])]
    if operation == "constant":
        return {"e": +mpmath.e, "i": mpmath.j, "pi": +mpmath.pi, "infinity": mpmath.inf}[str(tree[1])]
    parts = [_value(part, point) for part in tree[1:] if isinstance(part, tuple)]
    return _operated(operation, parts)


def _operated(operation: str, parts: list[Any]) -> Any:
    import mpmath

    one, other = parts[0], parts[-1]
    if operation == "negative":
        return -one
    if operation in "+-*/":
        return {"+": one.__add__, "-": one.__sub__, "*": one.__mul__, "/": one.__truediv__}[operation](other)
    if operation == "^":
        return _power(one, other)
    if operation == "root":
        # The real root of a negative number where there is one, as people mean it.
        if mpmath.im(one) == 0 and one < 0 and other == 3:
            return -mpmath.cbrt(-one)
        return _power(one, 1 / other)
    _small(one, 2000)
    if operation == "!":
        return mpmath.gamma(one + 1)
    if operation == "exp":
        return _power(+mpmath.e, one)
    if operation == "log":
        return mpmath.log(one, other) if len(parts) == 2 else mpmath.log(one)
    if operation == "abs":
        return abs(one)
    function = {"ln": "log", "arcsin": "asin", "arccos": "acos", "arctan": "atan"}.get(operation, operation)
    return getattr(mpmath, function)(*parts)


def _power(base: Any, exponent: Any) -> Any:
    import mpmath

    _small(exponent, 60)
    if base != 0 and not mpmath.isinf(base) and abs(mpmath.mag(base)) * abs(exponent) > 1e15:
        raise OutOfReach("a power that is out of reach")
    return mpmath.power(base, exponent)


def _small(value: Any, bits: int) -> None:
    """Arguments beyond this would be reduced with as many digits as they have."""
    import mpmath

    if value != 0 and not mpmath.isinf(value) and mpmath.mag(value) > bits:
        raise OutOfReach("a number that is out of reach")
