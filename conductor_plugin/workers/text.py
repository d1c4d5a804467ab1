"""The text tool: reverses, sorts, counts, changes case of, and extracts from given text.

    Reverse "hello".                                 olleh
    How many r are in strawberry?                    3
    Sort these words: pear, apple, fig               apple, fig, pear
    What is the third word of "to be or not"?        or
    Extract the numbers from: 3 red and 12 blue      3, 12
    Count the words in the answer of step 0.         (of what that step gave)
    Give the first answer above that is not a refusal.   (that answer, as it is)

The text to work on is quoted, or stands after a colon; a single word need not be quoted where only a text can
stand ("Reverse hello"), nor a list with commas. Yes/no questions are answered `yes` or `no`, lists are joined
by ", ". Letters are counted and sorted without regard to case; `characters` include spaces; vowels are a, e,
i, o, u; words keep their apostrophes and hyphens. A list is sorted as numbers if all of it is. What reads two
ways is refused: reversing a sentence (letters or words?), "ana" in "banana" (once or twice?), capitalising
several words. So are an empty result, and texts and results of more than 100,000 characters.
"""

import re

from conductor_plugin.context import Seen, WorkerReply, WorkerRequest
from conductor_plugin.worker_spec import WorkerSpec
from conductor_plugin.workers import REFUSAL
from conductor_plugin.workers.tools import numerals, quoting, reading
from conductor_plugin.workers.tools.quoting import ORDER, SLOT
from conductor_plugin.workers.tools.strings import Operand
from conductor_plugin.workers.tools.text_sentences import CASE, FEW, NO_OPERAND, NORMAL, NTH, TABLE
from conductor_plugin.workers.tools.trees import Unreadable

MAX_TEXT = 100_000


async def answer(spec: WorkerSpec, request: WorkerRequest) -> WorkerReply:
    """The exact answer, or the refusal. Free of cost."""
    instruction = request.subtask.strip()
    if len(instruction) < 300 and (match := _PICK.fullmatch(instruction)):
        return WorkerReply(output=_picked(request.seen, match["which"]))
    return await reading.answer(_TOOL, request)


async def solve(sentence: str) -> str | None:
    """The answer to one complete sentence, or None if it is not wholly understood."""
    try:
        words, operands = quoting.split(sentence)
        words = reading.bare(words)
        for pattern, by in NORMAL:
            words = pattern.sub(by, words)
        for pattern, function in TABLE:
            if match := pattern.fullmatch(words):
                result = function(*_arguments(match, operands))
                return result if result and result.strip() and len(result) <= MAX_TEXT else None
    except Unreadable:
        pass
    return None


def _arguments(match: re.Match[str], operands: list[Operand]) -> list[object]:
    """Groups named o0 or x1 are operands: the next one where there is a SLOT, else the word that stands there."""
    left = iter(operands)
    arguments: list[object] = []
    for name, text in match.groupdict().items():
        if not name[-1].isdigit():
            arguments.append(text)
        elif text == SLOT:
            arguments.append(next(left))
        elif text is not None and name[0] == "o" and text.lower() in NO_OPERAND:
            raise Unreadable("a word of the language, not one to work on")
        elif text is not None:
            arguments.append(text)
    if next(left, None) is not None:
        raise Unreadable("an operand too many")
    return arguments


def _picked(seen: tuple[Seen, ...], which: str | None) -> str:
    """The first or last answer, as it is; without either word, the only one."""
    answers = [step.output for step in seen if reading.is_answer(step.output)]
    if not answers or (which is None and len({answer.strip() for answer in answers}) > 1):
        return REFUSAL
    return answers[-1] if which and which.lower() == "last" else answers[0]


def _operand(output: str, noun: str) -> str | None:
    """An earlier step's text, sealed, so that none of it is taken for an instruction."""
    text = numerals.core(output)
    if len(text) > 1 and text[0] + text[-1] in ('""', "''", "“”", "``") and not set(text[1:-1]) & set('"“”`'):
        text = text[1:-1]
    sealed = f"{reading.OPEN}{text}{reading.CLOSE}"
    if noun in ("words", "letters", "characters", "digits", "numbers", "lines", "items"):
        return f"{noun} of {sealed}"
    return f"{noun} {sealed}" if noun in ("sentence", "list") else sealed


async def _from_question(question: str, noun: str) -> str | None:
    """The only text that the question quotes, or that stands behind its colon; "it" may be something else."""
    if noun in ("it", "this", "that", "them", "these", "those"):
        return None
    try:
        _, operands = quoting.split(question)
    except Unreadable:
        return None
    return _operand(operands[0], noun) if len(operands) == 1 and isinstance(operands[0], str) else None


_PICK = re.compile(
    r"(?:please )?(?:give|repeat|return|output|state|copy|report|use|take|pick|choose|select)(?: me)?(?: only)?"
    r"(?: back)? the (?:(?P<which>first|last)(?: non-refusal| non-empty)? (?:answer|response|result|output)|"
    r"(?:only )?(?:answer|response|result|output)(?=.* refus))"
    r"(?: (?:above|so far|given|shown|from above|of the steps above|you (?:can )?see))*"
    r"(?: (?:that|which) (?:is not|isn't|was not|wasn't) (?:a refusal|refused|empty)"
    r"(?: (?:or|and|nor) (?:is not |not )?(?:empty|a refusal|refused))?)?"
    r"(?:,? (?:above|verbatim|exactly|unchanged|word for word|as it is))*[.!]?",
    re.IGNORECASE,
)
_THING = "(?:letter|character|word|number|line|item|digit)s?"
_THINGS = r"letters|characters|words|vowels|consonants|digits|spaces|lines|numbers|items"
_ELLIPSES = [
    (re.compile(pattern, re.IGNORECASE), full)
    for pattern, full in (
        (r"(reverse|sort|alphabeti[sz]e|uppercase|lowercase|capitali[sz]e|deduplicate)", r"\1 it"),
        (rf"((?:sort|order|arrange)) ({ORDER})", r"\1 it \2"),
        (
            rf"(reverse|sort|count|extract|list|how many) (?:the )?(?:order of (?:the )?)?({_THINGS})( .*)?",
            r"\1 \2 of it\3",
        ),
        (rf"how many ({_THINGS}) (?:are|are there)", r"how many \1 are in it"),
        (rf"(convert|change|make|turn|write|put) ((?:(?:in)?to|in) )?({CASE})", r"\1 it \2\3"),
        (
            rf"((?:remove|delete|drop) (?:duplicates|(?:duplicate )?(?:{_THINGS}|punctuation|whitespace)))",
            r"\1 from it",
        ),
        (r"((?:join|concatenate|combine)) ((?:with|using|by) .+)", r"\1 it \2"),
        (r"(spell|write) (backwards)", r"\1 it \2"),
        (rf"((?:extract (?:the )?)?(?:{NTH}|{FEW}|longest|shortest) {_THING})", r"\1 of it"),
    )
]
_TOOL = reading.Tool(solve, _operand, _from_question, _ELLIPSES, MAX_TEXT)
