"""From "the sum of 3 and 4 squared" or "2x^2 - 1/3" to a tree, by a small recursive descent.

`parse(text)` understands the whole text or raises `Unreadable`; nothing is guessed and nothing is evaluated.
What people read in two ways is refused: `8/2(2+2)`, `1/2x`, "the square root of 16 plus 9", `50 + 10%`,
`007`, `5!!`, `f(2)`, "the sum of 100,200 and 3". Otherwise the usual rules hold: powers bind tightest and to the
right, a sign binds less tightly than a power (-2^2 is -4), products before sums, also where they are words.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import NamedTuple

from conductor_plugin.workers.tools.trees import MAX_DIGITS, Node, Tree, Unreadable, integer
from conductor_plugin.workers.tools.wording import signs

MAX_TOKENS = 5_000
MAX_DEPTH = 40


class Formula(NamedTuple):
    """What `parse` makes of a text.

    decimal: the text writes decimals or percentages, so the result should be a decimal too.
    tight: nothing could be torn out of it: a number, a power, a bracket, "the sum of …", but not `3 + 4`.
    """

    tree: Tree
    decimal: bool
    tight: bool


_NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,4}(?![0-9.a-z]))?|\.[0-9]+"
_TOKEN = re.compile(rf"\s*(?:(?P<number>{_NUMBER})|(?P<word>[a-z]+(?:_of)?)|(?P<sign>\*\*|[-+*/^()!%,²³]))")
_FUNCTIONS = {"sqrt", "cbrt", "abs", "factorial", "sin", "cos", "tan", "ln", "exp", "max", "min"}
_ONE = {"sqrt_of", "cbrt_of", "square_of", "cube_of", "factorial_of", "abs_of", "inverse_of"}
_MANY = {"sum_of", "product_of", "difference_of", "quotient_of", "mean_of", "max_of", "min_of"}
_LETTER_PRODUCT = re.compile(r"[xyz]{2,3}|ab|bc|ac|abc")


def parse(text: str) -> Formula:
    """The formula that the lower-case text is. `Unreadable` if it is not one."""
    if re.search(r"(?<![0-9.])0x", text):
        raise Unreadable("a hexadecimal number, or a product?")
    if re.search(r"(?<![a-z])(?:[fgh]\(|[a-z]\((?:[a-z]|[0-9.]+)\))", text):
        raise Unreadable("a function of something, or a product?")
    parser = _Parser(_tokens(signs(text)))
    tree = parser.sum()
    parser.expect("")
    return Formula(tree, parser.decimal, parser.operators == 0)


class _Token(NamedTuple):
    kind: str
    text: str


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or len(tokens) >= MAX_TOKENS:
            raise Unreadable("not a formula")
        position = match.end()
        kind = str(match.lastgroup)
        if kind == "word" and _LETTER_PRODUCT.fullmatch(match["word"]):
            tokens.extend(_Token("word", letter) for letter in match["word"])
        else:
            tokens.append(_Token(kind, match[kind].replace("**", "^")))
    return tokens


class _Parser:
    """One method a rule of the grammar; each leaves `_at` after what it has read."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._lists = 0
        self._worded_power = False
        self.decimal = False
        self.operators = 0  # outside all brackets and phrases

    def sum(self) -> Tree:
        terms = [self._product()]
        while self._next() in ("+", "-"):
            sign = self._take()
            self._count_operator()
            term = self._product()
            terms.append(term if sign == "+" else Node("neg", (term,)))
        return terms[0] if len(terms) == 1 else Node("+", tuple(terms))

    def expect(self, text: str) -> None:
        if self._next() != text:
            raise Unreadable(f"{self._next()!r} instead of {text!r}")
        self._at += 1

    def _product(self) -> Tree:
        factors = [*self._signed_factors()]
        while (operator := self._next()) in ("*", "/"):
            self._take()
            self._count_operator()
            right = self._signed_factors()
            if operator == "/":
                if len(right) > 1:
                    raise Unreadable("is the factor after the division below the line or not?")
                right = [Node("inv", (right[0],))]
            factors += right
        return factors[0] if len(factors) == 1 else Node("*", tuple(factors))

    def _signed_factors(self) -> list[Tree]:
        """`-2x(x+1)`: factors that stand side by side, the first with an optional sign."""
        sign = self._take() if self._next() in ("+", "-") else "+"
        first = self._power()
        if sign == "-" and self._worded_power:
            raise Unreadable("the square of a negative, or the negative of a square?")
        factors = [Node("neg", (first,)) if sign == "-" else first]
        if (
            self._next() == "parts_of"
            and not isinstance(first, str)
            and not (isinstance(first, Node) and first.op == "^")
        ):
            self._take()
            return [*factors, self._before_the_end(self._plain_item())]
        if self._next() == "%":
            self._take()
            self._count_operator()
            self.expect("of")
            self.decimal = True
            with self._deeper():
                factors += [Fraction(1, 100), *self._signed_factors()]
        while self._starts_factor():
            self._count_operator()
            factors.append(self._power())
        return factors

    def _starts_factor(self) -> bool:
        text = self._next()
        return text == "(" or text in _FUNCTIONS or text == "pi" or (len(text) == 1 and text.isalpha())

    def _power(self) -> Tree:
        base = self._atom()
        if self._next() == "!":
            self._take()
            base = Node("factorial", (base,))
        if worded := self._next() in ("²", "³"):
            base = Node("^", (base, Fraction(2 if self._take() == "²" else 3)))
        if self._next() == "^" and not worded:
            self._take()
            with self._deeper():
                sign = self._take() if self._next() in ("+", "-") else "+"
                exponent = self._power()
            base = Node("^", (base, Node("neg", (exponent,)) if sign == "-" else exponent))
        if self._next() in ("!", "^", "²", "³"):
            raise Unreadable("two operators after one operand")
        self._worded_power = worded
        return base

    def _atom(self) -> Tree:
        kind, text = self._token()
        self._at += 1
        if kind == "number":
            return self._number(text)
        if kind == "word" and (len(text) == 1 or text == "pi"):
            return text
        with self._deeper():
            if text == "(":
                inner = self.sum()
                self.expect(")")
                return inner
            if text in _FUNCTIONS:
                return self._call(text)
            if text in _ONE:
                return self._before_the_end(_phrase(text, [self._plain_item()]))
            if text in _MANY:
                return self._before_the_end(_phrase(text, self._items()))
        raise Unreadable(f"{text!r} is not part of a formula")

    def _number(self, text: str) -> Fraction:
        whole, _, places = text.replace(",", "").partition(".")
        places, _, exponent = places.partition("e") if places else ("", "", "")
        if "e" in whole:
            whole, _, exponent = whole.partition("e")
        if len(whole) > 1 and whole.startswith("0"):
            raise Unreadable("a number does not begin with 0")
        self.decimal = self.decimal or bool(places or exponent)
        power = int(exponent or 0)
        if abs(power) > MAX_DIGITS:
            raise Unreadable("the number is too long")
        value = Fraction(integer(whole + places), 10 ** len(places))
        return value * Fraction(10) ** power

    def _call(self, name: str) -> Tree:
        if self._next() != "(":
            if name not in ("sqrt", "cbrt", "factorial"):
                raise Unreadable(f"{name} needs brackets")
            return self._before_the_end(Node(name, (self._plain_item(),)))
        self._take()
        arguments = [self.sum()]
        while self._next() == ",":
            self._take()
            arguments.append(self.sum())
        self.expect(")")
        if (len(arguments) > 1) != (name in ("max", "min")):
            raise Unreadable(f"{name} takes another number of arguments")
        return Node(name, tuple(arguments))

    def _items(self) -> list[Tree]:
        """`3, 4 and 5` after "the sum of". At least two, and no thousands separators that may be commas."""
        start = self._at
        self._lists += 1
        items = [self._plain_item()]
        while self._next() in (",", "and"):
            if self._take() == "," and self._next() == "and":
                self._take()
            items.append(self._plain_item())
        self._lists -= 1
        if len(items) > 2 and self._lists:
            raise Unreadable("which items belong to the inner list?")
        grouped = [token.text for token in self._tokens[start : self._at] if "," in token.text[1:]]
        if len(items) < 2 or any(not re.fullmatch(r"[0-9]{1,3}(,000)+", text) for text in grouped):
            raise Unreadable("which numbers?")
        return items

    def _plain_item(self) -> Tree:
        """What may follow "of" without a question where it ends: `-3`, `1/2`, `(…)`, a letter, a phrase."""
        sign = self._take() if self._next() == "-" else "+"
        item = self._atom()
        if isinstance(item, Fraction) and self._next() == "/":
            self._take()
            if self._token().kind != "number":
                raise Unreadable("not a fraction")
            item = Node("*", (item, Node("inv", (self._atom(),))))
        return Node("neg", (item,)) if sign == "-" else item

    def _count_operator(self) -> None:
        if self._depth == 0:
            self.operators += 1

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unreadable("nested too deeply")
        yield
        self._depth -= 1

    def _before_the_end(self, tree: Tree) -> Tree:
        if self._next() not in ("", ")", ",", "and"):
            raise Unreadable("it is unclear where the operand of the phrase ends")
        return tree

    def _token(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _Token("end", "")

    def _next(self) -> str:
        return self._token().text

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1].text


def _phrase(name: str, items: list[Tree]) -> Tree:
    first = items[0]
    match name:
        case "square_of" | "cube_of":
            return Node("^", (first, Fraction(2 if name == "square_of" else 3)))
        case "inverse_of":
            return Node("inv", (first,))
        case "sum_of":
            return Node("+", tuple(items))
        case "product_of":
            return Node("*", tuple(items))
        case "mean_of":
            return Node("*", (Node("+", tuple(items)), Fraction(1, len(items))))
        case "difference_of" | "quotient_of":
            if len(items) != 2:
                raise Unreadable("of two numbers")
            if name == "quotient_of":
                return Node("*", (first, Node("inv", (items[1],))))
            return Node("difference", tuple(items))
    return Node(name.removesuffix("_of"), tuple(items))
