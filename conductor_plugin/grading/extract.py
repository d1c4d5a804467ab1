"""Finding the final answer in a text: the last box, what stands after the last "answer is", the last code block.

Everything here takes time linear in the text, whatever the text is: answers come from models that may loop.
"""

import re
import textwrap

from conductor_plugin.code_blocks import python_blocks

MAX_CHARACTERS = 100_000
"""Only so much of an answer's end is looked at."""
MAX_BOXES = 20
MAX_BARE = 200

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_TAG = re.compile(r"<answer>([^<]*)</answer>", re.IGNORECASE)
_MARKER = re.compile(r"\banswer(?:\s+is)?\s*:|\banswer\s+is\b|\banswer\s*=|\bcorrect\s+(?:option|choice)\s+is\b", re.I)
_MARKDOWN = re.compile(r"\*\*|__|`|^[ \t]*#+[ \t]*|^[ \t]*>[ \t]*", re.MULTILINE)
_POWER = re.compile(r"(?<=[\w)])\*\*(?=[\w({-])(?![A-Za-z]{2})")
_INLINE = re.compile(r"(?<!\\)\$\$?([^$]+?)(?<!\\)\$\$?|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_SENTENCE = re.compile(r"\.(?=\s+[A-Z]|\s*$)|,?\s+(?:because|since|which)\b")
_PROSE = re.compile(r"[A-Za-z]{2,}\s+[A-Za-z]{2,}\s+[A-Za-z]{2,}")


def without_markdown(text: str) -> str:
    """Without bold, code marks, headings and quotes; ** between two operands is a power."""
    return _MARKDOWN.sub("", _POWER.sub("^", text))


def last_box(text: str) -> str | None:
    r"""What the last balanced, filled \boxed{…} holds."""
    for match in list(_BOX.finditer(text))[: -MAX_BOXES - 1 : -1]:
        content = _balanced(text, match.end())
        if content is not None and content.strip():
            return content.strip()
    return None


def _balanced(text: str, start: int) -> str | None:
    depth, escaped = 1, False
    for position in range(start, len(text)):
        character = text[position]
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in "{}":
            depth += 1 if character == "{" else -1
            if depth == 0:
                return text[start:position]
    return None


def statements(text: str) -> list[str]:
    """What is said to be the answer, the last said first: boxes, <answer> tags and lines after "answer is"."""
    plain = without_markdown(text[-MAX_CHARACTERS:])
    found = [(match.start(), match[1].strip()) for match in _TAG.finditer(plain)]
    for match in list(_BOX.finditer(plain))[-MAX_BOXES:]:
        content = _balanced(plain, match.end())
        if content is not None:
            found.append((match.start(), content.strip()))
    markers = list(_MARKER.finditer(plain))
    for match in markers[-MAX_BOXES:]:
        rest = plain[match.end() : match.end() + 2000].lstrip(" \t:=\n")
        found.append((match.start(), rest.split("\n", 1)[0].strip()))
    # A box inside "the answer is \boxed{…}" stands later than the words, and so comes first.
    return [said for _, said in sorted(found, key=lambda pair: -pair[0])]


def final_answer(text: str) -> str | None:
    r"""The final answer of a text, None if it has none.

    The last balanced \boxed; else what the last <answer> tag or "answer is" says; else the whole text or its last
    line if that is no prose; else the last formula of the last line.
    """
    text = text[-MAX_CHARACTERS:]
    if box := last_box(text):
        return box
    for said in statements(text):
        if cut := _stated(said):
            return cut
    lines = [line.strip() for line in without_markdown(text).splitlines() if line.strip()]
    if not lines:
        return None
    if len(lines[-1]) <= MAX_BARE and not _PROSE.search(lines[-1]):
        return lines[-1]
    formulas = _formulas(lines[-1][-2000:])
    return formulas[-1] if formulas else None


def _stated(said: str) -> str:
    """The answer in the rest of a line: its first formula, else its first sentence without reasons."""
    formulas = _formulas(said)
    if formulas and not _SENTENCE.split(said, maxsplit=1)[0].strip().startswith(tuple("0123456789-")):
        return formulas[0]
    return _SENTENCE.split(said, maxsplit=1)[0].strip()


def _formulas(line: str) -> list[str]:
    return [next(group for group in match.groups() if group is not None).strip() for match in _INLINE.finditer(line)]


def last_code_block(text: str) -> str | None:
    """The last closed block of Python, else the last that was begun and not closed; indented as it is."""
    blocks = list(python_blocks(text))
    closed = [code for code, is_closed in blocks if is_closed]
    return closed[-1] if closed else blocks[-1][0] if blocks else None


def dedented(code: str) -> str:
    """The block without what all of its lines are indented by."""
    return textwrap.dedent(code)
