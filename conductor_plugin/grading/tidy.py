r"""One way of writing for the many that mean the same: `\dfrac`, `\left(`, `$`, `π`, `^\circ`, `\$18.90`, `70.`"""

import re
from typing import NamedTuple

_CHARACTERS = str.maketrans(
    {
        **{"−": "-", "–": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "÷": r"\div ", "π": r"\pi "},
        **{
            "√": r"\sqrt ",
            "∞": r"\infty ",
            "≤": r"\le ",
            "≥": r"\ge ",
            "≠": r"\ne ",
            "∪": r"\cup ",
            "∅": r"\emptyset ",
        },
        **{"°": "", "²": "^{2}", "³": "^{3}", "½": r"\frac{1}{2}", "∈": r"\in ", "±": r"\pm ", "θ": r"\theta "},
        **{"\u00a0": " ", "\u202f": " ", "\u2009": " ", "∼": " ", "~": " ", "\t": " ", "\n": " ", "\r": " ", "\0": " "},
    }
)
_REPLACED = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\\$", ""),
        (r"\$|\\\(|\\\)|\\\[(?!\d)|\\\](?!\d)", ""),
        (r",\s*\\!\s*", ","),
        (r"(?<=\d),(?=\d{3},\d{3}(?!\d))", ","),
        (r"\\!", ""),
        (r"(?<!\\)\\[,;: ]|\\q?quad\b", " "),
        (r"\{,\}", ","),
        (r"\\langle(?![A-Za-z])", "("),
        (r"\\rangle(?![A-Za-z])", ")"),
        (r"\\mathbb\s*\{?\s*R\s*\}?|\\Reals(?![A-Za-z])", r"(-\\infty,\\infty)"),
        (r"^\s*\\text\{\s*(-?\d[^{}]*)\}\s*$", r"\1"),
        (r"\\(?:left|right)\s*\.", ""),
        (r"\\(?:left|right|[bB]igg?[lr]?)(?![A-Za-z])", ""),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\(?:mbox|textbf|textit|textrm|mathrm|mathbf|mathit|operatorname)(?=\s*\{)", r"\\text"),
        (r"\\text\s+\{", r"\\text{"),
        (r"\^\s*\{?\s*\\circ\s*\}?|\\degrees?\b", ""),
        (r"\\(?:leqslant|leq)(?![A-Za-z])|<\s*=", r"\\le "),
        (r"\\(?:geqslant|geq)(?![A-Za-z])|>\s*=", r"\\ge "),
        (r"\\neq(?![A-Za-z])|!\s*=", r"\\ne "),
        (r"\\lt(?![A-Za-z])", "<"),
        (r"\\gt(?![A-Za-z])", ">"),
        (r"\\(?:varnothing|phi)$|^\\\{\s*\\\}$", r"\\emptyset"),
        (r"\\text\{\s*(?:,\s*)?(?:and|or)\s*\}|(?<![A-Za-z\\])(?:,\s*)?(?:and|or)(?![A-Za-z])", ","),
        (r"\\[lr]vert(?![A-Za-z])", "|"),
        (r"(?<=\d)\s*[eE]([-+]?\d+)(?![A-Za-z\d])", r"*10^{\1}"),
        (r"(?<![\d.])(-?\d+) (\d+)/(\d+)$", r"\1\\frac{\2}{\3}"),
        (r"\\not\\in\b", r"\\notin "),
    )
)
_PERCENT = re.compile(r"\s*(?:\\?%|\\text\{\s*percent\s*\}|\bpercent)\s*$", re.IGNORECASE)
_TEXT_UNIT = re.compile(r"^(.*\S)\s*\\text\{\s*([^{}]*?)\s*\}\s*(?:\^\s*\{?\s*(-?\d)\s*\}?)?$", re.DOTALL)
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?")
_CURRENCY = re.compile(r"^\s*(-?)\s*[€£¥]|(?<=\d)\s*[€£¥]\s*$")

_UNITS = {
    **dict.fromkeys(("", "unit", "units", "degree", "degrees", "deg", "square units", "units squared"), ""),
    **dict.fromkeys(("cubic units", "sq units", "radians", "rad", "points"), ""),
    **dict.fromkeys(("in", "inch", "inches"), "inch"),
    **dict.fromkeys(("ft", "foot", "feet"), "foot"),
    **dict.fromkeys(("yd", "yard", "yards"), "yard"),
    **dict.fromkeys(("mi", "mile", "miles"), "mile"),
    **dict.fromkeys(("mm", "millimeter", "millimeters"), "mm"),
    **dict.fromkeys(("cm", "centimeter", "centimeters", "centimetre", "centimetres"), "cm"),
    **dict.fromkeys(("m", "meter", "meters", "metre", "metres"), "m"),
    **dict.fromkeys(("km", "kilometer", "kilometers", "kilometre", "kilometres"), "km"),
    **dict.fromkeys(("mg", "milligram", "milligrams"), "mg"),
    **dict.fromkeys(("g", "gram", "grams"), "g"),
    **dict.fromkeys(("kg", "kilogram", "kilograms"), "kg"),
    **dict.fromkeys(("lb", "lbs", "pound", "pounds"), "pound"),
    **dict.fromkeys(("oz", "ounce", "ounces"), "ounce"),
    **dict.fromkeys(("s", "sec", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "minute", "minutes"), "minute"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "day"),
    **dict.fromkeys(("week", "weeks"), "week"),
    **dict.fromkeys(("year", "years"), "year"),
    **dict.fromkeys(("dollar", "dollars", "usd"), ""),
    **dict.fromkeys(("cent", "cents"), "cent"),
    **dict.fromkeys(("liter", "liters", "litre", "litres"), "liter"),
    **dict.fromkeys(("ml", "milliliter", "milliliters"), "ml"),
    **dict.fromkeys(("mph", "miles per hour", "miles/hour"), "mile/h"),
    **dict.fromkeys(("km/h", "kmh", "kph", "kilometers per hour"), "km/h"),
    **dict.fromkeys(("m/s", "meters per second"), "m/s"),
    **dict.fromkeys(("N", "newton", "newtons"), "N"),
    **dict.fromkeys(("J", "joule", "joules"), "J"),
    **dict.fromkeys(("W", "watt", "watts"), "W"),
    **dict.fromkeys(("V", "volt", "volts"), "V"),
    **dict.fromkeys(("hz", "hertz"), "Hz"),
}
_WORD_UNIT = re.compile(
    r"^(.*[\d)}])(?:\s+|(?=[A-Za-z]{2}))((?:square |cubic |sq\.? )?"
    rf"(?:{'|'.join(sorted((re.escape(name) for name in _UNITS if len(name) > 1), key=len, reverse=True))}))"
    r"\.?\s*(?:\^\s*\{?\s*(-?\d)\s*\}?)?$",
    re.DOTALL,
)
_LETTER_UNIT = re.compile(
    r"^\s*([-+]?[\d.]+(?:\s*(?:\*|\\times|\\cdot)\s*10\^\{?[-+]?\d+\}?)?)\s+([msghNJWV])(?:\^\{?(-?\d)\}?)?$"
)
"""Letters are units after a number and a space only: 5m may be five times m."""
_COUNTED = re.compile(r"^\s*([-+]?\d[\d.,/]*)\s+([A-Za-z]{3,}(?: [A-Za-z]+)*)$")
"""A plain number of anything: 12 apples."""


class Quantity(NamedTuple):
    """A text in one way of writing, apart from its unit ("" for none) and its percent sign."""

    text: str
    unit: str = ""
    percent: bool = False


def tidy(text: str) -> str:
    """The same text in one way of writing. Equal texts afterwards mean the same; different ones may."""
    text = text.translate(_CHARACTERS)
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    text = re.sub(r"\s+", " ", _CURRENCY.sub(r"\1", text)).strip()
    while len(text) > 1 and text[-1] in ".,;:" and not text.endswith("\\,"):
        text = text[:-1].rstrip()
    return text


def quantity(text: str) -> Quantity:
    """Take unit and percent sign off a tidied text; thousands lose their commas."""
    if percent := _PERCENT.search(text):
        return Quantity(_number(text[: percent.start()]), percent=True)
    match = _TEXT_UNIT.match(text) or _WORD_UNIT.match(text) or _LETTER_UNIT.match(text) or _COUNTED.match(text)
    # The last word of a sentence in several \text is no unit.
    if match and "\\text" not in match[1] and _has_value(match[1]):
        return Quantity(_number(match[1].strip()), unit(match[2], (match[3] or "") if match.re.groups > 2 else ""))
    return Quantity(_number(text))


def unit(word: str, power: str = "") -> str:
    """The one name of a unit, with its power."""
    word = " ".join(word.strip(" .").split())
    word = word if len(word) == 1 else word.casefold()
    for prefix, exponent in (("square ", "2"), ("sq ", "2"), ("sq. ", "2"), ("cubic ", "3")):
        if word.startswith(prefix):
            word, power = word.removeprefix(prefix), exponent
    name = _UNITS.get(word, word)
    return f"{name}^{power}" if name and power not in ("", "1") else name


def _has_value(text: str) -> bool:
    """Whether it may be a number or formula, so that what follows may be its unit."""
    return bool(re.search(r"\d|\\[a-z]|\b[a-z]\b", text))


def _number(text: str) -> str:
    text = text.strip()
    return text.replace(",", "") if _THOUSANDS.fullmatch(text) else text


def bare(text: str) -> str:
    r"""The words without \text{…}, case, quotes and brackets around them: for answers that are words."""
    text = re.sub(r"\\text\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\s+", " ", text.replace("\\", "")).strip(" .,;:'\"*")
    if len(text) > 1 and text[0] in "([{" and text[-1] in ")]}" and not re.search(r"[()\[\]{}]", text[1:-1]):
        text = text[1:-1].strip()
    return text.casefold()
