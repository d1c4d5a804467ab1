"""Multiple choice: which option an answer names."""

import re
from collections.abc import Sequence

from conductor_plugin.grading.extract import MAX_CHARACTERS, statements, without_markdown
from conductor_plugin.grading.verdict import Verdict

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_WRAPPED = re.compile(r"\\(?:text|textbf|mathrm|mathbf|boxed|fbox)\s*\{([^{}]*)\}")
_LEAD = re.compile(
    r"(?:(?:definitely|clearly|therefore|thus|most likely|probably)[, ]+)?(?:the\s+)?(?:option|choice|letter)?\s*", re.I
)
_LETTER = re.compile(r"[(\[{]?\s*([A-Za-z])\s*[)\]}]?(?![A-Za-z0-9'’_^=+*/-])")
_ANOTHER = re.compile(r"\s*(?:,|/|&|or\b|and\b)+\s*(?:and\b|or\b)?\s*(?:options?\s+)?[(\[]?([A-Z])\b(?!')")
_PROSE = re.compile(
    r"\s+(?!because|since|as\b|and\b|which|for\b|with\b|due|is\b|given|by\b|based|from|i\.e|or\b|but\b)[a-z]"
)
_LINE = re.compile(
    r"(?:the\s+)?(?:correct\s+)?(?:option|choice)?\s*[(\[]?\s*([A-Za-z])\s*[)\]]?\s*(?:[.:)].*)?", re.IGNORECASE
)


def grade_choice(gold: str, answer: str, options: Sequence[str]) -> Verdict:
    """The letter that the answer names against the gold's. `options`: the texts in their order, or none if unknown."""
    letter = find_letter(answer, options)
    if letter is None:
        return Verdict(outcome="unparsed", detail="no option was named, or several")
    return Verdict(outcome="right" if letter == gold.strip().upper() else "wrong", extracted=letter)


def find_letter(answer: str, options: Sequence[str] = ()) -> str | None:
    r"""The letter of the option that is named last.

    The last \boxed, <answer> or "answer is" that names one, by its letter or its text; else the option whose text
    is the only one in the last line; else a last line that is a letter. Naming several options names none.
    """
    letters = LETTERS[: len(options) or 10]
    plain = _unwrapped(answer[-MAX_CHARACTERS:])
    for said in statements(answer):
        if found := _named(_unwrapped(said), letters, options):
            return found if found in letters else None
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    if not lines:
        return None
    match = _LINE.fullmatch(lines[-1])
    lone = match[1].upper() if match and match[1].upper() in letters else None
    return _by_text(lines[-1], letters, options) or lone


def _unwrapped(text: str) -> str:
    r"""Without markdown, dollars and \text{…}."""
    text = without_markdown(text)
    for _ in range(3):
        text = _WRAPPED.sub(r"\1", text)
    return text.replace("$", "").replace("*", "").replace("\\(", "(").replace("\\)", ")")


def _named(said: str, letters: str, options: Sequence[str]) -> str | None:
    """The letter that a statement begins with, "several" if it goes on to others; else by the option's text."""
    said = said[_lead(said) :]
    match = _LETTER.match(said)
    if match and _is_letter(match, said, letters):
        another = _ANOTHER.match(said, match.end())
        if another and another[1] in letters and another[1] != match[1].upper():
            return "several"
        return match[1].upper()
    return _by_text(said.split("\n", 1)[0], letters, options)


def _lead(said: str) -> int:
    match = _LEAD.match(said)
    return match.end() if match else 0


def _is_letter(match: re.Match[str], said: str, letters: str) -> bool:
    letter, rest = match[1], said[match.end() :]
    if letter.upper() not in letters:
        return False
    bracketed = match[0].strip() != letter
    if letter.islower():
        # "the answer is a force", "answer: b".
        return bracketed or not rest.strip() or rest[0] in ".):,"
    # "A force", "I think": words, unless a reason follows.
    return bracketed or letter not in "AI" or not _PROSE.match(rest)


def _by_text(said: str, letters: str, options: Sequence[str]) -> str | None:
    """The option whose text is said: exactly, else the only one contained (longer texts hide those inside them)."""
    words, texts = _key(said), [_key(option) for option in options]
    exact = [n for n, text in enumerate(texts) if text and text == words]
    if exact:
        return letters[exact[0]] if len(exact) == 1 else None
    inside = [n for n, text in enumerate(texts) if text and f" {text} " in f" {words} "]
    longest = [n for n in inside if not any(n != m and f" {texts[n]} " in f" {texts[m]} " for m in inside)]
    return letters[longest[0]] if len(longest) == 1 else None


def _key(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+|[-+*/^=<>.%](?=\w)|%", _unwrapped(text).casefold()))
