"""Reading the answer out of an earlier step's output, which may be a bare number or a page of prose.

"12", "x = 12", "The answer is **12**.", "3 + 9 = 12 apples" and a page that ends in "Answer: 12" all stand
for 12. An output with several numbers and nothing that says which one is the answer stands for none.
"""

import re

NUMBER = r"-?(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])|[0-9]+)(?:\.[0-9]+)?(?:/[0-9]+(?:\.[0-9]+)?)?"
_VALUE = rf"(?:[a-z] ?= ?)?\(?({NUMBER})\)?"
_ONE = re.compile(_VALUE, re.IGNORECASE)
_SEVERAL = re.compile(rf"{_VALUE}(?:(?:,? and |,? or |, ?|; ?){_VALUE})+", re.IGNORECASE)
_ANY = re.compile(rf"(?<![\w.,/^:-]){NUMBER}(?![\w/^%:]|[.,][0-9])")
_SUM = re.compile(r"[0-9)]\s?[-+*×÷^]\s?[0-9(]|\b(?:or|about|approximately|roughly|not)\b|≈", re.IGNORECASE)
_CUE = re.compile(r"(?:\banswer|\bresult|\bvalue|\btotal)?\s*(?:=|:|≈|\bis|\bare|\bequals|\bgives)\s+", re.IGNORECASE)
_LEAD = re.compile(
    r"(?:so |thus |therefore |hence )?,?(?:the )?(?:final |correct )?(?:answer|result|output|solution|value)"
    r"(?: is|:| =| would be)\s*:?\s*",
    re.IGNORECASE,
)
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")
_MARKS = [("**", "**"), ("`", "`"), ("$", "$"), ("\\(", "\\)")]
# 2x = 4, f(2) = 4: what stands behind the sign is not what the text is about.
_ALGEBRA = re.compile(r"[-+*/^0-9()]\s?[a-z](?![a-z])[^=]*=|(?<![a-z])[a-z]\s?[-+*/^(][^=]*=", re.IGNORECASE)


def core(output: str) -> str:
    """The output without "The answer is", marks of emphasis and, where it had those, the final full stop."""
    text = output.strip()
    if boxed := _BOXED.findall(text):
        return str(boxed[-1]).strip()
    last = text.rsplit("\n", 1)[-1].strip().lstrip("*_ ")
    lead = _LEAD.match(last)
    stripped = last[lead.end() :].rstrip(".* ") if lead else text
    for opening, closing in _MARKS:
        if stripped.startswith(opening) and stripped.endswith(closing) and len(stripped) > 4:
            stripped = stripped[len(opening) : -len(closing)].strip()
    single_word = not re.search(r"\s", stripped)
    return stripped.rstrip(".") if lead or single_word else stripped


def number(output: str) -> str | None:
    """The one number that the output gives as its answer, as it is written there; None if that is unclear."""
    text = core(output)
    if whole := _ONE.fullmatch(text.rstrip(".")):
        return _clean(whole[1])
    if _SEVERAL.fullmatch(text.rstrip(".")):
        return None
    last = re.split(r"\n+|(?<=[a-z)])\. (?=[A-Z])", text)[-1]
    if len(last) > 1_000 or _ALGEBRA.search(last):
        return None
    cues = list(_CUE.finditer(last))
    for part in ([last[cues[-1].end() :]] if cues else []) + [last]:
        found = {_clean(match[0]) for match in _ANY.finditer(part)}
        if len(found) == 1 and not _SUM.search(part):
            return found.pop()
    return None


def numbers(output: str) -> list[str] | None:
    """The numbers, where the whole output is a list of them: "2, 3 and 5", "x = 2 or x = 3"; else None."""
    text = core(output).rstrip(".")
    if not (_ONE.fullmatch(text) or _SEVERAL.fullmatch(text)):
        return None
    return [_clean(match[0]) for match in re.finditer(NUMBER, text)]


def _clean(text: str) -> str:
    return text.replace(",", "")
