"""The number tool: whole numbers, their divisors, primes, digits, bits and bases, asked in plain words.

    What is the gcd of 48 and 180?           12
    Factor 360.                              2^3 * 3^2 * 5
    List the divisors of 12.                 1, 2, 3, 4, 6, 12
    Is 2^31 - 1 prime?                       yes
    Convert 255 to hexadecimal.              ff
    What is 1011 in base 2 to base 10?       11
    What is the digit sum of that?           (of what the latest visible step gave)

Yes/no questions are answered `yes` or `no`, lists are joined by ", ", digits above 9 are lower-case letters,
and bases are written without a prefix. Bare digits are decimal; "1011 in decimal", which names no base to
read them in, is refused. Reversed digits keep their zeros (120 gives 021). `mod` is never negative; a
remainder of a negative number is refused. "Between" is refused where its ends matter. Numbers may be written
as powers or factorials (2^31, 20!), lists without thousands separators that could be commas.
"""

import math
import re
from collections.abc import Awaitable, Callable
from typing import Any

from conductor_plugin.context import WorkerReply, WorkerRequest
from conductor_plugin.worker_spec import WorkerSpec
from conductor_plugin.workers.tools import bases, divisors, numerals, primes, reading
from conductor_plugin.workers.tools.arithmetic import parse
from conductor_plugin.workers.tools.divisors import yes
from conductor_plugin.workers.tools.exact import Impossible, Irrational, evaluate, root
from conductor_plugin.workers.tools.trees import Unreadable, digits
from conductor_plugin.workers.tools.wording import figures

MAX_SENTENCE = 12_000


async def answer(spec: WorkerSpec, request: WorkerRequest) -> WorkerReply:
    """The exact answer, or the refusal. Free of cost."""
    return await reading.answer(_TOOL, request)


async def solve(sentence: str) -> str | None:
    """The answer to one complete sentence, or None if it is not wholly understood."""
    if len(sentence) > MAX_SENTENCE:
        return None
    text = figures(reading.bare(sentence).lower())
    for pattern, by in _NORMAL:
        text = pattern.sub(by, text)
    for pattern, function in _TABLE:
        if match := pattern.fullmatch(text):
            try:
                result = function(*_arguments(match))
                return result if isinstance(result, str | None) else await result
            except (Unreadable, Impossible, Irrational):
                return None
    return None


def _arguments(match: re.Match[str]) -> list[Any]:
    """Groups n0, n1 … are whole numbers, l0, c0 … lists of them, all others words, or None."""
    readers = {"n": _integer, "l": _integers, "c": _called}
    arguments: list[Any] = []
    for name, text in match.groupdict().items():
        if not name[-1].isdigit():
            arguments.append(text)
        elif text is not None:
            arguments.append(readers[name[0]](text))
    return arguments


def _integer(text: str) -> int:
    value = evaluate(parse(text).tree)
    if value.denominator != 1:
        raise Unreadable("not a whole number")
    return value.numerator


def _integers(text: str) -> list[int]:
    text = re.sub(r"(?<![0-9,])([0-9]{1,3})((?:,000)+)(?![0-9,])", lambda m: m[0].replace(",", ""), text)
    if re.search(r"[0-9],[0-9]{3}(?![0-9])", text):
        raise Unreadable("a list, or a number with thousands separators?")
    return _called(text)


def _called(text: str) -> list[int]:
    """`48,180` as in `gcd(48,180)`, where a comma can only separate."""
    items = re.split(r",? and |, ?", text.strip())
    if len(items) < 2 or not all(re.fullmatch(_N, item) for item in items):
        raise Unreadable("not a list of whole numbers")
    return [_integer(item) for item in items]


def _mod(n: int, m: int) -> str | None:
    return digits(n % m) if m > 0 else None


def _power_mod(base: int, exponent: int, m: int) -> str | None:
    bounded = max(base, exponent, m) < 10**300 and base >= 0 and exponent >= 0 and m > 0
    return str(pow(base, exponent, m)) if bounded else None


def _inverse_mod(n: int, m: int) -> str | None:
    bounded = max(abs(n), m) < 10**1000 and m > 1
    return str(pow(n, -1, m)) if bounded and math.gcd(n, m) == 1 else None


def _remainder(n: int, m: int) -> str | None:
    return digits(n % m) if n >= 0 and m > 0 else None


def _divisible(n: int, m: int) -> str | None:
    return yes(n % m == 0) if m else None


def _operand(output: str, noun: str) -> str | None:
    """An earlier step's whole number, or its list of them for "the numbers"."""
    if noun.endswith("s") and (values := numerals.numbers(output)) and len(values) > 1:
        return ", ".join(values) if all(re.fullmatch(_N, value) for value in values) else None
    core = numerals.core(output).lower()
    if re.fullmatch("0[xbo][0-9a-f]{1,1000}", core):
        return core
    value = numerals.number(output)
    return value if value is not None and re.fullmatch(_N, value) else None


async def _from_question(question: str, noun: str) -> str | None:
    """The only number of a question that this tool could answer; or, for "the numbers", all of them.

    "It" may as well be the question's answer, unless the question is nothing but a number.
    """
    found: list[str] = re.findall(r"(?<![\w.,/^-])-?[0-9]+(?![\w/^]|[.,][0-9])", question)
    if found and question.strip().rstrip(".?") == found[0]:
        return found[0]
    if not found or (len(found) > 1) != (noun in ("numbers", "integers")) or noun in _PRONOUNS:
        return None
    return ", ".join(found) if await solve(question) is not None else None


_PRONOUNS = ("it", "this", "that", "them", "these", "those")
_N = r"-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:!|(?:\^|\*\*)[0-9]+)?"
_E = rf"(?:{_N}(?: ?[-+] ?[0-9]+)?|\({_N}(?: ?[-+] ?[0-9]+)?\))"
_BASE = rf"(?:a )?(?P<target>{bases.BASE})(?: number| form| notation| representation)?"
_DIVISORS = r"(?P<proper>proper )?(?:divisors|factors)"
_HAS = r"(?:(?:does|do) <n> have|(?:are )?(?:of|in) <n>)"
_BINARY = r"(?:of|in) binary(?: (?:representation|form|expansion))? of <n>"

_NORMAL = [
    (re.compile(pattern), by)
    for pattern, by in (
        (r" or not$", ""),
        (r"^(?:(?:check|test|decide|say|verify) )?(?:whether|if) (.+?) is (.+)$", r"is \1 \2"),
        (r"\b(?:the|all|its|there|evenly|positive(?= (?:divisors|factors|integer|proper))) ", ""),
        (r"^(?:how many|number of|count(?: of)?) ", "count "),
        (r"^(?:list|write|express|convert|change|represent|how is|how do you write) ", ""),
        (r"(?<=[a-z]) \((?:gcd|gcf|hcf|lcm)\) of ", " of "),
        (r"\bof (?:these|following) (?:numbers|integers): ?", "of "),
        (r"\bprime number", "prime"),
        (r"\bprime[- ]factori", "factori"),
        (r"(?<!reverse )\b(?:number|integer) (?=-?[0-9])", ""),
    )
]
_PATTERNS: list[tuple[str, Callable[..., str | Awaitable[str | None] | None]]] = [
    (r"(?:gcd|gcf|hcf|greatest common (?:divisor|factor)|highest common factor) of <list>", divisors.gcd),
    (r"(?:gcd|gcf|hcf) ?\(<call>\)", divisors.gcd),
    (r"(?:lcm|(?:least|lowest|smallest) common multiple) of <list>", divisors.lcm),
    (r"lcm ?\(<call>\)", divisors.lcm),
    (r"are <list> (?:coprime|relatively prime)", divisors.coprime),
    (r"(?:factori[sz]ation|prime factors) of <n>", divisors.factorisation),
    (r"(?:factor|factori[sz]e) <n>(?: (?:in)?to prime(?: factor)?s| completely)?", divisors.factorisation),
    (r"<n> as a product of prime(?: factor)?s", divisors.factorisation),
    (r"(?:distinct|different|unique) prime factors of <n>", divisors.prime_factors),
    (rf"count (?:distinct|different|unique) prime factors {_HAS}", divisors.prime_factor_count),
    (
        r"(?P<word>largest|greatest|biggest|highest|smallest|least|lowest) prime (?:factor|divisor) of <n>",
        divisors.extreme_prime_factor,
    ),
    (rf"count {_DIVISORS} {_HAS}", divisors.divisor_count),
    (rf"sum of {_DIVISORS} of <n>", divisors.divisor_sum),
    (rf"{_DIVISORS} of <n>", divisors.divisors),
    (r"is <n> (?:a )?perfect(?: number)?", divisors.is_perfect),
    (r"(?:euler'?s? )?(?:totient|phi)(?: function)?(?: of <n>| ?\(<n>\))", divisors.totient),
    (r"is <e> (?:a )?prime", divisors.is_prime),
    (r"is <e> (?:a )?composite(?: number)?", divisors.is_composite),
    (
        r"(?:next|smallest|least|first) prime (?:after|(?:greater|larger|bigger) than|above|following) <n>",
        primes.next_prime,
    ),
    (
        r"(?:previous|largest|greatest|biggest|last) prime (?:before|(?:less|smaller) than|below|preceding) <n>",
        primes.previous_prime,
    ),
    (r"<n>(?:st|nd|rd|th) prime", divisors.nth_prime),
    (r"first <n> primes", divisors.first_primes),
    (r"(?P<count>count )?primes (?:are )?between <n> and <n>", divisors.primes_between),
    (
        r"(?P<count>count )?primes (?:are )?(?P<word>(?:less|smaller) than|below|under|up to|from 1 to) <n>",
        divisors.primes_up_to,
    ),
    (
        rf"(?P<target>{bases.BASE})(?: (?:representation|form|equivalent|value|expansion))? of (?P<source>.+)",
        bases.convert_of,
    ),
    (rf"(?P<source>.+) (?:to|into|in|as) {_BASE}", bases.convert),
    (r"(?:sum of digits|digit sum) (?:of|in) <n>", bases.digit_sum),
    (r"product of digits (?:of|in) <n>", bases.digit_product),
    (r"digital root of <n>", bases.digital_root),
    (rf"count (?:decimal )?digits {_HAS}", bases.digit_count),
    (r"digits of <n>,? (?:reversed|in reverse(?: order)?)", bases.reversed_digits),
    (r"reverse (?:(?:order of )?digits (?:of|in)|number) <n>", bases.reversed_digits),
    (r"last (?:(?P<count>[0-9]) )?digits? of <n>", bases.last_digits),
    (rf"count (?:1'?s|1[- ]?bits|ones|set bits) (?:are )?{_BINARY}", bases.ones),
    (r"count (?:set bits|bits set|bits are set) (?:are )?(?:of|in) <n>", bases.ones),
    (r"(?:popcount|bit count|hamming weight)(?: of <n>| ?\(<n>\)| <n>)", bases.ones),
    (rf"count (?:0'?s|0[- ]?bits|zeros|zeroes) (?:are )?{_BINARY}", bases.zeros),
    (r"bit length of <n>", bases.bit_length),
    (
        r"count bits (?:(?:are )?(?:needed|required)|does it take) to (?:represent|write|store) <n>(?: in binary)?",
        bases.bit_length,
    ),
    (r"<n>(?:\^|\*\*)<n> ?(?:mod|modulo|%) ?<n>", _power_mod),
    (r"<n> ?(?:mod|modulo) ?<n>", _mod),
    (r"<n> ?% ?<n>|remainder of <n> ?[/÷] ?<n>", _remainder),
    (r"remainder (?:when|if) <n> is divided by <n>|remainder of <n> divided by <n>", _remainder),
    (r"remainder (?:when|of|from) dividing <n> by <n>", _remainder),
    (r"(?:modular |multiplicative )*inverse of <n> (?:mod|modulo) <n>", _inverse_mod),
    (r"is <e> (?:divisible by|a multiple of) <n>", _divisible),
    (r"is <n> a (?:divisor|factor) of <n>|does <n> divide <n>(?: evenly)?", lambda m, n: _divisible(n, m)),
    (r"is <e> (?:an )?even(?: number)?", lambda n: yes(n % 2 == 0)),
    (r"is <e> (?:an )?odd(?: number)?", lambda n: yes(n % 2 == 1)),
    (r"is <e> (?:an )?(?:even or odd|odd or even)(?: number)?", lambda n: "odd" if n % 2 else "even"),
    (r"is <n> a (?:perfect )?square(?: number)?", lambda n: yes(n >= 0 and root(n, 2) is not None)),
    (r"is <n> a (?:perfect )?cube(?: number)?", lambda n: yes(root(abs(n), 3) is not None)),
    (r"is <n> a power of 2", lambda n: yes(n > 0 and n.bit_count() == 1)),
]


def _compiled(pattern: str) -> re.Pattern[str]:
    groups = {"<n>": f"(?P<n%d>{_N})", "<e>": f"(?P<n%d>{_E})", "<list>": "(?P<l%d>.+)", "<call>": "(?P<c%d>.+)"}
    parts = re.split("(<n>|<e>|<list>|<call>)", pattern)
    return re.compile("".join(groups[part] % i if part in groups else part for i, part in enumerate(parts)))


_TABLE = [(_compiled(pattern), function) for pattern, function in _PATTERNS]
_ELLIPSES = [
    (re.compile(pattern, re.IGNORECASE), full)
    for pattern, full in (
        (r"(?:convert|express|write|change) ((?:in)?to|in|as) (.+)", r"convert it \1 \2"),
        (r"((?:prime[- ])?factori[sz]e|factor)( .*)?", r"\1 it\2"),
        (
            r"((?:how many|number of|count|list|sum of|product of|all|the|proper|prime|distinct|unique| )*"
            r"(?:divisors|factors|factori[sz]ation|digits|digit sum|popcount|bit count|bit length|totient))",
            r"\1 of it",
        ),
        (r"(?:mod|modulo) (.+)", r"it mod \1"),
        (r"(reverse) (?:the )?digits", r"\1 the digits of it"),
    )
]
_TOOL = reading.Tool(solve=solve, operand=_operand, from_question=_from_question, ellipses=_ELLIPSES)
