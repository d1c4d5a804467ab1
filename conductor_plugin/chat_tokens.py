"""A chat as token ids, in which only the template's own special tokens are such tokens.

The template is rendered with placeholders, and the texts are put in as text: whatever a question or another worker's
output contains, it cannot open or close a turn.
"""

import re
from collections.abc import Callable, Mapping, Sequence

_PLACEHOLDER = re.compile("\0(\\d+)\0")


def placeholder(index: int) -> str:
    """What stands in a template for text number `index`."""
    return f"\0{index}\0"


def chat_ids(
    skeleton: str, texts: Sequence[str], special: Mapping[str, int], encode: Callable[[str], list[int]]
) -> list[int]:
    """Token ids of a rendered template whose placeholders stand for the texts.

    `special` has the ids of special tokens; `encode` turns text into ids and knows no special tokens.
    """
    if not special:
        return encode(_filled(skeleton, texts))
    ids: list[int] = []
    for piece in re.split(f"({'|'.join(map(re.escape, special))})", skeleton):
        if piece in special:
            ids.append(special[piece])
        elif piece:
            ids += encode(_filled(piece, texts))
    return ids


def _filled(piece: str, texts: Sequence[str]) -> str:
    text = _PLACEHOLDER.sub(lambda match: texts[int(match[1])], piece)
    return text.encode(errors="replace").decode()  # half a surrogate pair, from JSON say
