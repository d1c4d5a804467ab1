"""Words of arithmetic as the signs that the parser knows: "twenty-five times four" as `25 * 4`.

Takes lower-case text, and leaves what it does not know where it is, for the parser to refuse.
"""

import re

_UNITS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen"""
_NUMBERS = {word: n for n, word in enumerate(_UNITS.split())}
_DECADES = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS = {word: 10 * n for n, word in enumerate(_DECADES.split(), 2)}
_SMALL = "|".join(word for word, n in _NUMBERS.items() if 0 < n < 10)
_PARTS = {"half": 2, "halve": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "tenth": 10}

_TYPOGRAPHIC = {"×": "*", "·": "*", "⋅": "*", "÷": "/", "−": "-", "–": "-", "π": "pi"}
_OPERATORS = {
    r"([0-9]+)/([0-9]+) of": r"(\1/\2) parts_of",
    r"(?:multiplied by|times)": "*",
    r"(?:divided by|over)": "/",
    r"(?:plus|added to)": "+",
    r"minus": "-",
    r"negative(?= [0-9])": "-",
    r"(?:raised )?to the power(?: of)?": "^",
    r"(?:raised )?to the ([0-9]+)(?:st|nd|rd|th) power": r"^\1",
    r"raised to": "^",
    r"squared": "²",
    r"cubed": "³",
    r"(?:percent|per cent|pct)": "%",
    r"(?<=[0-9)] )factorial(?! of)": "!",
    r"twice": "2 parts_of",
    r"half of": "(1/2) parts_of",
}
_FUNCTION_PHRASES = {
    r"square root of": "sqrt_of",
    r"cube root of": "cbrt_of",
    r"square of": "square_of",
    r"cube of": "cube_of",
    r"factorial of": "factorial_of",
    r"absolute value of": "abs_of",
    r"reciprocal of": "inverse_of",
    r"(?:sum|total) of": "sum_of",
    r"product of": "product_of",
    r"difference (?:between|of)": "difference_of",
    r"quotient of": "quotient_of",
    r"(?:average|mean|arithmetic mean) of": "mean_of",
    r"(?:maximum|largest|greatest) of": "max_of",
    r"(?:minimum|smallest|least) of": "min_of",
}
_REPLACEMENTS = [
    *((re.compile(rf"\b{pattern}(?!\w)"), by) for pattern, by in _OPERATORS.items()),
    *((re.compile(rf"\b(?:the )?{pattern}(?!\w)"), by) for pattern, by in _FUNCTION_PHRASES.items()),
]


def signs(text: str) -> str:
    """Words and typographic signs as the few signs that the grammar knows."""
    text = re.sub("[×·⋅÷−–π]", lambda sign: _TYPOGRAPHIC[sign[0]], text)
    text = re.sub(r"√\s*([0-9]+(?:\.[0-9]+)?)", r"sqrt(\1)", text).replace("√", "sqrt")
    text = re.sub(r"(?<=[\w)])²", "^2", re.sub(r"(?<=[\w)])³", "^3", text))
    text = figures(re.sub(rf"\b({_SMALL}|an?|[0-9]+) ({'|'.join(_PARTS)})s? of\b", _part, text))
    for pattern, by in _REPLACEMENTS:
        text = pattern.sub(by, text)
    return _times(text)


def figures(text: str) -> str:
    """Number words up to ninety-nine as figures."""
    text = re.sub(rf"\b({'|'.join(_TENS)})(?:[- ]({_SMALL}))?\b", _tens, text)
    return re.sub(rf"\b(?:{'|'.join(_NUMBERS)})\b", lambda match: str(_NUMBERS[match[0]]), text)


def _times(text: str) -> str:
    """`3 x 4` with a letter for the sign, where that letter is nothing else."""
    replaced = re.sub(r"(?<=[0-9)])(?:\s*x\s*(?=[0-9])| x (?=\())", " * ", text)
    return text if "x" in re.sub(r"[a-z]{2,}", "", replaced) else replaced


def _part(match: re.Match[str]) -> str:
    count = _NUMBERS.get(match[1], 1 if match[1].startswith("a") else match[1])
    return f"({count}/{_PARTS[match[2]]}) parts_of"


def _tens(match: re.Match[str]) -> str:
    return str(_TENS[match[1]] + _NUMBERS.get(match[2], 0))
