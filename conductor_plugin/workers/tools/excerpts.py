"""Parts of a text: its numbers, its third word, its last two letters, its longest word.

Where there is nothing of the kind, or not so many, the result is None.
"""

import re
from collections.abc import Sequence

from conductor_plugin.workers.tools.strings import CLUSTER, NUMBER, Operand, items, one, words
from conductor_plugin.workers.tools.trees import Unreadable

_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth"
ORDINALS = {word: i for i, word in enumerate(_ORDINALS.split())}
_COUNTS = "one two three four five six seven eight nine ten"
COUNTS = {word: i for i, word in enumerate(_COUNTS.split(), 1)}
EMAIL = re.compile(r"[\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}")
URL = re.compile(r"https?://[^\s<>\"']+[^\s<>\"'.,;:!?)]")
QUOTED = re.compile(r"\"([^\"\n]+)\"|“([^“”\n]+)”|«([^«»\n]+)»")


def extract(what: str, operand: Operand) -> str | None:
    """Everything of a kind, in order, joined by ", "; None if there is nothing."""
    found = _found(what, one(operand))
    return ", ".join(found) if found else None


def extract_only(what: str, operand: Operand) -> str | None:
    """The one thing of its kind; None if there are several or none."""
    found = _found(what, one(operand))
    return found[0] if len(found) == 1 else None


def nth(which: str, what: str, operand: Operand) -> str | None:
    """The first, third, 12th or last letter, word, number … of a text; None if there are not so many."""
    found = list(operand) if isinstance(operand, tuple) else _found(what, operand)
    position = _position(which)
    return found[position] if -len(found) <= position < len(found) else None


def several(which: str, number: str, what: str, operand: Operand) -> str | None:
    """The first or last few. Letters are not separated, words by a space, others by ", "."""
    found = list(operand) if isinstance(operand, tuple) else _found(what, operand)
    wanted = COUNTS.get(number.lower()) or int(number)
    if not 1 <= wanted <= len(found):
        return None
    sign = {"letter": "", "character": "", "digit": "", "word": " ", "line": "\n"}.get(what.rstrip("s"), ", ")
    return sign.join(found[:wanted] if which == "first" else found[-wanted:])


def extreme_word(which: str, operand: Operand) -> str | None:
    """The longest or shortest word; None if there are several different ones."""
    found = list(operand) if isinstance(operand, tuple) else words(operand)
    if not found:
        return None
    length = max(map(len, found)) if which.lower() == "longest" else min(map(len, found))
    chosen = {word for word in found if len(word) == length}
    return chosen.pop() if len(chosen) == 1 else None


def edge_letters(which: str, operand: Operand, joined: str | None) -> str | None:
    found = words(operand) if isinstance(operand, str) else list(operand)
    letters = [word[0] if which.lower() == "first" else word[-1] for word in found]
    return ("" if joined else ", ").join(letters) or None


def _position(which: str) -> int:
    which = which.lower()
    if which in ("last", "final"):
        return -1
    return ORDINALS[which] if which in ORDINALS else int(re.sub(r"\D", "", which)) - 1 if which[0] != "0" else 10**9


def _found(what: str, text: str) -> Sequence[str]:
    match what.lower().rstrip("s").replace("-", ""):
        case "letter":
            return [c for c in CLUSTER.findall(text) if c[0].isalpha()]
        case "character":
            return CLUSTER.findall(text)
        case "digit":
            return re.findall("[0-9]", text)
        case "number":
            return NUMBER.findall(text)
        case "line":
            return [line for line in text.splitlines() if line.strip()]
        case "word":
            return words(text)
        case "item":
            return items(text)[0]
        case "url" | "link":
            return URL.findall(text)
        case "quoted text" | "quotation" | "quote":
            return ["".join(groups) for groups in QUOTED.findall(text)]
        case kind if kind.startswith("email"):
            return EMAIL.findall(text)
    raise Unreadable(f"what are {what}?")
