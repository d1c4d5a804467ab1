"""What the properties of the graders draw from: numbers, letters, words, and other spacing of the same text."""

import re

from hypothesis import strategies as st

NUMBERS = st.integers(min_value=-999, max_value=999)
POSITIVE = st.integers(min_value=2, max_value=999)
VARIABLES = st.sampled_from("abcdfghkmnpqrstuvwxyz")
WORDS = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=4, max_size=12).filter(
    lambda word: not re.search(r"and|or|none|pi|sqrt|arc|sin|cos|tan|infinity|percent", word.lower())
)
UNITS = st.sampled_from(["cm", "m", "km", "inches", "feet", "seconds", "hours", "kg", "cents"])

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[A-Za-z]+|[\d.]+|\s+|.", re.DOTALL)


@st.composite
def spaced(draw: st.DrawFn, text: str) -> str:
    """The same formula with other spaces between its tokens; those after commands stay."""
    out = ""
    for token in _TOKEN.findall(text):
        if out and not token.isspace() and token not in "_^" and not out.endswith(("_", "^", "\\text", "\\mbox")):
            out += draw(st.sampled_from(["", "", " ", "  "])) if not (out[-1].isdigit() and token[0] in "\\.") else ""
        out += token
    return out
