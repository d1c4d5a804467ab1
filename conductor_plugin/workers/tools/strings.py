"""Operations on text. Pure, exact, and linear in the text's length (sorting aside).

An operand is a text, or a tuple of texts where the sentence listed them one by one. `Unreadable` says that an
operand does not fit the operation; None that the sentence has more than one reading for it.
"""

import re
import unicodedata
from collections import Counter
from decimal import Decimal
from typing import TypeAlias

from conductor_plugin.workers.tools.trees import Unreadable

Operand: TypeAlias = str | tuple[str, ...]

# A letter keeps its accents, and an emoji its parts.
CLUSTER = re.compile("[\U0001f1e6-\U0001f1ff]{2}|(?s:.)(?:[\u0300-\u036f\ufe0f\U0001f3fb-\U0001f3ff]|\u200d(?s:.))*")
NUMBER = re.compile(r"(?<![\w.])-?(?:[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?|\.[0-9]+)(?!\w|\.[0-9])")
THOUSANDS = re.compile(r"[0-9],[0-9]{3}(?![0-9])")
_VOWELS = frozenset("aeiou")


def one(operand: Operand) -> str:
    """The operand as a single text that is not blank."""
    if not isinstance(operand, str) or not operand.strip():
        raise Unreadable("one text is needed")
    return operand


def items(operand: Operand, what: str = "") -> tuple[list[str], str]:
    """The listed things and what to join them with again: comma-separated, lines, or words."""
    if isinstance(operand, tuple):
        return list(operand), ", "
    text = one(operand).strip().removeprefix("[").removesuffix("]")
    if what in ("letters", "characters"):
        return [cluster for cluster in CLUSTER.findall(text) if not cluster.isspace()], ""
    if what == "lines" or ("\n" in text and what != "words" and "," not in text):
        return [line for line in text.splitlines() if line.strip()], "\n"
    if "," in text or ";" in text:
        sign = "," if "," in text else ";"
        if THOUSANDS.search(text):
            raise Unreadable("a list, or a number with thousands separators?")
        parts = [re.sub(r"^and ", "", part.strip()) for part in text.split(sign)]
        if len(parts) > 1 and not all(parts):
            raise Unreadable("an empty item")
        if what == "words" and any(" " in part for part in parts):
            return words(text), " "
        parts = [*parts[:-1], *re.split(r" and ", parts[-1])] if " and " in parts[-1] else parts
        return [part.strip("\"'") for part in parts], f"{sign} "
    return words(text) if what == "words" else text.split(), " "


def words(text: str) -> list[str]:
    """Stretches without white space that have a letter or a digit, without the punctuation around them."""
    found = (re.search(r"\w.*\w|\w", word) for word in text.split())
    return [match[0] for match in found if match and any(character.isalnum() for character in match[0])]


def reverse(operand: Operand) -> str:
    """A text letter by letter; a list item by item."""
    if isinstance(operand, tuple):
        return ", ".join(reversed(operand))
    return "".join(reversed(CLUSTER.findall(one(operand))))


def reverse_sentence(operand: Operand) -> str | None:
    """Of several words it would be unclear whether the letters or the words are meant."""
    return reverse(operand) if len(one(operand).split()) == 1 else None


def reverse_items(operand: Operand, what: str = "") -> str | None:
    listed, sign = items(operand, what)
    return sign.join(reversed(listed)) if len(listed) > 1 else None


def reverse_words(operand: Operand) -> str | None:
    if isinstance(operand, tuple):
        return reverse_items(operand)
    found = one(operand).split()
    return " ".join(reversed(found)) if len(found) > 1 else None


def reverse_each_word(operand: Operand) -> str:
    return re.sub(r"\S+", lambda word: reverse(word[0]), one(operand))


def sort(what: str | None, operand: Operand, order: str | None) -> str | None:
    """Numbers by value, all else alphabetically without regard to case; `by length` keeps ties in place."""
    what, order = (what or "").strip(), (order or "").lower()
    descending = _is_descending(order)
    if what in ("letters", "characters", "digits"):
        return _sorted_letters(one(operand), what, descending)
    listed, sign = items(operand, what)
    if len(listed) < 2:
        return None
    numbers = [NUMBER.fullmatch(item) is not None for item in listed]
    if re.search("length|longest|shortest", order):
        return sign.join(sorted(listed, key=len, reverse=descending))
    if all(numbers) and "alphabetical" not in order:
        return sign.join(sorted(listed, key=lambda item: Decimal(item.replace(",", "")), reverse=descending))
    if any(numbers) or what == "numbers" or re.search("numer|largest|smallest|highest|lowest", order):
        return None
    return sign.join(sorted(listed, key=lambda item: (item.casefold(), item), reverse=descending))


def _is_descending(order: str) -> bool:
    """The first word that says so decides: "from largest to smallest"."""
    down = "descending|decreasing|reverse|largest|highest|biggest|greatest|longest|z to a"
    word = re.search(rf"(?P<down>{down})|ascending|increasing|smallest|lowest|least|shortest|a to z", order)
    return word is not None and word["down"] is not None


def _sorted_letters(text: str, what: str, descending: bool) -> str | None:
    kinds = {"letters": str.isalpha, "digits": str.isdigit, "characters": lambda c: not c.isspace()}
    kept = filter(kinds[what], text)
    return "".join(sorted(kept, key=lambda c: (c.casefold(), c), reverse=descending)) or None


def count(what: str, operand: Operand) -> str:
    """How many letters (of any script), characters (spaces included), words, vowels (aeiou), …"""
    text = one(operand) if isinstance(operand, str) else " ".join(operand)
    what = re.sub(r"[- ]", "", what.lower())
    plain = unicodedata.normalize("NFD", text.lower())
    counts = {
        "letters": sum(c.isalpha() for c in text),
        "characters": len(CLUSTER.findall(text)),
        "words": len(operand) if isinstance(operand, tuple) else len(words(text)),
        "vowels": sum(c in _VOWELS for c in plain),
        "consonants": sum(c.isalpha() and c not in _VOWELS for c in plain),
        "digits": sum("0" <= c <= "9" for c in text),
        "spaces": text.count(" "),
        "lines": len(text.splitlines()),
        "numbers": len(NUMBER.findall(text)),
        "uppercaseletters": sum(c.isupper() for c in text),
        "lowercaseletters": sum(c.islower() for c in text),
    }
    return str(counts[what.replace("capital", "uppercase")])


def count_without_spaces(operand: Operand) -> str:
    return count("characters", re.sub(r"\s", "", one(operand)))


def count_of(part: Operand, operand: Operand) -> str | None:
    """Occurrences of a letter, or of a longer string, in a text; upper and lower case are the same.

    None where overlaps, or words within words, make it unclear what counts.
    """
    small, text = one(part).lower(), one(operand).lower()
    separate = text.count(small)
    if len(small) > 1:
        overlapping = sum(text.startswith(small, i) for i in range(len(text))) if len(text) < 20_000 else -1
        if overlapping != separate or (small.isalpha() and " " in text and separate != _whole(small, text)):
            return None
    return str(separate)


def count_word(word: Operand, operand: Operand) -> str:
    """Occurrences as a word of its own."""
    return str(_whole(one(word).lower(), one(operand).lower()))


def _whole(word: str, text: str) -> int:
    return len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", text))


def change_case(case: str, operand: Operand) -> str:
    text = one(operand) if isinstance(operand, str) else ", ".join(operand)
    case = re.sub(r"[- ]", "", case.lower())
    if case.startswith("title"):
        return capitalise_each(text)
    return text.lower() if case.startswith(("lower", "small")) else text.upper()


def change_case_last(operand: Operand, case: str) -> str:
    return change_case(case, operand)


def capitalise(operand: Operand) -> str | None:
    """Of several words it would be unclear whether each gets a capital."""
    text = one(operand)
    return capitalise_first(text) if len(text.split()) == 1 else None


def capitalise_first(operand: Operand) -> str:
    text = one(operand)
    return text[0].upper() + text[1:]


def capitalise_each(operand: Operand) -> str:
    """Every word with a capital and all else small, apostrophes being part of words."""
    return re.sub(r"[^\W\d_][\w'’]*", lambda word: word[0][0].upper() + word[0][1:].lower(), one(operand))


def without_duplicates(what: str | None, operand: Operand) -> str | None:
    """Each thing where it stands first. Of a single word it must be said that its letters are meant."""
    what = (what or "").strip()
    if what in ("letters", "characters"):
        return "".join(dict.fromkeys(one(operand)))
    listed, sign = items(operand, what)
    return sign.join(dict.fromkeys(listed)) if len(listed) > 1 else None


def remove(what: str, operand: Operand) -> str | None:
    kinds = {
        "space": r"\s",
        "whitespace": r"\s",
        "vowel": "[aeiouAEIOU]",
        "digit": "[0-9]",
        "punctuation": r"[^\w\s]|_",
    }
    return re.sub(kinds[what.lower().rstrip("s")], "", one(operand)).strip() or None


def replace(old: Operand, new: Operand, operand: Operand) -> str | None:
    """Exactly as written; None if it does not occur."""
    text = one(operand)
    return text.replace(one(old), new) if isinstance(new, str) and one(old) in text else None


def join(operand: Operand, sign: str | None) -> str | None:
    """With the sign alone: "with commas" gives `a,b`."""
    listed, _ = items(operand)
    return sign.join(listed) if sign is not None and len(listed) > 1 else None


def is_palindrome(operand: Operand) -> str | None:
    """Without regard to case, spaces and punctuation."""
    letters = [c for c in one(operand).casefold() if c.isalnum()]
    return None if not letters else "yes" if letters == letters[::-1] else "no"


def are_anagrams(first: Operand, second: Operand) -> str | None:
    """Without regard to case, spaces and punctuation."""
    letters, others = (Counter(c for c in one(text).casefold() if c.isalnum()) for text in (first, second))
    return None if not letters or not others else "yes" if letters == others else "no"
