"""Fenced blocks of Python in a text, as markdown has them (``` or ~~~, marked python, py or not at all)."""

import re
from collections.abc import Iterator

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([^\s`~]*)[^`~]*")
_LANGUAGES = ("", "python", "python3", "py", "{python}")


def python_blocks(text: str) -> Iterator[tuple[str, bool]]:
    """Each block that is not blank, as it is indented, and whether it is closed. One pass over the lines."""
    lines: list[str] = []
    fence = language = ""
    # Only \n ends a line: others, a form feed say, may stand inside a string of the code.
    for line in text.replace("\r\n", "\n").split("\n"):
        mark = _FENCE.fullmatch(line)
        if not fence:
            if mark:
                fence, language, lines = mark[1], mark[2].lower(), []
        elif mark and not mark[2] and mark[1].startswith(fence):
            yield from _block(lines, language, closed=True)
            fence = ""
        else:
            lines.append(line)
    if fence:
        yield from _block(lines, language, closed=False)


def _block(lines: list[str], language: str, *, closed: bool) -> Iterator[tuple[str, bool]]:
    code = "\n".join(lines)
    if language in _LANGUAGES and code.strip():
        yield code, closed
