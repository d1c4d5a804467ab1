"""What the helper process computes. Only `child` imports this module, and only there: it loads sympy.

Formulas arrive as nested lists, never as text: `["+", ["^", "x", ["num", "2", "1"]], "y"]`. Every operation
takes and returns plain JSON values; one that cannot give a complete and exact answer raises `Refused`.
Results read like the questions do: `^` for powers, `ln`, `e`, `i`.
"""

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import sympy
from sympy.printing.str import StrPrinter

MAX_RESULT = 20_000
NO_SOLUTION = "no solution"
NO_REAL_SOLUTION = "no real solution"
INFINITELY_MANY = "infinitely many solutions"


class Refused(Exception):
    """There is no complete, exact answer that this module can vouch for."""


class _Printer(StrPrinter):  # type: ignore[misc]
    def _print_log(self, expression: Any) -> str:
        return f"ln({self._print(expression.args[0])})"

    def _print_ImaginaryUnit(self, expression: Any) -> str:
        return "i"

    def _print_Exp1(self, expression: Any) -> str:
        return "e"


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": sympy.Add,
    "*": sympy.Mul,
    "^": sympy.Pow,
    "neg": lambda x: -x,
    "inv": lambda x: 1 / x,
    "abs": sympy.Abs,
    "cbrt": sympy.cbrt,
    "choose": sympy.binomial,
    "cos": sympy.cos,
    "exp": sympy.exp,
    "factorial": sympy.factorial,
    "ln": sympy.log,
    "max": sympy.Max,
    "min": sympy.Min,
    "sin": sympy.sin,
    "sqrt": sympy.sqrt,
    "tan": sympy.tan,
}
CONSTANTS = {"pi": sympy.pi, "e": sympy.E}


def simplify(tree: Any) -> str:
    return _text(sympy.simplify(_build(tree)))


def expand(tree: Any) -> str:
    return _text(sympy.expand(_build(tree)))


def factor(tree: Any) -> str:
    """Factors over the rationals."""
    return _text(sympy.factor(_build(tree)))


def rounded(tree: Any, places: int) -> str:
    """A real number to `places` decimals. Irrational numbers have no ties, so a margin of digits suffices."""
    value = sympy.simplify(_build(tree))
    if value.is_extended_real is not True or value.free_symbols:
        raise Refused("not a real number")
    whole = len(str(abs(int(value))))
    digits = Decimal(str(value.evalf(whole + places + 25)))
    step = Decimal(1).scaleb(-places)
    return format(digits.quantize(step, ROUND_HALF_UP, Context(prec=whole + places + 30)), "f")


def derivative(tree: Any, name: str, order: int) -> str:
    return _text(sympy.simplify(sympy.diff(_build(tree), _symbol(name), order)))


def integral(tree: Any, name: str) -> str:
    """An antiderivative, checked by differentiating it, with ` + C`."""
    function, x = _build(tree), _symbol(name)
    result = sympy.integrate(function, x)
    text = _text(result)
    if sympy.simplify(sympy.diff(result, x) - function) != 0:
        raise Refused("the antiderivative could not be verified")
    return f"{text} + C"


def definite(tree: Any, name: str, low: Any, high: Any) -> str:
    """The integral from `low` to `high`, checked against numerical integration where it has a number."""
    function, x, start, end = _build(tree), _symbol(name), _build(low), _build(high)
    result = sympy.simplify(sympy.integrate(function, (x, start, end)))
    text = _text(result)
    if not result.free_symbols:
        numeric = sympy.Integral(function, (x, start, end)).evalf(15)
        if not abs(numeric - result.evalf(15)) < 1e-8 * (1 + abs(numeric)):
            raise Refused("the integral could not be verified")
    return text


def solve(equations: Sequence[Sequence[Any]], names: Sequence[str]) -> str:
    """`x = 2 or x = 3`, `x = 6, y = 4`, `no solution`, `no real solution` or `infinitely many solutions`.

    `names` are the unknowns asked for; none means all of them.
    """
    solutions = _solutions(equations, names)
    if isinstance(solutions, str):
        return solutions
    if not names and any(value.free_symbols for value in solutions[0].values()):
        return INFINITELY_MANY
    unknowns = [_symbol(name) for name in names] or sorted(solutions[0], key=str)
    if any(unknown not in solution for solution in solutions for unknown in unknowns):
        raise Refused("an unknown does not occur")
    rows = [", ".join(f"{x} = {_text(solution[x])}" for x in unknowns) for solution in solutions]
    return " or ".join(dict.fromkeys(rows))


def solve_for_value(equations: Sequence[Sequence[Any]], wanted: Any) -> str:
    """The value of a formula where the equations hold: `5`, or `2 or 3` if there are two."""
    formula = _build(wanted)
    names = [str(symbol) for symbol in formula.free_symbols] if len(formula.free_symbols) == 1 else []
    solutions = _solutions(equations, names)
    if isinstance(solutions, str):
        return solutions
    if not formula.free_symbols:
        raise Refused("nothing is asked for")
    values = [sympy.simplify(formula.subs(solution)) for solution in solutions]
    if any(value.free_symbols & formula.free_symbols for value in values):
        raise Refused("the equations do not determine the value")
    return " or ".join(_text(value) for value in sorted(set(values), key=_position))


def is_prime(n: str) -> str:
    return "yes" if sympy.isprime(int(n)) else "no"


def next_prime(n: str) -> str:
    return str(sympy.nextprime(int(n)))


def previous_prime(n: str) -> str:
    return str(sympy.prevprime(int(n)))


def factors(n: str) -> str:
    """`2^3 3^1`: every prime with its exponent."""
    return " ".join(f"{prime}^{exponent}" for prime, exponent in sorted(sympy.factorint(int(n)).items()))


OPERATIONS: dict[str, Callable[..., str]] = {
    operation.__name__: operation
    for operation in (
        *(simplify, expand, factor, rounded, derivative, integral, definite),
        *(solve, solve_for_value, is_prime, next_prime, previous_prime, factors),
    )
}


def _solutions(equations: Sequence[Sequence[Any]], names: Sequence[str]) -> list[dict[Any, Any]] | str:
    """All solutions, or the words that say there is none, or no end of them."""
    zeros = [_build(left) - _build(right) for left, right in equations]
    unknowns = sorted(set().union(*(zero.free_symbols for zero in zeros)), key=str)
    if len(zeros) == 1 and len(unknowns) <= 1:
        return _roots(zeros[0], unknowns[0] if unknowns else None)
    if len(zeros) == 1 and len(names) == 1:
        return _rearranged(zeros[0], _symbol(names[0]))
    if any(not zero.is_polynomial(*unknowns) for zero in zeros):
        raise Refused("only linear systems are solved")
    if any(sympy.Poly(zero, *unknowns).total_degree() > 1 for zero in zeros):
        raise Refused("only linear systems are solved")
    found = sympy.linsolve(zeros, *unknowns)
    if found is sympy.S.EmptySet:
        return NO_SOLUTION
    return [dict(zip(unknowns, next(iter(found)), strict=True))]


def _roots(zero: Any, x: Any) -> list[dict[Any, Any]] | str:
    zero = sympy.simplify(zero) if x is None else zero
    if x is None:
        return INFINITELY_MANY if zero == 0 else NO_SOLUTION
    numerator, denominator = sympy.fraction(sympy.together(zero))
    if not (numerator.is_polynomial(x) and denominator.is_polynomial(x)):
        return _real_roots(zero, x)
    polynomial = sympy.Poly(sympy.expand(numerator), x)
    if polynomial.is_zero:
        return INFINITELY_MANY
    # Without Cardano's formulas: their nested radicals are exact and of no use to anybody.
    roots = sympy.roots(polynomial, cubics=False, quartics=False)
    if sum(roots.values()) != polynomial.degree():
        raise Refused("not all roots have a closed form")
    kept = [sympy.simplify(root) for root in roots if sympy.simplify(denominator.subs(x, root)) != 0]
    return [{x: root} for root in sorted(kept, key=_position)] or NO_SOLUTION


def _real_roots(zero: Any, x: Any) -> list[dict[Any, Any]] | str:
    found = sympy.solveset(zero, x, sympy.S.Reals)
    if found is sympy.S.EmptySet:
        return NO_REAL_SOLUTION
    if not isinstance(found, sympy.FiniteSet):
        raise Refused("the solutions are not a finite list")
    roots = sorted((sympy.simplify(root) for root in found), key=_position)
    if any(abs(zero.subs(x, root).evalf(30)) > 1e-15 for root in roots):
        raise Refused("a solution could not be verified")
    return [{x: root} for root in roots]


def _rearranged(zero: Any, x: Any) -> list[dict[Any, Any]]:
    """One equation in several letters, solved for one in which it is linear."""
    if not zero.is_polynomial(x) or sympy.degree(zero, x) != 1:
        raise Refused("the equation is not linear in the unknown")
    return [{x: sympy.simplify(-zero.subs(x, 0) / sympy.diff(zero, x))}]


def _position(value: Any) -> tuple[bool, float, float]:
    number = complex(value.evalf(20)) if value.is_number else complex(0)
    return (abs(number.imag) > 1e-12, number.real, number.imag)


def _build(tree: Any) -> Any:
    if isinstance(tree, str):
        return CONSTANTS.get(tree) or _symbol(tree)
    operation, *arguments = tree
    if operation == "num":
        return sympy.Rational(int(arguments[0]), int(arguments[1]))
    return FUNCTIONS[operation](*(_build(argument) for argument in arguments))


def _symbol(name: str) -> Any:
    return sympy.Symbol(name)


def _text(result: Any) -> str:
    unfinished = (sympy.Integral, sympy.Derivative, sympy.Piecewise, sympy.CRootOf)
    if result.has(*unfinished, sympy.oo, -sympy.oo, sympy.zoo, sympy.nan):
        raise Refused("there is no finite closed form")
    text: str = _Printer().doprint(result).replace("**", "^")
    if len(text) > MAX_RESULT:
        raise Refused("the result is too long")
    return text
