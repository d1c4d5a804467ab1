"""Numbers as digits: in other bases, in bits, reversed, summed."""

import re

from conductor_plugin.workers.tools.trees import MAX_DIGITS, Unreadable, digits

MAX_BITS = 10_000
"""Of a number to be converted; conversion takes time with the square of it."""
_FIGURES = "0123456789abcdefghijklmnopqrstuvwxyz"
_NAMED = {"binary": 2, "octal": 8, "decimal": 10, "hexadecimal": 16, "hex": 16}
_PREFIXES = {"0b": 2, "0o": 8, "0x": 16}
BASE = r"(?:binary|octal|decimal|hexadecimal|hex|base[- ]?[0-9]{1,2})"
_SOURCE = re.compile(
    rf"(?:(?P<before>{BASE}) (?:number |value |string )?)?(?P<sign>-?)(?P<prefix>0[xbo])?"
    rf"(?P<digits>[0-9]{{1,3}}(?:,[0-9]{{3}})+|[0-9a-z]+)"
    rf"(?:(?: in| from)? \(?(?P<behind>{BASE})\)?|_(?P<index>[0-9]{{1,2}}))?"
)


def convert(source: str, target: str) -> str | None:
    """`source` is digits, of which a prefix, or words before or behind, may say the base; else it is 10.

    None where the text does not say which base is meant: "ff to decimal", "1011 in decimal", "0101 to hex".
    """
    match = _SOURCE.fullmatch(source)
    if match is None:
        return None
    named = {_base(match[name]) for name in ("before", "behind", "index") if match[name]}
    if match["prefix"]:
        named.add(_PREFIXES[match["prefix"]])
    text = match["digits"].replace(",", "")
    if len(named) > 1 or (not named and re.match("0[0-9]", text)):
        return None
    base = named.pop() if named else 10
    n = from_base(text, base)
    if n is None or base == _base(target):
        return None
    return in_base(-n if match["sign"] else n, _base(target))


def convert_of(target: str, source: str) -> str | None:
    """The same for "the binary representation of 13"."""
    return convert(source, target)


def in_base(n: int, base: int) -> str | None:
    """n in base 2 to 36 with digits 0-9a-z, without prefix. None if it is very long."""
    if n.bit_length() > MAX_BITS:
        return None
    figures = []
    rest = abs(n)
    while rest:
        rest, figure = divmod(rest, base)
        figures.append(_FIGURES[figure])
    return ("-" if n < 0 else "") + ("".join(reversed(figures)) or "0")


def from_base(text: str, base: int) -> int | None:
    """The number that a string of digits is in base 2 to 36; None if a digit does not exist there."""
    if len(text) > MAX_BITS // 4 or any(_FIGURES.find(figure) not in range(base) for figure in text):
        return None
    return int(text, base)


def digit_sum(n: int) -> str:
    return str(sum(map(int, _decimal(n))))


def digit_product(n: int) -> str | None:
    text = _decimal(n)
    product = 1
    for digit in text[: MAX_DIGITS // 4]:
        product *= int(digit)
    return digits(product) if len(text) <= MAX_DIGITS // 4 else None


def digit_count(n: int) -> str:
    return str(len(_decimal(n)))


def digital_root(n: int) -> str:
    return str(1 + (n - 1) % 9 if n and _decimal(n) else 0)


def reversed_digits(n: int) -> str:
    """Zeros stay: 120 gives 021."""
    return _decimal(n)[::-1]


def last_digits(count: str | None, n: int) -> str | None:
    wanted, text = int(count or 1), _decimal(n)
    return text[-wanted:] if 1 <= wanted <= len(text) else None


def ones(n: int) -> str | None:
    """How many bits are 1."""
    return str(n.bit_count()) if n >= 0 else None


def zeros(n: int) -> str | None:
    """How many bits are 0, from the highest 1 down."""
    return str(n.bit_length() - n.bit_count()) if n > 0 else None


def bit_length(n: int) -> str | None:
    return str(n.bit_length()) if n > 0 else None


def _base(name: str) -> int:
    base = _NAMED.get(name) or int(name.removeprefix("base").strip("- "))
    if not 2 <= base <= 36:
        raise Unreadable("no such base")
    return base


def _decimal(n: int) -> str:
    if n < 0:
        raise Unreadable("the digits of a negative number")
    return digits(n)
