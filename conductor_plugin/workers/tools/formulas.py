"""Sentences about equations and formulas: solve, simplify, expand, factor, differentiate, integrate.

Each is read here, down to trees, and computed by the helper process. Raises `Unreadable` for a sentence that
is of this kind but not understood; gives None where there is no complete answer.
"""

import re
from collections.abc import Awaitable, Callable

from conductor_plugin.workers.tools import reading
from conductor_plugin.workers.tools.arithmetic import parse
from conductor_plugin.workers.tools.child import ask
from conductor_plugin.workers.tools.trees import Tree, Unreadable, mentions, names, to_json

MAX_EQUATIONS = 10

Handler = Callable[..., Awaitable[str | None]]


def equations(text: str) -> list[list[object]]:
    """`x + y = 10, x - y = 2` as pairs of trees in JSON. `Unreadable` if it is anything else."""
    parts = re.split(r"\s*(?:,?\s*\band\b|,(?![0-9]{3}\b)|;|\n)\s*", text)
    pairs = [[parse(side.strip()).tree for side in part.split("=")] for part in parts]
    if not 1 <= len(pairs) <= MAX_EQUATIONS or any(len(pair) != 2 for pair in pairs):
        raise Unreadable("no equation, or too many")
    if not all(names(left) | names(right) for left, right in pairs):
        raise Unreadable("an equation without unknowns")
    if any(mentions(side, "e") for pair in pairs for side in pair):
        raise Unreadable("is e an unknown, or the number?")
    return [[to_json(side) for side in pair] for pair in pairs]


async def _transform(verb: str, text: str) -> str | None:
    tree = parse(text).tree
    if not names(tree) and verb != "simplify":
        return None  # numbers are factored by another tool
    operation = "factor" if verb.startswith("factor") else "expand" if verb == "multiply out" else verb
    return await ask(operation, to_json(tree))


async def _derivative(order: str | None, text: str, name: str | None) -> str | None:
    tree = parse(text).tree
    variable = _variable(tree, name)
    times = {"": 1, "first": 1, "second": 2, "third": 3}[(order or "").strip()]
    return await ask("derivative", to_json(tree), variable, times) if variable in names(tree) else None


async def _differentiate(text: str, name: str | None) -> str | None:
    return await _derivative(None, text, name)


async def _leibniz(name: str, text: str) -> str | None:
    return await _derivative(None, text, name)


async def _integral(text: str, d: str | None, name: str | None, low: str | None, high: str | None) -> str | None:
    tree = parse(text).tree
    variable = _variable(tree, d or name)
    if variable is None or (d and name and d != name):
        return None
    if low is None or high is None:
        return await ask("integral", to_json(tree), variable)
    return await ask("definite", to_json(tree), variable, to_json(parse(low).tree), to_json(parse(high).tree))


async def _solve(first: str | None, text: str, last: str | None) -> str | None:
    if first and last:
        return None
    return await ask("solve", equations(text), re.findall(r"\b[a-z]\b", first or last or ""))


async def _value(wanted: str, text: str) -> str | None:
    """ "What is 2x + 1 if 3x + 7 = 22?" Several unknowns, "x and y", are a system to solve."""
    if re.fullmatch(_LETTERS, wanted) and len(wanted) > 1:
        return await _solve(wanted, text, None)
    tree = parse(wanted).tree
    return await ask("solve_for_value", equations(text), to_json(tree)) if names(tree) else None


async def _value_last(text: str, wanted: str) -> str | None:
    return await _value(reading.bare(wanted), text)


def _variable(tree: Tree, name: str | None) -> str | None:
    letters = names(tree)
    return name or (letters.pop() if len(letters) == 1 else None)


_LETTERS = r"[a-z](?:(?:, | and )[a-z])*"
_EQUATION = r"(?:the )?(?:following )?(?:linear |quadratic )?(?:equations?|system(?: of (?:linear )?equations)?) ?:?"
_WITH_RESPECT = r"(?: with respect to ([a-z]))?"

SENTENCES: list[tuple[re.Pattern[str], Handler]] = [
    (re.compile(pattern), handler)
    for pattern, handler in (
        (rf"solve (?:for ({_LETTERS})(?: in)? ?[:,]? )?(?:{_EQUATION} )?(.+?)(?:,? for ({_LETTERS}))?", _solve),
        (r"(simplify|expand|multiply out|factor|factorise|factorize) (.+)", _transform),
        (rf"(first |second |third )?derivative of (.+?){_WITH_RESPECT}", _derivative),
        (rf"differentiate (.+?){_WITH_RESPECT}", _differentiate),
        (r"d/d([a-z]) ?(?:of )?(.+)", _leibniz),
        (
            r"(?:integrate|(?:(?:definite |indefinite )?integral|antiderivative) of) (.+?)(?: d([a-z]))?"
            rf"{_WITH_RESPECT}(?: from (\S+) to (\S+))?",
            _integral,
        ),
        (
            r"(?:if|given(?: that)?) (.+=.+?)[,:]? (?:then )?((?:what(?:'s| is| are)|find|compute|calculate) .+)",
            _value_last,
        ),
        (
            rf"([^=]+?)(?: ?:|,? (?:if|when|where|given(?: that)?|such that|for|at|in|from)(?: {_EQUATION})?) (.+=.+)",
            _value,
        ),
        (r"()(.+=.+)()", _solve),
    )
]
"""Tried in order; the first that fits decides."""
