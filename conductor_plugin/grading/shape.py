"""What a final answer is: a value, a tuple, a list, an interval, an equation, a matrix, words."""

import re
from dataclasses import dataclass
from typing import Literal

from conductor_plugin.grading.tidy import bare, quantity, tidy

Kind = Literal["value", "tuple", "list", "interval", "empty", "assignment", "equation", "relation", "matrix", "words"]

MAX_PARTS = 200
_EMPTY = re.compile(
    r"(?:there (?:is|are) )?(?:no (?:real )?solutions?|none|(?:the )?empty set)(?: exists?)?", re.IGNORECASE
)
_VARIABLE = re.compile(r"[A-Za-z](?:_\{?\w\}?)?|[a-zA-Z]\([a-z]\)|\\(?:theta|alpha|beta|lambda|mu)")
_RELATION = re.compile(r"(\\le(?![A-Za-z])|\\ge(?![A-Za-z])|\\ne(?![A-Za-z])|<|>)")
_MATRIX = re.compile(r"^\\begin\{([pbvB]?matrix|array)\}(?:\{[lcr| ]*\})?(.*)\\end\{\1\}$", re.DOTALL)
_WORDS = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{4,}")
_OPEN, _CLOSE = "([{", ")]}"
_FLIPPED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le", "\\ne": "\\ne"}


@dataclass(frozen=True)
class Shape:
    r"""One answer, taken apart.

    parts: of a tuple, list, interval (start, end) or matrix (its rows), the value of an assignment.
    text: of a value or words; an assignment's name; an equation's or relation's left side minus its right side.
    mark: an interval's brackets, a relation's sign (> or \ge or \ne), a value's base.
    """

    kind: Kind
    text: str = ""
    parts: tuple["Shape", ...] = ()
    mark: str = ""
    unit: str = ""
    percent: bool = False


def shape(answer: str) -> Shape:
    """The shape of any text; what is nothing else is a value, whose text may turn out to be no formula."""
    return _shape(tidy(answer), 0)


def _shape(text: str, depth: int) -> Shape:
    text = text.strip()
    if depth > 8:
        return Shape("words", text)
    if text == "\\emptyset" or _EMPTY.fullmatch(bare(text)):
        return Shape("empty")
    if re.fullmatch(r"\s*\\text\{[^{}]*\}\s*", text):
        return Shape("words", bare(text))
    if match := _MATRIX.match(text):
        rows = [row for row in re.split(r"\\\\(?:\[[^\]]*\])?", match[2]) if row.strip()]
        return Shape("matrix", parts=tuple(_listed("tuple", row.split("&"), depth) for row in rows))
    measured = quantity(text)
    if (measured.unit or measured.percent) and len(split(measured.text, ",")) == 1:
        inner = _shape(measured.text, depth + 1)
        return Shape(inner.kind, inner.text, inner.parts, inner.mark, measured.unit, measured.percent)
    return _collection(measured.text, depth) or _statement(measured.text, depth) or _single(measured.text)


def _collection(text: str, depth: int) -> Shape | None:
    if len(pieces := split(text, "\\cup")) > 1:
        return _listed("list", pieces, depth)
    if len(pieces := split(text, ",")) > 1 or len(pieces := split(text, ";")) > 1:
        return _listed("list", [piece for piece in pieces if piece.strip()], depth)
    if text.startswith("\\{") and text.endswith("\\}"):
        return _listed("list", split(text[2:-2], ","), depth)
    if len(text) > 2 and text[0] in "([" and text[-1] in ")]" and _encloses(text):
        pieces = split(text[1:-1], ",")
        if len(pieces) == 2 and (text[0] == "[" or text[-1] == "]"):
            return Shape("interval", parts=tuple(_shape(piece, depth + 1) for piece in pieces), mark=text[0] + text[-1])
        if len(pieces) > 1:
            return _listed("tuple" if text[0] == "(" else "list", pieces, depth)
    if "\\pm" in text and text.count("\\pm") == 1:
        before, after = text.split("\\pm")
        if all(before.count(opening) == before.count(closing) for opening, closing in zip(_OPEN, _CLOSE, strict=True)):
            return Shape("list", parts=tuple(_shape(f"{before}{sign}{after}", depth + 1) for sign in "+-"))
    return None


def _listed(kind: Kind, pieces: list[str], depth: int) -> Shape:
    parts: list[Shape] = []
    for piece in pieces[:MAX_PARTS]:
        part = _shape(piece, depth + 1)
        # {1 ± √5, -2} has three elements.
        parts += part.parts if kind == "list" and part.kind == "list" and "\\pm" in piece else [part]
    return Shape(kind, parts=tuple(parts))


def _statement(text: str, depth: int) -> Shape | None:
    if match := re.match(rf"^\s*(?:{_VARIABLE.pattern})\s*\\in(?![A-Za-z])\s*(.+)$", text, re.DOTALL):
        return _shape(match[1], depth + 1)
    signs = _RELATION.split(text)
    if len(signs) == 3:
        return _inequality(*(piece.strip() for piece in signs))
    if len(signs) == 5:
        return _chain([piece.strip() for piece in signs])
    sides = split(text, "=")
    if len(sides) < 2 or not all(side.strip() for side in sides):
        return None
    name = sides[0].strip()
    if re.fullmatch(rf"\((?:{_VARIABLE.pattern})(?:,(?:{_VARIABLE.pattern}))+\)", name.replace(" ", "")):
        return _shape(sides[-1], depth + 1)
    if _VARIABLE.fullmatch(name):
        return Shape("assignment", name, (_shape(sides[-1], depth + 1),), mark=sides[-1].strip())
    if len(sides) == 2 and _VARIABLE.fullmatch(sides[1].strip()):
        return Shape("assignment", sides[1].strip(), (_shape(name, depth + 1),), mark=name)
    return Shape("equation", f"({sides[0]})-({sides[1]})") if len(sides) == 2 else _shape(sides[-1], depth + 1)


def _inequality(left: str, sign: str, right: str) -> Shape | None:
    if not left or not right:
        return None
    if _VARIABLE.fullmatch(right) and not _VARIABLE.fullmatch(left):
        left, sign, right = right, _FLIPPED[sign], left
    if _VARIABLE.fullmatch(left) and sign != "\\ne" and not _VARIABLE.fullmatch(right):
        end, infinity = Shape("value", right), Shape("value", "-\\infty" if sign in ("<", "\\le") else "\\infty")
        if sign in ("<", "\\le"):
            return Shape("interval", parts=(infinity, end), mark="(]" if sign == "\\le" else "()")
        return Shape("interval", parts=(end, infinity), mark="[)" if sign == "\\ge" else "()")
    if sign in ("<", "\\le"):
        left, sign, right = right, _FLIPPED[sign], left
    return Shape("relation", f"({left})-({right})", mark=sign)


def _chain(signs: list[str]) -> Shape | None:
    start, first, middle, second, end = signs
    if {first, second} <= {">", "\\ge"}:
        start, first, second, end = end, _FLIPPED[second], _FLIPPED[first], start
    if not _VARIABLE.fullmatch(middle) or not {first, second} <= {"<", "\\le"}:
        return None
    brackets = ("[" if first == "\\le" else "(") + ("]" if second == "\\le" else ")")
    return Shape("interval", parts=(Shape("value", start), Shape("value", end)), mark=brackets)


def _single(text: str) -> Shape:
    if match := re.fullmatch(r"(-?[0-9A-Za-z.]*\d[0-9A-Za-z.]*)\s*_\s*(?:\{\s*(\d+)\s*\}|(\d+))", text):
        return Shape("value", match[1].upper(), mark=(match[2] or match[3]))
    if _WORDS.search(text) and not re.search(r"(?:sqrt|arcsin|arccos|arctan|sinh|cosh|tanh|infinity)", text):
        return Shape("words", bare(text))
    return Shape("value", text)


def split(text: str, separator: str) -> list[str]:
    """At the separators outside of all brackets."""
    pieces, depth, start, position = [], 0, 0, 0
    while position < len(text):
        character = text[position]
        if character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth -= 1
        elif depth == 0 and text.startswith(separator, position):
            pieces.append(text[start:position])
            position += len(separator)
            start = position
            continue
        position += 1
    return [*pieces, text[start:]]


def _encloses(text: str) -> bool:
    """Whether the first bracket is closed by the last; (3, 4] counts."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character in _OPEN) - (character in _CLOSE)
        if depth == 0:
            return position == len(text) - 1
    return False
