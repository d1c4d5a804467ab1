"""Which sentence a tool is asked to work on, and what its "it" stands for.

A tool understands a sentence as a whole or not at all. This module finds the sentence:

1. An empty instruction, or a general one ("Solve the problem."), asks for the question itself.
2. An instruction that is a complete task of the tool is that task: "Compute 3 + 4".
3. An instruction that refers to earlier work ("Multiply the result of step 0 by 3", "Is it prime?") or that
   leaves its operand out ("Reverse.", "Add 5") gets the operand from the step it names, by default the
   latest visible one; "the number" or "the text", with no step visible, is the question's, if it has just one.
4. Sentences joined by "then" are done one after the other, each on the result of the one before.
5. "Do the next part." or "Go on." asks for one of those sentences of the question alone: every visible answer is
   taken to have done one, a refusal has done none. It works on the latest of the answers.

What a text says at its end about the form of the answer ("Give the final answer in \\boxed{}.") is left out first:
a tool has one form.

Anything else is refused, also an instruction of another kind that stands beside a question which the tool
could answer: it was asked something else. The chat history is not read. But for 5, a step that gave no answer is
never skipped in favour of an older one, which would be another number than the instruction means.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from conductor_plugin.context import NO_ANSWER, Seen, WorkerReply, WorkerRequest
from conductor_plugin.workers import REFUSAL

OPEN, CLOSE = "\ue000", "\ue001"
"""Private characters around an operand that must be taken as it is; no text may bring its own."""
MAX_TEXT = 20_000
MAX_REFERRING = 2_000
"""Characters of an instruction that refers to something; a longer one is data, and would take long to search."""


MAX_FORM = 300
_SAY = r"(?:please )?(?:give|provide|state|write|put|return|report|reply with|answer with)(?: me)?"
_PLACE = r"between \S+ and \S+|in(?:side)? \S+|on the last line(?:, as \"[^\"]{1,40}\")?"
_WHERE = rf"(?: (?:as (?:your|the) final answer|{_PLACE}))?"
_FORM = re.compile(
    rf"(?<=[.!?:=\w])\s+(?:{_SAY} (?:only )?(?:the|your) final answer{_WHERE}"
    rf"|{_SAY} only (?:the |your )?\w+(?: \w+)?{_WHERE}"
    rf"|{_SAY} (?:the |your )?\w+ alone{_WHERE}|only reply with the final value)[.!]?\s*$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Tool:
    """What `answer` needs to know of a tool.

    solve: the answer to one complete sentence, or None.
    operand: (output of a step, noun it is called by) -> how a sentence mentions it, or None.
    from_question: (question, noun) -> the same for the question's own operand.
    ellipses: pattern -> the same sentence with an "it" where the operand was left out.
    max_text: characters of an instruction, question or output that the tool takes.
    """

    solve: Callable[[str], Awaitable[str | None]]
    operand: Callable[[str, str], str | None]
    from_question: Callable[[str, str], Awaitable[str | None]]
    ellipses: Sequence[tuple[re.Pattern[str], str]]
    max_text: int = MAX_TEXT


async def answer(tool: Tool, request: WorkerRequest) -> WorkerReply:
    """The tool's reply: an answer that it vouches for, or `REFUSAL`. Costs nothing."""
    return WorkerReply(output=await _answer(tool, request) or REFUSAL)


def is_answer(output: str) -> bool:
    """Whether a step's output is an answer: not empty, not the stand-in for empty, not the refusal."""
    return output.strip() not in ("", NO_ANSWER, REFUSAL)


def bare(sentence: str) -> str:
    """The sentence without politeness, "what is", "compute", "the value of", "?" and the like."""
    before = None
    while before != sentence:
        before = sentence
        sentence = _PREFIX.sub("", sentence.strip(), count=1)
        # Only the end is searched: a search for an end from every position of a long text would take long.
        sentence = sentence[:-120] + _SUFFIX.sub("", sentence[-120:], count=1)
    return sentence


async def _answer(tool: Tool, request: WorkerRequest) -> str | None:
    texts = [request.question, request.subtask, *(step.output for step in request.seen)]
    if any(OPEN in text or CLOSE in text or "\0" in text for text in texts):
        return None
    instruction, question = without_form(request.subtask), without_form(request.question)
    if not instruction or _is_general(instruction, bool(request.seen)):
        return await _in_turn(tool, question, (), "")
    if len(instruction) <= 100 and _NEXT_PART.fullmatch(instruction):
        return await _next_part(tool, question, request.seen)
    return await _in_turn(tool, instruction, request.seen, question)


async def _next_part(tool: Tool, question: str, seen: tuple[Seen, ...]) -> str | None:
    """The part of the question that is due: every visible answer is taken to have done one."""
    parts, done = _parts(question), tuple(step for step in seen if is_answer(step.output))
    if len(done) >= len(parts) or len(question) > tool.max_text:
        return None
    return await (_referring(tool, parts[len(done)], done[-1:], "") if done else _sentence(tool, parts[0], (), ""))


def _parts(text: str) -> list[str]:
    """The sentences that "then" joins."""
    return (_THEN_APART if ":" in text else _THEN).split(text) if len(text) <= MAX_REFERRING else [text]


def without_form(text: str) -> str:
    """The text without sentences at its end that only say what form the final answer has, as benchmarks add them."""
    text = text.strip()
    while match := _FORM.search(text[-MAX_FORM:]):
        text = text[: len(text) - len(match[0])].rstrip()
    return text


def _is_general(instruction: str, anything_visible: bool) -> bool:
    """Whether it only says to answer the question; "Compute it." says so where "it" can be nothing else."""
    if len(instruction) > 200:
        return False
    short = _PREFIX_ADVERB.sub("", instruction)
    return bool(_GENERAL.fullmatch(short) or (not anything_visible and _GENERAL_IT.fullmatch(short)))


async def _in_turn(tool: Tool, text: str, seen: tuple[Seen, ...], question: str) -> str | None:
    """One sentence, or several joined by "then"."""
    if not text or max(len(text), len(question)) > tool.max_text:
        return None
    result = await _sentence(tool, text, seen, question)
    clauses = _parts(text)
    if result is not None or not 2 <= len(clauses) <= 10:
        return result
    result = await _sentence(tool, clauses[0], seen, question)
    for clause in clauses[1:]:
        if result is None:
            return None
        # Only its own forerunner counts: a clause that stands for itself would make that one's result vanish.
        result = await _referring(tool, clause, (Seen(index=-1, subtask="", output=result),), "")
    return result


async def _sentence(tool: Tool, text: str, seen: tuple[Seen, ...], question: str) -> str | None:
    complete = await tool.solve(text)
    return complete if complete is not None else await _referring(tool, text, seen, question)


async def _referring(tool: Tool, text: str, seen: tuple[Seen, ...], question: str) -> str | None:
    """The answer to a sentence that mentions something earlier, or leaves it out."""
    if len(text) > MAX_REFERRING or not (seen or question):
        return None
    short = bare(text)
    ellipses = ((pattern.fullmatch(short), full) for pattern, full in (_ITS, *tool.ellipses))
    elliptic = [match.expand(full) for match, full in ellipses if match]
    for candidate in (text, *elliptic):
        filled = await _filled(tool, candidate, seen, question)
        if filled is not None and (result := await tool.solve(filled)) is not None:
            return result
    return None


async def _filled(tool: Tool, text: str, seen: tuple[Seen, ...], question: str) -> str | None:
    """The text with every reference replaced; None if there is none, or one that refers to nothing."""
    parts: list[str] = []
    end = 0
    for match in _REFERENCE.finditer(text):
        noun = (match["noun"] or match["noun_of_step"] or match["pronoun"] or "result").lower()
        if seen or match["steps"] or match["order"] or match["order_of_step"] or re.fullmatch(_RESULT, noun):
            outputs = _outputs(match, noun, seen) or []
            single = noun.removesuffix("s") if len(outputs) > 1 else noun
            fit = all(is_answer(output) and len(output) <= tool.max_text for output in outputs)
            operands = [tool.operand(output, single) for output in outputs] if fit else []
        else:
            operands = [await tool.from_question(question, noun)]
        known = [operand for operand in operands if operand]
        if not known or len(known) < len(operands):
            return None
        parts += [text[end : match.start()], _listed(known)]
        end = match.end()
    return "".join([*parts, text[end:]]) if parts else None


def _outputs(match: re.Match[str], noun: str, seen: tuple[Seen, ...]) -> list[str] | None:
    """The outputs that a reference means; None if it means one that is not visible."""
    if match["steps"]:
        by_index = {step.index: step.output for step in seen}
        wanted = [int(number) for number in re.findall("[0-9]+", match["steps"])]
        return [by_index[i] for i in wanted] if all(i in by_index for i in wanted) else None
    if not seen:
        return None
    if order := match["order"] or match["order_of_step"]:
        position = _ORDER[order.lower()]
        return [seen[position].output] if -len(seen) <= position < len(seen) else None
    plural = noun in ("them", "these", "those") or (noun.endswith("s") and noun != "this")
    if match["both"] and not plural:
        return None
    if plural:
        count = "two" if match["both"] else (match["count"] or "").lower()
        expected = {"two": 2, "three": 3, "four": 4}.get(count, len(seen))
        if len(seen) > 1 or match["both"]:
            return [step.output for step in seen] if expected == len(seen) else None
    return [seen[-1].output]


def _listed(operands: list[str]) -> str:
    *first, last = operands
    return f"{', '.join(first)} and {last}" if first else last


_ORDER = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4} | dict.fromkeys(
    ("last", "latest", "previous", "preceding", "final", "most recent"), -1
)
_ORDERS = "|".join(_ORDER)
_RESULT = r"(?:answer|result|output|response|value)s?"
_NOUN = (
    rf"(?:{_RESULT}|(?:number|integer|string|text|word|letter|character|digit|sentence|phrase|list|item|line"
    r"|expression|equation|polynomial|fraction|formula|function|solution|root|sum|product|total|quotient"
    r"|difference)s?)"
)
_PLACE = r"(?: (?:(?:shown|given|found|obtained|computed) )?(?:above|before|previously|so far))?"
_REFERENCE = re.compile(
    r"(?<![\w-])(?:"
    rf"(?:(?:the )?(?P<noun_of_step>{_NOUN}) (?:of|from|in|at) )?"
    rf"(?:(?P<steps>step [0-9]{{1,3}}|steps [0-9]{{1,3}}(?:(?:, | and |, and )[0-9]{{1,3}})+)"
    rf"|the (?P<order_of_step>{_ORDERS}) step)(?:'s {_RESULT})?"
    rf"|(?:the|that|this) (?P<order>{_ORDERS}) {_RESULT}{_PLACE}(?! of\b)"
    r"|(?:(?P<both>both(?: of)?(?: the)?)|the|that|this|these|those|all(?: of)?(?: the)?)"
    rf"(?: (?P<count>two|three|four))?(?: (?:above|given|resulting|same))? (?P<noun>{_NOUN}){_PLACE}"
    # "the sum of", "the letters in", "the digit sum", "the letter r" name no earlier result.
    rf"(?! of\b| in\b|(?<=s) from\b| (?:{_NOUN}\b|[a-z]\b|[0-9\"'“‘`]))"
    r"|(?P<pronoun>it|this|them|these|those|(?<!such )that(?! (?:is|are|has|have|the)\b))"
    r")(?![\w-])",
    re.IGNORECASE,
)
_ITS = (re.compile(r"(.*\b)?its ([\w ]+)", re.IGNORECASE), r"\1\2 of it")
_THEN = re.compile(r"\s*[,;.]?\s*\b(?:and )?then,?\s+", re.IGNORECASE)
_THEN_APART = re.compile(r"\s*[,;.?]\s*(?:and )?then,?\s+", re.IGNORECASE)
_NEXT_PART = re.compile(
    r"(?:please )?(?:go on|continue|carry on|(?:do|solve|answer|work on) (?:only )?(?:the |its )?next (?:part|step))"
    r"(?: (?:of|with) (?:the|this) (?:question|problem|task))?(?: only| from here)?[.!]?",
    re.IGNORECASE,
)
_PREFIX_ADVERB = re.compile(r"^(?:(?:please|now|next|finally|so|ok|okay),? )+", re.IGNORECASE)
_VERB = r"(?:solve|answer|compute|calculate|evaluate|do|handle|work out|work on|find|give|determine)"
_GENERAL = re.compile(
    rf"(?:{_VERB}|respond to|reply to)(?: directly| exactly)?(?: the answer to| the solution (?:to|of))?"
    r"(?: the| this| that| my)?(?: given| original| user's| following)?"
    r" (?:question|problem|task|query|exercise|puzzle|request)"
    r"(?: above| asked| given| exactly| directly| carefully| correctly)*[.!]?"
    rf"|(?:{_VERB} |what is )(?:the )?(?:final |exact |correct )?(?:answer|result|solution)"
    r"(?: exactly| directly| to the (?:question|problem))?[.!?]?"
    r"|(?:solve|answer|calculate|compute)[.!]?",
    re.IGNORECASE,
)
_GENERAL_IT = re.compile(
    r"(?:solve|answer|compute|calculate|evaluate|do|work out) (?:it|this|that|(?:the|this|that) "
    r"(?:equation|equations|system|system of equations|expression|calculation|computation|sum))"
    r"(?: above| given| exactly| directly)*[.!]?",
    re.IGNORECASE,
)
_PREFIX = re.compile(
    r"^(?:"
    r"(?:please|kindly|now|then|finally|so|ok|okay|also)\b,?|(?:next|first),"
    r"|(?:can|could|would|will) you(?: please)?\b"
    r"|(?:tell|give|show) me\b"
    r"|(?:question|problem|task|q)\s*:"
    r"|use (?:the|a) (?:calculator|tool) to\b|using exact arithmetic,"
    r"|(?:solve|compute|calculate|evaluate|answer|state the final answer to)(?: the following| this| the)?"
    r"(?: arithmetic)?(?: expression| problem| question| calculation| exercise| multiplication| division)?\s*:"
    r"|what(?:'s|’s| is| are| does| do| would be)\b|how much (?:is|are|does)\b"
    r"|(?:compute|calculate|evaluate|find|determine|work out|give|state|get|return|report|take)\b"
    r"|the (?:exact |numerical |final )?(?:value|result|answer) (?:of|to|for)\b"
    r"|the\b"
    r")\s*",
    re.IGNORECASE,
)
_SUFFIX = re.compile(
    r"(?:[.?]"
    r"|[\s.?!,;]+(?:(?:answer|reply|respond|return|output|give)(?: with| only| just)* (?:the )?(?:final )?"
    r"(?:number|answer|result|value)(?: only| alone)?)[.!]?"
    r"|,? please[.!?]?|,? exactly"
    r"| (?:is )?equals?(?: to)?(?: what)?"
    r"|\s*=\s*\??)$",
    re.IGNORECASE,
)
