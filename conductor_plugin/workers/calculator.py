"""The calculator: exact arithmetic, equations and formulas, asked in plain words.

    What is 15% of 80?                       12
    Add 1/3 and 1/6.                         1/2
    What is 0.1 + 0.2?                       0.3
    Solve x^2 - 5x + 6 = 0.                  x = 2 or x = 3
    What is 2x + 1 if 3x + 7 = 22?           11
    Integrate x^2 from 0 to 1.               1/3
    Now multiply the result by 3.            (three times what the latest visible step gave)

How results are written: whole numbers as such; else `a/b` in lowest terms, or a decimal if the question
used decimals or percentages and the decimals end (equations and formulas give fractions); percentages as
`15%`. "Solve" gives `x = 5`, "What is x if …" gives `5`; several solutions are joined by " or ", and there is
`no solution`, `no real solution` and `infinitely many solutions`. Irrational results are exact (`2*sqrt(2)`)
unless a rounding is asked for, which takes halves away from zero. Complex solutions (`i`) are given for
polynomial equations, real ones for others. `ln` is the natural logarithm; `log` is refused, since its base
differs, and so is sin(30), which may mean degrees. An answer that would only repeat the question is refused,
and so is everything that is not understood to the last word. Texts of more than 20,000 characters and results
of more than 10,000 digits are refused.
"""

import re
from fractions import Fraction

from conductor_plugin.context import WorkerReply, WorkerRequest
from conductor_plugin.worker_spec import WorkerSpec
from conductor_plugin.workers.tools import formulas, numerals, reading
from conductor_plugin.workers.tools.arithmetic import Formula, parse
from conductor_plugin.workers.tools.child import ask
from conductor_plugin.workers.tools.exact import Impossible, Irrational, evaluate, rounded, written
from conductor_plugin.workers.tools.trees import Node, Unreadable, is_in_degrees, is_number, names, to_json, unparsed

MAX_PROSE = 600
"""Characters of a sentence with words; only plain formulas may be longer."""


async def answer(spec: WorkerSpec, request: WorkerRequest) -> WorkerReply:
    """The exact answer, or the refusal. Free of cost."""
    return await reading.answer(_TOOL, request)


async def solve(sentence: str) -> str | None:
    """The answer to one complete sentence, or None if it is not wholly understood."""
    text = reading.bare(sentence).lower()
    if _DATE.fullmatch(text) or (len(text) > MAX_PROSE and not _PLAIN.fullmatch(text)):
        return None
    try:
        for pattern, handler in _SENTENCES if len(text) <= MAX_PROSE else []:
            if match := pattern.fullmatch(text):
                return await handler(*match.groups())
        return await _value(text)
    except (Unreadable, Impossible, Irrational):
        return None


async def _value(text: str) -> str | None:
    """What a formula without letters comes to; not what it is already."""
    formula = _formula(text)
    if names(formula.tree) or is_number(formula.tree):
        return None
    try:
        result = written(evaluate(formula.tree), formula.decimal)
    except Irrational:
        exact = None if is_in_degrees(formula.tree) else await ask("simplify", to_json(formula.tree))
        if exact is None or _squeezed(exact) == _squeezed(unparsed(formula.tree)):
            return None
        result = exact
    return None if _squeezed(result) == _squeezed(text) else result


async def _simplified(text: str) -> str | None:
    formula = parse(text)
    try:
        return written(evaluate(formula.tree), formula.decimal)
    except Irrational:
        return await ask("simplify", to_json(formula.tree))


async def _rounded(text: str, places: str) -> str | None:
    formula = _formula(text)
    decimals = _PLACES[places] if places in _PLACES else int(evaluate(parse(places).tree))
    if names(formula.tree) or decimals > 1_000 or is_in_degrees(formula.tree):
        return None
    try:
        return rounded(evaluate(formula.tree), decimals)
    except Irrational:
        return await ask("rounded", to_json(formula.tree), decimals) if decimals >= 0 else None


async def _written_as(text: str, form: str) -> str | None:
    """ "3/8 as a decimal", "0.75 as a fraction", "3/8 as a percentage": in full or not at all."""
    percent = re.fullmatch(r"([0-9.]+) ?(?:%|percent)", text)
    value = evaluate(parse(f"({percent[1]}) / 100").tree if percent else _formula(text).tree)
    if form.endswith("fraction"):
        return written(value)
    result = written(value * 100 if form.startswith("percent") else value, decimal=True)
    return None if "/" in result else result + ("%" if form.startswith("percent") else "")


async def _percentage(part: str, whole: str) -> str | None:
    share = Node("*", (parse(part).tree, Node("inv", (parse(whole).tree,)), Fraction(100)))
    return written(evaluate(share), decimal=True) + "%"


async def _percentage_last(whole: str, part: str) -> str | None:
    return await _percentage(part, whole)


async def _choose(n: str, k: str) -> str | None:
    return written(evaluate(Node("choose", (parse(n).tree, parse(k).tree))))


async def _larger(word: str, first: str, second: str) -> str | None:
    """The larger or smaller of two, as it was written."""
    one, other = evaluate(parse(first).tree), evaluate(parse(second).tree)
    if one == other:
        return None
    return first if (one > other) == (word in ("larger", "bigger", "greater", "higher")) else second


async def _sum_from_to(first: str, last: str) -> str | None:
    low, high = evaluate(parse(first).tree), evaluate(parse(last).tree)
    if low.denominator != 1 or high.denominator != 1 or low > high:
        return None
    return written((low + high) * (high - low + 1) / 2)


def _formula(text: str) -> Formula:
    """A formula, or a sentence that is one: "subtract 3 from 10". `Unreadable` if it is neither."""
    for pattern, sign in _LISTS:
        if match := pattern.fullmatch(text):
            return parse(f"{sign} {match[1]}")
    for pattern, form in _IMPERATIVES:
        if match := pattern.fullmatch(text):
            operands = {name: parse(operand) for name, operand in match.groupdict().items()}
            # Divide 10 by 2 + 3: is it 5 + 3, or 10 by 5?
            if not operands["last"].tight:
                raise Unreadable("it is unclear where the last operand ends")
            formula = parse(form.format(**{name: f"({match[name]})" for name in operands}))
            return formula._replace(decimal=formula.decimal or any(o.decimal for o in operands.values()))
    return parse(text)


def _squeezed(text: str) -> str:
    return text.replace(" ", "")


def _operand(output: str, noun: str) -> str | None:
    """An earlier step's number, list, formula or equation, as a sentence of this tool can hold it."""
    if noun.endswith("s") and (values := numerals.numbers(output)) and len(values) > 1:
        *first, last = (f"({value})" for value in values)
        return f"{', '.join(first)} and {last}"
    if (value := numerals.number(output)) is not None and not noun.startswith("equation"):
        return f"({value})"
    text = numerals.core(output).lower()
    if len(text) > MAX_PROSE:
        return None
    try:
        return text if "=" in text and formulas.equations(text) else f"({text})" if parse(text) else None
    except Unreadable:
        return None


async def _from_question(question: str, noun: str) -> str | None:
    """The number, formula or equation that the question consists of."""
    text = reading.bare(question)
    verb = re.match(r"(?:solve|simplify|expand|factor|differentiate|integrate|evaluate)\s+", text, re.IGNORECASE)
    return _operand(text[verb.end() :] if verb else text, noun)


_PLACES = {"whole number": 0, "integer": 0, "tenth": 1, "hundredth": 2, "thousandth": 3}
_PLACES |= {"ten": -1, "hundred": -2, "thousand": -3}
_DATE = re.compile(r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{2,4}|[0-9]{4}[-/][0-9]{1,2}[-/][0-9]{1,2}")
_PLAIN = re.compile(r"[0-9+*/^()!., \t\r\n-]*")
_COUNT = "one|two|three|four|five|six|[0-9]{1,4}"
_COMPARED = "larger|bigger|greater|higher|smaller|lower|less"

_SENTENCES: list[tuple[re.Pattern[str], formulas.Handler]] = [
    *(
        (re.compile(pattern), handler)
        for pattern, handler in (
            (rf"(?:round )?(.+?),?(?: rounded)? to the nearest ({'|'.join(_PLACES)})", _rounded),
            (rf"(?:round )?(.+?),?(?: rounded)? to ({_COUNT}) (?:decimal places?|decimals)", _rounded),
            (
                r"(?:(?:write|express|convert) )?(.+) (?:as|to|into|in) (?:a )"
                r"((?:simplified )?fraction|decimal|percent(?:age)?)",
                _written_as,
            ),
            (r"what percent(?:age)? of (.+) is (.+)", _percentage_last),
            (r"(.+) is what percent(?:age)? of (.+)", _percentage),
            (r"what percent(?:age)? is (.+) of (.+)", _percentage),
            (r"(.+) as a percent(?:age)? of (.+)", _percentage),
            (r"([0-9]+) choose ([0-9]+)", _choose),
            (
                rf"(?:which (?:one |number )?is )?(?:the )?({_COMPARED})(?: number)?[:,]?(?: of)? "
                r"(\S+?),? (?:or|and) (\S+)",
                _larger,
            ),
            (
                r"sum of (?:all )?(?:the )?(?:integers|whole numbers|natural numbers|numbers) from (\S+) "
                r"(?:to|through) (\S+)",
                _sum_from_to,
            ),
            (r"simplify ([^a-z]+|.*\b(?:sqrt|root).*)", _simplified),
        )
    ),
    *formulas.SENTENCES,
]
_LISTS = [
    (re.compile(r"(?:add|sum(?! of\b)) ((?:(?! to ).)+)"), "sum_of"),
    (re.compile(r"multiply ((?:(?! by ).)+)"), "product_of"),
]
_IMPERATIVES = [
    (re.compile(pattern), form)
    for pattern, form in (
        (r"add (?P<first>.+) to (?P<last>.+)", "{last} + {first}"),
        (r"subtract (?P<first>.+) from (?P<last>.+)", "{last} - {first}"),
        (r"multiply (?P<first>.+) by (?P<last>.+)", "{first} * {last}"),
        (r"divide (?P<first>.+) by (?P<last>.+)", "{first} / {last}"),
        (r"raise (?P<first>.+) to the power(?: of)? (?P<last>.+)", "{first} ^ {last}"),
        (r"square (?!root|of\b)(?P<last>.+)", "{last} ^ 2"),
        (r"cube (?!root|of\b)(?P<last>.+)", "{last} ^ 3"),
        (r"double (?P<last>.+)", "2 * {last}"),
        (r"triple (?P<last>.+)", "3 * {last}"),
        (r"halve (?P<last>.+)", "{last} / 2"),
        (r"negate (?P<last>.+)", "0 - {last}"),
        (r"(?:increase|raise) (?P<last>.+) by (?P<first>.+?) ?(?:%|percent)", "{last} + {first}% of {last}"),
        (r"(?:decrease|reduce|lower) (?P<last>.+) by (?P<first>.+?) ?(?:%|percent)", "{last} - {first}% of {last}"),
        (r"(?P<first>[0-9.]+) ?(?:%|percent) off(?: of)? (?P<last>.+)", "{last} - {first}% of {last}"),
    )
]
_ELLIPSES = [
    (re.compile(pattern, re.IGNORECASE), full)
    for pattern, full in (
        (r"(?:add|plus) (.+)", r"add \1 to it"),
        (r"(?:subtract|minus) (.+)", r"subtract \1 from it"),
        (r"(multiply|divide|increase|decrease|reduce) by (.+)", r"\1 it by \2"),
        (r"times (.+)", r"multiply it by \1"),
        (r"raise to the power(?: of)? (.+)", r"raise it to the power of \1"),
        (r"(square|cube|double|triple|halve|negate|simplify|expand|factor|differentiate|integrate)", r"\1 it"),
        (r"((?:square|cube) root|reciprocal|absolute value|factorial|derivative|integral)", r"\1 of it"),
        (r"(round |write |express |convert )?((?:to|as) .+)", r"\1it \2"),
        (r"solve for ([a-z])", r"solve it for \1"),
    )
]
_TOOL = reading.Tool(solve=solve, operand=_operand, from_question=_from_question, ellipses=_ELLIPSES)
