"""What the text tool can be asked: sentences on the left, operations on the right.

In a pattern, <t> is a text (a SLOT of `quoting`), <w> a text or a single unquoted word, <x> a text or a
single letter; each may be announced ("the word", "the string"). The first pattern that fits decides.
"""

import re
from collections.abc import Callable

from conductor_plugin.workers.tools import excerpts, strings
from conductor_plugin.workers.tools.quoting import ORDER, SLOT
from conductor_plugin.workers.tools.strings import Operand


def _sort_last(order: str, what: str | None, operand: Operand) -> str | None:
    return strings.sort(what, operand, order)


def _sort_middle(what: str, order: str, operand: Operand) -> str | None:
    return strings.sort(what, operand, order)


def _join_with(operand: Operand, name: str) -> str | None:
    words = name.lower().split()
    signs = [_SIGNS.get(word.rstrip("s")) for word in words if word not in ("a", "an", "single")]
    return strings.join(operand, signs[0] if len(signs) == 1 else None)


def _anagrams(operand: Operand) -> str | None:
    return strings.are_anagrams(*operand) if isinstance(operand, tuple) and len(operand) == 2 else None


def _length(operand: Operand) -> str:
    return strings.count("characters", operand)


def _without_duplicates(operand: Operand) -> str | None:
    return strings.without_duplicates(None, operand)


def _concatenate(operand: Operand) -> str | None:
    return strings.join(operand, "")


def _join_by(operand: Operand, sign: Operand) -> str | None:
    return strings.join(operand, sign) if isinstance(sign, str) else None


def _concatenated_edges(which: str, operand: Operand) -> str | None:
    return excerpts.edge_letters(which, operand, "joined")


_SIGNS = {"space": " ", "comma": ",", "hyphen": "-", "dash": "-", "underscore": "_", "slash": "/", "newline": "\n"}
CASE = r"(?:(?:upper|lower|title)[ -]?case|capitals|capital letters|caps|small letters)"
NTH = r"(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last|final|[0-9]{1,6}(?:st|nd|rd|th))"
FEW = r"(?P<which>first|last) (?P<number>one|two|three|four|five|six|seven|eight|nine|ten|[0-9]{1,6})"
_COUNTED = r"(?P<what>letters|characters|vowels|consonants|digits|(?:capital|upper ?case|lower ?case) letters)"
_SORTED = r"(?:(?P<what>words|letters|characters|digits|numbers|items|lines) (?:(?:of|in|from) )?)?"
_KIND = r"(?P<kind>numbers|digits|e-?mails?|e-?mail addresses|urls|links|quoted text|quotations|quotes)"
_ONE_KIND = r"(?P<kind>number|e-?mail address|e-?mail|url|link|quotation)"
_FOUND = r"(?:(?:are|is|does|do|occurs?|appears?|shows? up|found|used) )*"
_TIMES = r"(?:(?:times|occurrences of|instances of|appearances of) )?"
_EACH = r"(?:each|every)(?: of)? words?"
_IN_CASE = rf"(?:all )?(?P<case>{CASE})(?: letters)?"
_REMOVE = r"(?:remove|delete|drop|strip)"
_JOIN = r"(?:join|concatenate|combine) (?:(?:words|strings|letters|items) )?"

NORMAL = [
    (re.compile(pattern, re.IGNORECASE), by)
    for pattern, by in (
        (r"\b(?:(?:the|these|following|given|there|this|all of|all) )+(?=\S)", ""),
        (r"^(?:how many|number of|count(?: how many| number of| of)?) ", "count "),
        (r"^how (?:do you|is|would you) (?=spell|write)", ""),
        (rf"\blist of (?:words|numbers|items|names) (?={SLOT})", "list "),
    )
]
_PATTERNS: list[tuple[str, Callable[..., str | None]]] = [
    (r"reverse (?:order of )?(?:letters|characters) (?:(?:of|in) )?<w>", strings.reverse),
    (r"(?:spell|write|say|print) <w> (?:backwards?|in reverse(?: order)?|reversed)", strings.reverse),
    (r"<w> (?:(?:spelled|spelt|written) )?(?:backwards?|reversed|in reverse)|reverse of <w>", strings.reverse),
    (r"reverse (?:order of )?words (?:(?:of|in) )?<t>|reverse word order (?:of|in) <t>", strings.reverse_words),
    (r"reverse <t> word by word", strings.reverse_words),
    (rf"reverse (?:(?:letters|characters) (?:of|in) )?{_EACH} (?:of|in) <t>", strings.reverse_each_word),
    (rf"reverse sentence (?P<o1>{SLOT})", strings.reverse_sentence),
    (
        r"reverse (?:order of )?(?:(?:list|items|elements|numbers|lines)(?: (?:of|in))? |order of )<t>",
        strings.reverse_items,
    ),
    (r"reverse <w>", strings.reverse),
    (rf"(?:sort|alphabeti[sz]e) {_SORTED}<t>(?:,? (?P<order>{ORDER}))?", strings.sort),
    (rf"(?:order|arrange|put) {_SORTED}<t>,? (?P<order>{ORDER})", strings.sort),
    (
        rf"(?:sort|order|arrange) (?P<what>letters|characters|digits) (?:of|in) <w>(?:,? (?P<order>{ORDER}))?",
        strings.sort,
    ),
    (rf"(?:sort|order|arrange) (?P<order>{ORDER}) {_SORTED}<t>", _sort_last),
    (rf"(?:sort|order|arrange) (?P<what>words|numbers|items|lines) (?P<order>{ORDER}) <t>", _sort_middle),
    (rf"count {_COUNTED} {_FOUND}(?:of|in) <w>", strings.count),
    (rf"count (?P<what>words|lines|numbers|spaces) {_FOUND}(?:of|in) <t>", strings.count),
    (r"length of <t>", _length),
    (
        rf"count characters {_FOUND}(?:of|in) <w>,? (?:excluding|not counting|without|ignoring) spaces",
        strings.count_without_spaces,
    ),
    (rf"count {_TIMES}{_FOUND}word <w> {_FOUND}in <w>", strings.count_word),
    (
        rf"count {_TIMES}{_FOUND}(?:(?:letters?|characters?|string|substring) )?<x>(?:['’]s|(?<![ai])s)? "
        rf"{_FOUND}in <w>",
        strings.count_of,
    ),
    (
        rf"(?:convert|change|make|turn|write|put|transform|print|set) <w> (?:(?:in|to|into|as) )?{_IN_CASE}",
        strings.change_case_last,
    ),
    (rf"<w> in {_IN_CASE}", strings.change_case_last),
    (r"(?P<case>(?:upper|lower|title)[ -]?case) (?:(?:version )?of )?<w>", strings.change_case),
    (rf"capitali[sz]e (?:first letter (?:of|in) )?{_EACH} (?:of|in) <t>", strings.capitalise_each),
    (r"capitali[sz]e first letter (?:of|in) <w>", strings.capitalise_first),
    (r"capitali[sz]e <w>", strings.capitalise),
    (rf"(?:(?:extract|list|pull out) )?{_KIND} (?:are )?(?:from|in|of) <t>", excerpts.extract),
    (rf"(?:(?:extract|pull out) )?{_ONE_KIND} (?:is )?(?:from|in|of) <t>", excerpts.extract_only),
    (rf"(?:extract )?(?P<which>{NTH}) (?P<what>letter|character|digit) (?:of|in|from) <w>", excerpts.nth),
    (rf"(?:extract )?(?P<which>{NTH}) (?P<what>word|number|line|item) (?:of|in|from) <t>", excerpts.nth),
    (rf"(?:extract )?{FEW} (?P<what>letters?|characters?|digits?) (?:of|in|from) <w>", excerpts.several),
    (rf"(?:extract )?{FEW} (?P<what>words?|numbers?|lines?|items?) (?:of|in|from) <t>", excerpts.several),
    (r"(?P<which>longest|shortest) word (?:of|in|from|among) <t>", excerpts.extreme_word),
    (
        rf"(?P<which>first|last) letters? of {_EACH} (?:of|in) <t>"
        r"(?P<joined>,? and (?:concatenate|join|combine)(?: them| letters)?)?",
        excerpts.edge_letters,
    ),
    (rf"concatenate (?P<which>first|last) letters? of {_EACH} (?:of|in) <t>", _concatenated_edges),
    (
        rf"{_REMOVE} (?:duplicate|repeated) (?P<what>words|letters|characters|numbers|lines|items) (?:from|in) <w>",
        strings.without_duplicates,
    ),
    (rf"{_REMOVE} duplicates (?:from|in) <t>|deduplicate <t>", _without_duplicates),
    (rf"{_REMOVE} (?P<what>spaces|whitespace|vowels|digits|punctuation) (?:from|in) <w>", strings.remove),
    (
        r"replace (?:(?:each|every) )?(?:occurrences? of )?(?:(?:letter|word) )?<x> (?:with|by) "
        r"(?:(?:letter|word) )?<x> in <w>",
        strings.replace,
    ),
    (rf"{_JOIN}<t>,? (?:with|using|by) (?P<sign>[a-z ]+)(?: between)?", _join_with),
    (rf"{_JOIN}<t>,? (?:with|using|by) <t>", _join_by),
    (r"concatenate (?:(?:words|strings|letters) )?<t>", _concatenate),
    (r"is <w> (?:a )?palindrome", strings.is_palindrome),
    (r"are <w> and <w> anagrams(?: of each other)?|is <w> an anagram of <w>", strings.are_anagrams),
    (r"are <t> anagrams(?: of each other)?", _anagrams),
]


def _compiled(pattern: str) -> re.Pattern[str]:
    noun = r"(?:(?:word|string|text|phrase|name|term|passage|paragraph|message|sentence|list) )?"
    groups = {"<t>": SLOT, "<w>": rf"{SLOT}|[^\W_]+(?:['’-][^\W_]+)*", "<x>": rf"{SLOT}|[a-z]"}
    parts = re.split("(<[twx]>)", pattern)
    for i, part in enumerate(parts):
        if part in groups:
            parts[i] = f"(?P<x{i}>{groups[part]})" if part == "<x>" else f"{noun}(?P<o{i}>{groups[part]})"
    return re.compile("".join(parts), re.IGNORECASE)


TABLE = [(_compiled(pattern), function) for pattern, function in _PATTERNS]

# Words that are never themselves the text to work on, unless they are quoted.
_COMMON_WORDS = """
it that this them these those its the a an and or of in on by to from is are do does above below question answer
result output response value number numbers word words letter letters character characters digit digits text
texts string strings sentence sentences phrase list lists item items line lines order everything all alphabet
case name names paragraph english german french spanish italian latin greek hebrew arabic russian cyrillic
hawaiian portuguese polish dutch swedish turkish hindi korean japanese chinese alphabetically backwards backward
completely entirely fully numerically count occurrences title upper lower uppercase lowercase step steps
previous last first each every there here both some same other another rest whole following given input me you
your my his her their our any what which who not no only
"""
NO_OPERAND = frozenset(_COMMON_WORDS.split())
