"""Finding the three lists in a completion, in time linear in its length.

A list is looked for after the last `</think>`, as `name = [` or `name: [`; the last occurrence of each
name wins, malformed or not, and a name inside another list's literal does not count.

Why it is linear: a literal that ends is skipped as a whole, and all the others share a budget of twice the
text's length. A text that exhausts it repeats the names as no plan does, and is refused. Comments are
refused too: no plan needs them, and they could hide an end.
"""

import ast
import re
import warnings
from dataclasses import dataclass
from typing import Any

from conductor_plugin.errors import PlanError

MAX_BYTES = 64 * 1024
OCCURRENCE_COST = 100  # what starting on a list costs, in characters of the budget
LIST_NAMES = ("model_id", "subtasks", "access_list")
BAD_ENTRY = {"model_id": "bad_model_id", "subtasks": "bad_subtask", "access_list": "bad_access"}

_NAME = re.compile(r"(model_ids?|models|subtasks?|access_lists?)\s*[=:]\s*\[")
_CANONICAL = {name[0]: name for name in LIST_NAMES}
_TOKEN = re.compile(
    r"""(?P<string>\"{3}[^"\\]*(?:(?:\\.|"{1,2}(?!"))[^"\\]*)*\"{3}|'{3}[^'\\]*(?:(?:\\.|'{1,2}(?!'))[^'\\]*)*'{3}
        |"(?!"")[^"\\\n]*(?:\\.[^"\\\n]*)*"|'(?!'')[^'\\\n]*(?:\\.[^'\\\n]*)*')
      |(?P<open>\[)|(?P<close>\])|(?P<run>[^\[\]"'\#]+)""",
    re.VERBOSE | re.DOTALL,
)
# What may stand between brackets and strings: numbers, signs, names like True, commas and blanks. Anything
# else (calls, arithmetic, braces) is no list of literals; refusing it here keeps the parser's recursion flat.
_PLAIN = re.compile(r"[\s,\w.+-]*")
_LETTER = re.compile(r"[^\W\d]")
_SIGNS = re.compile(r"[+-]\s*[+-]")
_LONG_NUMBER = re.compile(r"[\d_]{4300,}")


@dataclass(frozen=True)
class ListText:
    """A list as it stands in a completion: `start` of its name, `source` of the literal, top-level commas.

    `fault` is a pair (code, what is wrong) where the literal does not end as a list must.
    """

    name: str
    start: int
    source: str = ""
    entries: int = 0
    plain: str = ""
    fault: tuple[str, str] | None = None


def find_lists(text: str) -> dict[str, ListText]:
    """The last occurrence of each of the three names, by canonical name; absent names are left out."""
    found: dict[str, ListText] = {}
    position = text.rfind("</think>")
    if position < 0 and text.lstrip().startswith("<think>"):
        return found  # reasoning that never ended: a list in it is a draft, not the plan
    position = max(position, 0)
    budget = 2 * (len(text) + MAX_BYTES)
    for match in _NAME.finditer(text, position):
        start = match.start()
        if start < position or (start and (text[start - 1].isalnum() or text[start - 1] == "_")):
            continue  # inside the list before it, or the end of a longer word
        lst, end = _scan(text, _CANONICAL[match.group(1)[0]], start, match.end())
        budget -= OCCURRENCE_COST + (end - match.end() if lst.fault else 0)
        if budget < 0:
            raise PlanError(
                "the completion starts more lists than a plan has; write each of the three lists once",
                code="too_long",
                list_name=lst.name,
            )
        found[lst.name] = lst
        position = match.end() if lst.fault else end
    return found


def _scan(text: str, name: str, start: int, inside: int) -> tuple[ListText, int]:
    """Read the literal whose first bracket ends at `inside`; also how far the reading went."""
    depth, entries, position = 1, 0, inside
    runs: list[str] = []
    limit = min(inside + MAX_BYTES, len(text))
    while position < limit:
        token = _TOKEN.match(text, position, limit)
        if token is None:
            break
        kind, position = token.lastgroup, token.end()
        if kind == "open":
            depth += 1
            if depth > 2:
                return ListText(name, start, fault=(BAD_ENTRY[name], "nests brackets too deeply")), position
        elif kind == "close":
            depth -= 1
            if depth == 0:
                source = text[inside - 1 : position]
                return ListText(name, start, source, _count(entries, source), " ".join(runs)), position
        elif kind == "run":
            runs.append(token.group())
            if depth == 1:
                entries += token.group().count(",")
    fault, end = _fault(text, position, limit)
    return ListText(name, start, fault=fault), end


def _fault(text: str, position: int, limit: int) -> tuple[tuple[str, str], int]:
    """Why no token starts at `position` before the list was closed, and how far the search for its end went."""
    too_long = ("too_long", f"is longer than {MAX_BYTES} bytes")
    if position >= limit:
        return too_long if limit < len(text) else ("not_literal", "is not closed by ]"), limit
    if text[position] == "#":
        return ("not_literal", "holds a comment"), position
    # A string that is not closed: on its line, or within the limit.
    triple = text.startswith(('"""', "'''"), position)
    line_end = -1 if triple else text.find("\n", position, limit)
    if line_end < 0 and limit < len(text):
        return too_long, limit
    return ("not_literal", "holds a string that is not closed" + ("" if triple else " on its line")), (
        limit if line_end < 0 else line_end
    )


def _count(commas: int, source: str) -> int:
    """Entries of a list literal with so many top-level commas (a trailing one adds none)."""
    body = source[1:-1].rstrip()
    return commas + (0 if not body or body.endswith(",") else 1)


def read_list(lst: ListText) -> list[Any]:
    """Evaluate a list's literal. PlanError not_literal, or the list's own code for an absurdly long number."""
    if not _PLAIN.fullmatch(lst.plain) or _SIGNS.search(lst.plain):
        raise _not_literal(lst.name)
    if _LONG_NUMBER.search(lst.plain):
        raise PlanError(
            f"{lst.name} holds a number of more than 18 digits; use small whole numbers",
            code=BAD_ENTRY[lst.name],
            list_name=lst.name,
        )
    try:
        value = _literal(lst)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise _not_literal(lst.name) from None
    if not isinstance(value, list):
        raise _not_literal(lst.name)
    return value


def _literal(lst: ListText) -> object:
    if "\\" not in lst.source and not _LETTER.search(lst.plain):
        return ast.literal_eval(lst.source)
    with warnings.catch_warnings():  # an unknown escape such as "\\d" stands for itself, without a warning
        warnings.simplefilter("ignore")
        return ast.literal_eval(lst.source)


def _not_literal(name: str) -> PlanError:
    return PlanError(
        f"{name} is not a plain Python list of literals; write only numbers, quoted strings and brackets",
        code="not_literal",
        list_name=name,
    )
