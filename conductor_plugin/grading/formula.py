r"""Formulas read into trees: LaTeX and what people type instead of it, `\frac{\pi}{2}` as well as `pi/2`.

A tree is a tuple, its first item the operation: ("number", "1.5"), ("name", "x"), ("+", a, b), ("sin", a), …
`Unreadable` says that a text is no formula of this grammar; others may still read it.
"""

import re

Tree = tuple[object, ...]

MAX_LENGTH = 3000

FUNCTIONS = (
    *("arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "sin", "cos", "tan", "cot", "sec", "csc"),
    *("log", "ln", "exp", "sqrt", "abs"),
)
_GREEK = (
    *("alpha", "beta", "gamma", "delta", "epsilon", "theta", "lambda", "mu", "nu", "rho", "sigma", "tau", "phi"),
    *("varphi", "omega", "ell", "zeta", "eta", "kappa", "xi", "psi", "chi", "Delta", "Omega"),
)
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.?\d*|\.\d+)|(?P<command>\\[A-Za-z]+)"
    rf"|(?P<word>{'|'.join(FUNCTIONS)}|pi(?![a-z])|infinity|inf(?![a-z]))|(?P<letter>[A-Za-z])|(?P<mark>[-+*/^_!(){{}}|\[\],]))"
)
_TIMES, _OVER = ("*", "\\cdot", "\\times", "\\ast"), ("/", "\\div")
_CLOSING = {"(": ")", "{": "}", "[": "]"}


class Unreadable(ValueError):
    """The text is no formula that this grammar knows."""


def read(text: str) -> Tree:
    """The tree of a formula. Unreadable if it is none."""
    if len(text) > MAX_LENGTH:
        raise Unreadable("too long")
    reader = _Reader(_tokens(text.replace("**", "^")))
    try:
        tree = reader.sum()
    except RecursionError:
        raise Unreadable("nested too deep") from None
    if reader.peek():
        raise Unreadable(f"{reader.peek()!r} is in the way")
    return tree


def names(tree: Tree) -> set[str]:
    """The variables of a formula."""
    if tree[0] == "name":
        return {str(tree[1])}
    return set().union(*(names(part) for part in tree[1:] if isinstance(part, tuple)))


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    text = text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise Unreadable(f"{text[position]!r} is no part of a formula")
        position = match.end()
        tokens.append(f"\\{match['word']}" if match["word"] else match[0].strip())
    return tokens


class _Reader:
    """Recursive descent, one method a level of precedence."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens[::-1]

    def peek(self) -> str:
        return self._tokens[-1] if self._tokens else ""

    def _next(self) -> str:
        if not self._tokens:
            raise Unreadable("it ends too early")
        return self._tokens.pop()

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise Unreadable(f"{token!r} is missing")

    def sum(self) -> Tree:
        tree = self._product()
        while self.peek() in ("+", "-"):
            tree = (self._next(), tree, self._product())
        return tree

    def _product(self) -> Tree:
        if self.peek() in ("+", "-"):
            # Of the whole product, since -1\frac{1}{2} is -(1 + 1/2).
            sign, tree = self._next(), self._product()
            return ("negative", tree) if sign == "-" else tree
        tree = self._power()
        while True:
            if self.peek() in _TIMES:
                self._next()
                tree = ("*", tree, self._signed())
            elif self.peek() in _OVER:
                self._next()
                tree = ("/", tree, self._signed())
            elif self._at_atom():
                mixed = _is_whole(tree) and self.peek() == "\\frac"
                factor = self._power()
                # 4\frac{2}{3} is a mixed number: nobody multiplies so.
                mixed = mixed and factor[0] == "/" and all(_is_whole(part) for part in factor[1:])
                tree = ("+" if mixed else "*", tree, factor)
            else:
                return tree

    def _signed(self) -> Tree:
        if self.peek() in ("+", "-"):
            sign, tree = self._next(), self._signed()
            return ("negative", tree) if sign == "-" else tree
        return self._power()

    def _power(self) -> Tree:
        tree = self._atom()
        while self.peek() == "!":
            self._next()
            tree = ("!", tree)
        if self.peek() == "^":
            self._next()
            tree = ("^", tree, self._exponent())
        return tree

    def _exponent(self) -> Tree:
        if self.peek() in ("+", "-"):
            return self._signed()
        return self._power()

    def _at_atom(self) -> bool:
        token = self.peek()
        return bool(token) and (token[0].isalnum() or token[0] in ".({" or self._is_command_atom(token))

    def _is_command_atom(self, token: str) -> bool:
        known = ("\\frac", "\\pi", "\\binom", "\\infty", "\\inf", "\\infinity")
        return token in known or token[1:] in FUNCTIONS or token[1:] in _GREEK

    def _atom(self) -> Tree:
        token = self._next()
        if token[0].isdigit() or token[0] == ".":
            return ("number", token)
        if token in _CLOSING:
            tree = self.sum()
            self._expect(_CLOSING[token])
            return tree
        if token == "|":
            tree = self.sum()
            self._expect("|")
            return ("abs", tree)
        if token.isalpha():
            return self._name(token)
        if token[0] == "\\":
            return self._command(token[1:])
        raise Unreadable(f"{token!r} is in the way")

    def _name(self, token: str) -> Tree:
        if self.peek() == "_":
            self._next()
            return ("name", f"{token}_{self._argument()}")
        return ("constant", token) if token in ("e", "i") else ("name", token)

    def _command(self, name: str) -> Tree:
        if name == "frac":
            return ("/", self._argument(), self._argument())
        if name == "binom":
            return ("binomial", self._argument(), self._argument())
        if name == "pi":
            return ("constant", "pi")
        if name in ("infty", "infinity", "inf"):
            return ("constant", "infinity")
        if name == "sqrt":
            return self._root()
        if name in FUNCTIONS:
            return self._function(name)
        if name in _GREEK:
            return self._name(f"\\{name}") if self.peek() == "_" else ("name", f"\\{name}")
        raise Unreadable(f"\\{name} is unknown")

    def _root(self) -> Tree:
        degree: Tree = ("number", "2")
        if self.peek() == "[":
            self._next()
            degree = self.sum()
            self._expect("]")
        return ("root", self._argument(), degree)

    def _argument(self) -> Tree:
        """One argument as TeX takes it: a group, a command or a single digit."""
        token = self.peek()
        if token[:1].isdigit() and "." not in token and len(token) > 1:
            self._tokens[-1] = token[1:]
            return ("number", token[0])
        return self._atom()

    def _function(self, name: str) -> Tree:
        base = power = None
        for _ in range(2):
            if self.peek() == "_" and name == "log":
                self._next()
                base = self._argument()
            elif self.peek() == "^":
                self._next()
                power = self._argument()
        argument = self._power() if self.peek() in _CLOSING else self._bare_argument()
        if power == ("negative", ("number", "1")) and name in ("sin", "cos", "tan"):
            return (f"arc{name}", argument)
        tree: Tree = ("log", argument, base) if base else (name, argument)
        return ("^", tree, power) if power else tree

    def _bare_argument(self) -> Tree:
        r"""\sin 2x is the sine of 2x: factors side by side, up to the next function."""
        tree = self._signed()
        while self._at_atom() and self.peek() not in _CLOSING and self.peek()[1:] not in FUNCTIONS:
            tree = ("*", tree, self._power())
        return tree


def _is_whole(tree: object) -> bool:
    return isinstance(tree, tuple) and tree[0] == "number" and str(tree[1]).isdigit()
