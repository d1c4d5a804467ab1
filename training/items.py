"""The items that questions are made of: how reasoning-gym's entries are asked for, alone and about a result."""

import re
from collections.abc import Callable, Sequence
from math import gcd, lcm
from typing import Any

Entry = dict[str, Any]

WORDINGS: dict[str, tuple[str, ...]] = {
    "basic_arithmetic": (
        "Calculate {expression}.",
        "Compute {expression}.",
        "What is {expression}?",
        "Work out {expression}.",
    ),
    "products": (
        "Solve the following multiplication: {expression}.",
        "What is {a} times {b}?",
        "Multiply {a} by {b}.",
        "Calculate the product of {a} and {b}.",
    ),
    "gcd": (
        "Find the Greatest Common Divisor (GCD) of these numbers: {a}, {b}.",
        "What is the greatest common divisor of {a} and {b}?",
        "Compute the gcd of {a} and {b}.",
        "Find the greatest common factor of {a} and {b}.",
    ),
    "lcm": (
        "Find the Least Common Multiple (LCM) of these numbers: {a}, {b}.",
        "What is the least common multiple of {a} and {b}?",
        "Compute the lcm of {a} and {b}.",
    ),
    "count_bits": (
        "How many 1 bits are there in the binary representation of the number {number}?",
        "How many ones are in the binary form of {number}?",
        "Count the 1 bits in the binary representation of {number}.",
        "Find the number of ones in the binary form of {number}.",
    ),
    "letter_counting": (
        'How many times does the letter "{target_letter}" appear in the text: "{span}"?',
        'Count the letter "{target_letter}" in "{span}".',
        'How many "{target_letter}" are in "{span}"?',
        'How many times is the letter "{target_letter}" in "{span}"?',
    ),
    "spell_backward": (
        'Spell the word "{word}" backward.',
        'Reverse the word "{word}".',
        'What is "{word}" spelled backwards?',
        'Reverse the letters of "{word}".',
    ),
    "base_conversion": ("Convert {source_repr} from base {source_base} to base {target_base}.",),
    "decimal_chain_sum": ("{expression}",),
}
"""Three wordings to train on, and behind them the one of the reworded families. The first is the library's own, without
what it says about the answer's form or shows as an example."""
TAUGHT = 3


def asked(
    first: str, then: Sequence[str], entries: Sequence[Entry], wording: int | None = None
) -> tuple[str, list[str]]:
    """A question of these items, about these entries, and the answer to each part.

    In the wording of that number; by default in one of those to train on, which the entry's own number chooses.
    """
    number = entries[0]["metadata"]["source_index"] % len(WORDINGS[first][:TAUGHT]) if wording is None else wording
    text, values = _worded(WORDINGS[first][number], entries[0]), [entries[0]["answer"]]
    for item, entry in zip(then, entries[1:], strict=True):
        sentence, result = ON_RESULT[item](int(values[-1]), entry["metadata"])
        text = f"{text}{'' if text[-1] in '.?' else '.'} Then {sentence}."
        values.append(str(result))
    return text, values


def _worded(wording: str, entry: Entry) -> str:
    data = entry["metadata"]
    numbers = data.get("numbers") or re.findall(r"-?\d+", data.get("expression", ""))
    return wording.format(**{**data, **dict(zip("ab", numbers, strict=False)), "span": " ".join(data.get("span", ()))})


def _times(value: int, item: dict[str, Any]) -> tuple[str, int]:
    factor = int(item["expression"].split(" * ")[-1])
    return f"multiply the result by {factor}", value * factor


def _plus(value: int, item: dict[str, Any]) -> tuple[str, int]:
    *_, sign, term = item["expression"].split()
    if sign == "+":
        return f"add {term} to the result", value + int(term)
    return f"subtract {term} from the result", value - int(term)


def _divisor(value: int, item: dict[str, Any]) -> tuple[str, int]:
    other = item["numbers"][-1]
    return f"find the greatest common divisor of the result and {other}", gcd(value, other)


def _multiple(value: int, item: dict[str, Any]) -> tuple[str, int]:
    other = item["numbers"][-1]
    return f"find the least common multiple of the result and {other}", lcm(value, other)


def _bits(value: int, item: dict[str, Any]) -> tuple[str, int]:
    return "count the 1 bits in the binary representation of the result", value.bit_count()


def _base(value: int, item: dict[str, Any]) -> tuple[str, str]:
    base = item["target_base"]
    digits = ""
    while value or not digits:
        value, digit = divmod(value, base)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return f"convert the result to base {base}", digits


def _backward(value: int, item: dict[str, Any]) -> tuple[str, str]:
    return "spell the result backward", str(value)[::-1]


ON_RESULT: dict[str, Callable[[int, dict[str, Any]], tuple[str, int | str]]] = {
    "products": _times,
    "chain_sum": _plus,
    "gcd": _divisor,
    "lcm": _multiple,
    "count_bits": _bits,
    "base_conversion": _base,
    "spell_backward": _backward,
}
