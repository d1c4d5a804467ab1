"""Telling the text to work on from the words that say what to do with it.

`split(sentence)` gives the words with a SLOT for every operand, and the operands. An operand is quoted
("…", '…', “…”, «…», `…`), or stands after a colon, or is a list of single words or numbers with commas. What
is quoted is taken as it is; after a colon, the text goes to the end, without the full stop if it is a single
word or a list, and without a closing "in descending order", "alphabetically" or the like.
"""

import re

from conductor_plugin.workers.tools.reading import CLOSE, OPEN
from conductor_plugin.workers.tools.strings import THOUSANDS, Operand
from conductor_plugin.workers.tools.trees import Unreadable

SLOT = "\ue002"
MAX_WORDS = 400
"""Characters of the words that say what to do."""
ORDER = (
    r"(?:in(?:to)? )?(?:(?:ascending|descending|increasing|decreasing|reverse|alphabetical|numerical) ?)+(?:order)?"
    r"|(?:reverse )?(?:alphabetically|numerically)|from a to z|from z to a|by (?:length|value)"
    r"|from (?:the )?(?:smallest|lowest|least|shortest) to (?:the )?(?:largest|highest|biggest|greatest|longest)"
    r"|from (?:the )?(?:largest|highest|biggest|greatest|longest) to (?:the )?(?:smallest|lowest|least|shortest)"
    r"|(?:largest|highest|biggest|greatest|longest|smallest|lowest|least|shortest) first"
)
_HEAD = re.compile(rf"([^:\n]{{1,{MAX_WORDS}}})(?::\s+|\n+)(?=\S)")
_CLOSING = {'"': '"', "“": "”", "«": "»", "‘": "’", "`": "`", OPEN: CLOSE}
_OPENING = re.compile(rf"[\"“«`{OPEN}]|(?<!\w)['‘]")
_SINGLE_END = re.compile(r"['’](?!\w)")
_TAIL = re.compile(
    rf"^(.*?\S)[,.;]?\s+((?:{ORDER})|in (?:all )?(?:upper|lower) ?case|backwards?)[.!]?$", re.DOTALL | re.IGNORECASE
)
_VERBS = (
    r"(?:give|return|output|answer|respond|reply|explain|sort|reverse|count|convert|use|show|list|write|tell|say|print"
    r"|remove|replace|extract|join|make|uppercase|lowercase|capitali[sz]e|translate)"
)
_MORE = re.compile(
    r"(?:[,.;?!]\s{1,3}|\s)(?:and )?then\b|[,.;\s](?:and|but) (?:also )?"
    rf"{_VERBS}\b|[.?!\n]\s{{0,3}}(?:(?:now|next|finally|also|only|please|do|don't|what|how|which)\b|{_VERBS}\b)",
    re.IGNORECASE,
)
_ITEM = r"-?\w[\w.'’-]*"
_LIST = re.compile(
    rf"(?<![\w,]){_ITEM}(?:, ?{_ITEM})+(?:,? and (?!in\b){_ITEM})?(?![\w,])"
    rf"|(?<=\bwords )(?!in\b|of\b){_ITEM} and {_ITEM}|(?<=\bnumbers ){_ITEM} and {_ITEM}"
)
_ADJACENT = re.compile(rf"{SLOT}(?:(?:, ?(?:and |or )?| and | or ){SLOT})+")


def split(sentence: str) -> tuple[str, list[Operand]]:
    """The words, with SLOT where an operand was, and the operands in order. `Unreadable` if that is unclear."""
    if SLOT in sentence:
        raise Unreadable("a private character")
    head = _HEAD.match(sentence)
    if head and not _OPENING.search(head[0]) and not _OPENING.match(sentence, head.end()):
        tail, text = _after_colon(head[0], sentence[head.end() :].strip())
        return f"{head[1].rstrip(' ?.')} {SLOT} {tail}".strip(), [text]
    words, quoted = _quoted(sentence)
    if len(words) > MAX_WORDS:
        raise Unreadable("too many words")
    words = re.sub(rf"\s*:\s*{SLOT}", f" {SLOT}", words)
    if not quoted and (listed := _LIST.search(words)):
        if THOUSANDS.search(listed[0]) or re.search(r"\b(?:the|an?|my|your) $", words[: listed.start()]):
            raise Unreadable("where does the list begin, and which are its items?")
        items = re.split(r",? (?:and|or) |, ?", listed[0])
        if {item.lower() for item in items} & {"it", "this", "that", "them", "these", "those"}:
            raise Unreadable("a list of what?")
        return words[: listed.start()] + SLOT + words[listed.end() :], [tuple(item.rstrip(".") for item in items)]
    return _with_lists(words, [*quoted])


def _quoted(sentence: str) -> tuple[str, list[str]]:
    parts, operands = [], []
    at = 0
    while opening := _OPENING.search(sentence, at):
        closing = _closing(sentence, opening[0], opening.end())
        if closing < 0:
            raise Unreadable("a quotation that does not end")
        parts.append(sentence[at : opening.start()])
        operands.append(sentence[opening.end() : closing])
        at = closing + 1
    return SLOT.join([*parts, sentence[at:]]), operands


def _closing(sentence: str, opening: str, start: int) -> int:
    if opening in "'‘":
        match = _SINGLE_END.search(sentence, start)
        return match.start() if match else -1
    return sentence.find(_CLOSING[opening], start)


def _after_colon(head: str, text: str) -> tuple[str, str]:
    """(closing words that belong to the head, the operand)"""
    if _MORE.search(text) or OPEN in text:
        raise Unreadable("where does the text end?")
    tail = ""
    if len(text) < 20_000 and (match := _TAIL.match(text)):
        text, tail = match[1].rstrip(",;"), match[2]
    asking = re.match(r"\s*(?:what|how|is|are|does|which)\b", head, re.IGNORECASE)
    if asking and text.endswith("?"):
        text = text[:-1]
    if " " not in text or re.fullmatch(rf"{_ITEM}(?:, ?{_ITEM})+(?:,? and {_ITEM})?[.]?", text[:20_000]):
        text = text.rstrip(".")
    return tail, text


def _with_lists(words: str, operands: list[Operand]) -> tuple[str, list[Operand]]:
    """Quoted texts that stand side by side are one operand, a list."""
    merged: list[Operand] = []
    at = 0

    def merge(match: re.Match[str]) -> str:
        nonlocal at
        before = words.count(SLOT, 0, match.start())
        size = match[0].count(SLOT)
        merged.extend(operands[at:before])
        merged.append(tuple(text for text in operands[before : before + size] if isinstance(text, str)))
        at = before + size
        return SLOT

    joined = _ADJACENT.sub(merge, words)
    return joined, [*merged, *operands[at:]]
