"""Math: the pairs that a grader must get right, each also with numbers, letters and spacing drawn."""

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from conductor_plugin.grading.math import equal, grade_math
from tests.unit.grading.drawn import NUMBERS, POSITIVE, UNITS, VARIABLES, WORDS, spaced

PAIRS = [
    (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \pi/2)", True),
    (r"\text{Evelyn}", "Evelyn", True),
    (r"\text{(C)}", "C", True),
    (r"11,\! 111,\! 111,\! 100", "11111111100", True),
    (r"\$18.90", "18.9", True),
    (r"10\%", "10", True),
    (r"10\%", "0.1", True),
    ("10", "0.1", False),
    (r"5\text{ cm}", r"5\text{ m}", False),
    (r"90^\circ", "90", True),
    ("[-2,7]", "(-2,7)", False),
    ("[-2,7]", r"-2 \le x \le 7", True),
    ("1,-2", "-2,1", True),
    ("1,-2", "1", False),
    ("(1,-2)", "(-2,1)", False),
    (r"\frac{1}{2004!}", r"\frac{1}{2006!}", False),
    (r"\pm 2021", "2021", False),
    ("3x-y+13=0", "3x+4y+14=0", False),
    (r"-2\pi", "-2*pi", True),
    (r"\dfrac{\pi}{2}", "pi/2", True),
    ("e^{16}-1", "-1+exp(16)", True),
    ("52_8", "52_9", False),
    ("70", "70.", True),
    ("70", "070", True),
    (r"\frac{14}{3}", r"4\frac{2}{3}", True),
    (r"\frac{1}{3}", "0.333", False),
    ("y = 2x + 3", "2x+3", True),
    (r"\emptyset", "no solution", True),
    (r"10^{10^{10}}", r"10^{10^{9}}", False),
    (r"10^{10^{10^{10}}}", r"10^{10^{10^{9}}}", False),
    ("50000000000000000", "50000000000000001", False),
    # and more of each kind
    (r"52_8", "52", True),
    (r"52_8", "42", False),
    (r"4210_{5}", "4210_5", True),
    (r"\frac{1}{3}", "0.33333333", True),
    (r"y = 2x + 3", "2x - y + 3 = 0", True),
    ("x=5", "y=5", False),
    (r"1 \pm \sqrt{19}", r"1+\sqrt{19}, 1-\sqrt{19}", True),
    (r"\{1\pm\sqrt{5},-2\}", r"-2, 1+\sqrt5, 1-\sqrt5", True),
    (r"(-\infty, 2) \cup (3, \infty)", "x<2 or x>3", True),
    (r"(-\infty, 2) \cup (3, \infty)", "x<2 or x>4", False),
    (r"x \in [-2,7]", "[-2,7]", True),
    (r"(2,\infty)", "x>2", True),
    (r"(2,\infty)", r"x \ge 2", False),
    (r"\frac 59", "5/9", True),
    (r"\frac43", r"\frac{4}{3}", True),
    (r"11\sqrt2", "11*sqrt(2)", True),
    (r"864 \mbox{ inches}^2", "864", True),
    (r"864 \mbox{ inches}^2", "864 square inches", True),
    (r"15\mbox{ cm}^2", r"15 \text{ cm}^3", False),
    (r"\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix}", r"\begin{bmatrix} -\frac13 \\ \frac23 \end{bmatrix}", True),
    (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix}", False),
    ("(a+5)(b+2)", "ab+2a+5b+10", True),
    (r"\cot x", "1/tan(x)", True),
    (r"\cot x", r"\tan x", False),
    (r"\log_2 5", r"\frac{\ln 5}{\ln 2}", True),
    ("6 - 5i", "-5i+6", True),
    (r"\text{east}", "seat", False),
    (r"\text{even}", "Even", True),
    ("-1\\frac{1}{2}", "-3/2", True),
    (r"\sqrt{x^2}", "x", False),
    (r"\int_0^1 x dx", r"\frac{1}{2}", True),
    (r"\int_0^1 x dx", r"\frac{1}{3}", False),
    ("2^{10}", "2^10", True),
    (".0000672", "6.72e-5", True),
    ("5", "", False),
    ("5", r"\frac{", False),
    ("5", "5 or 6", False),
    # and what models write instead
    ("\\frac{1}{2}", ".5", True),
    ("x+1", "1+x", True),
    ("x", "X", False),
    ("2\\pi", "6.28", False),
    ("2\\pi", "6.283185307", True),
    ("0", "-0", True),
    ("3", "\\{3\\}", True),
    ("(1,2)", "[1,2]", False),
    ("1,2,3", "(1,2,3)", False),
    ("\\infty", "-\\infty", False),
    ("\\infty", "\\infty", True),
    ("DNE", "does not exist", False),
    ("x^2+1=0", "x^2=-1", True),
    ("f(x)=x+1", "x+1", True),
    ("12", "12\\text{ cm}", True),
    ("\\text{Yes}", "No", False),
    ("2", "2x", False),
    ("100", "1e2", True),
    ("\\sqrt{2}", "2^{1/2}", True),
    ("\\sqrt{2}", "-\\sqrt{2}", False),
    ("\\frac{\\sqrt{2}}{2}", "\\frac{1}{\\sqrt{2}}", True),
    ("\\sin^2 x", "(\\sin x)^2", True),
    ("\\tan^{-1} x", "\\arctan x", True),
    ("1:2", "1/2", False),
    ("3:2", "3:2", True),
    ("\\frac{3}{4}", "0.75", True),
    ("0.1", "10\\%", True),
    ("3.0", "3", True),
    ("\\$5", "5", True),
    ("5 \\text{ dollars}", "\\$5", True),
    ("1{,}000", "1000", True),
    ("x \\le 3", "(-\\infty,3]", True),
    ("x \\le 3", "x<3", False),
    ("2x+3y", "3y+2x", True),
    ("a", "\\text{a}", True),
    ("-\\frac{1}{3}", "\\frac{-1}{3}", True),
    ("\\binom{5}{2}", "10", True),
    ("5!", "120", True),
    ("|x|", "x", False),
    ("e", "2.718281828", True),
    ("\\log 100", "2", False),
    ("\\ln e", "1", True),
    ("\\frac{x}{2}", "x/2", True),
    ("2/3x", "\\frac{2x}{3}", True),
    ("12:30", "12:30", True),
    ("12:30", "12:31", False),
    ("3.5\\times 10^8", "350000000", True),
    ("2^{31}-1", "2147483647", True),
    ("2^{4000}", "2^{4001}", False),
    ("1", "0.9999999999", False),
    ("x=1,y=2", "y=2,x=1", True),
    ("(x,y)=(1,2)", "(1,2)", True),
    ("\\text{(A)}", "\\text{A}", True),
    ("\\text{(A)}", "B", False),
    ("3\\sqrt{2}\\text{ cm}", "3\\sqrt2", True),
    ("1/0", "5", False),
    ("\\frac{0}{0}", "\\frac{0}{0}", True),
    ("x^{-1}", "1/x", True),
    ("\\lfloor 2.5 \\rfloor", "2", True),
    ("\\mathbf{j}", "j", True),
    ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "(1,2)", True),
    ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\langle 1,2 \\rangle", True),
    ("\\overline{AB}", "AB", False),
    ("4\\ 1/2", "4.5", True),
    ("10", "ten", False),
    ("90", "90°", True),
    ("\\frac{1}{2}", "1/2 or 1/3", False),
    ("7", "7, 8", False),
    ("[1,2)", "1 \\leq x<2", True),
    ("60^\\circ", "\\frac{\\pi}{3}", False),
    ("2.5", "2,5", False),
    ("6", "6.0000001", False),
    ("x\\in(1,2)", "1<x<2", True),
    ("\\mathbb{R}", "(-\\infty,\\infty)", True),
    ("10^{-3}", "0.001", True),
    ("\\frac{1}{1000}", "0.001", True),
    ("\\sqrt[3]{-8}", "-2", True),
    ("(-8)^{1/3}", "-2", False),
    ("\\text{12 cm}", "12 cm", True),
    ("3 \\text{ or } 4", "4,3", True),
    ("12\\text{ seconds}", "12\\text{ sec}", True),
    ("12\\text{ apples}", "12\\text{ oranges}", False),
    ("12\\text{ apples}", "12", True),
    ("10\\text{ square meters}", "10 m^2", True),
    ("C", "\\text{(C) }12", False),
    ("a_{n}=2n", "2n", True),
    ("\\alpha+1", "1+\\alpha", True),
    ("0.5\\overline{3}", "0.53", False),
    ("5", "5 apples", True),
    ("\\frac{301}{3}", "100.333", False),
    ("\\binom{5}{2}", "11", False),
    ("\\alpha+1", "\\beta+1", False),
]


@pytest.mark.parametrize(("gold", "predicted", "match"), PAIRS)
def test_pairs(gold: str, predicted: str, match: bool) -> None:
    assert equal(gold, predicted) is match
    assert grade_math(gold, rf"So it is \boxed{{{predicted}}}, I think.").outcome in (
        ("right",) if match else ("wrong", "unparsed")
    )


def agree(data: st.DataObject, gold: str, predicted: str, match: bool) -> None:
    """Also with other spacing on either side."""
    assert equal(gold, predicted) is match
    assert equal(data.draw(spaced(gold)), data.draw(spaced(predicted))) is match


@given(st.data(), NUMBERS, POSITIVE)
def test_points(data: st.DataObject, a: int, b: int) -> None:
    agree(data, rf"\left( {a}, \frac{{\pi}}{{{b}}} \right)", rf"({a}, \pi/{b})", True)
    agree(data, rf"\left( {a}, \frac{{\pi}}{{{b}}} \right)", rf"({a}, \pi/{b + 1})", False)


@given(WORDS, WORDS)
def test_words(one: str, other: str) -> None:
    assert equal(rf"\text{{{one}}}", one)
    assert equal(rf"\text{{ {one} }}", f" {one} ")
    assert equal(rf"\text{{{one}}}", other) is (one.casefold() == other.casefold())
    assert equal(one, "".join(reversed(one))) is (one.casefold() == one[::-1].casefold())


@given(st.sampled_from("ABCDEFGH"), st.sampled_from("ABCDEFGH"))
def test_letters_in_brackets(one: str, other: str) -> None:
    assert equal(rf"\text{{({one})}}", other) is (one == other)


@given(st.integers(min_value=1000, max_value=10**15))
def test_thousands(n: int) -> None:
    for gold in (f"{n:,}", f"{n:,}".replace(",", ",\\!"), f"{n:,}".replace(",", ",\\! "), f"\\${n:,}"):
        assert equal(gold, str(n))
        assert not equal(gold, str(n + 1))


@given(st.integers(0, 10**6), st.integers(0, 99))
def test_money(whole: int, cents: int) -> None:
    gold = rf"\${whole}.{cents:02}"
    assert equal(gold, str(float(f"{whole}.{cents:02}")))
    assert equal(gold, f"${whole}.{cents:02}")
    assert not equal(gold, f"{whole}.{cents + 1:03}1")


@given(st.data(), POSITIVE)
def test_percentages(data: st.DataObject, n: int) -> None:
    for same in (str(n), f"{n / 100:.2f}", rf"{n}\%", f"{n}%", f"{n} percent", rf"\frac{{{n}}}{{100}}"):
        agree(data, rf"{n}\%", same, True)
    agree(data, str(n), f"{n / 100:.2f}", False)
    agree(data, rf"{n}\%", str(n + 1), False)


@given(POSITIVE, UNITS, UNITS)
def test_units(n: int, one: str, other: str) -> None:
    assert equal(rf"{n}\text{{ {one}}}", rf"{n} \mbox{{{other}}}") is (one == other)
    assert equal(rf"{n}\text{{ {one}}}", f"{n} {other}") is (one == other)
    assert equal(rf"{n}\text{{ {one}}}", str(n))
    assert not equal(rf"{n}\text{{ {one}}}", rf"{n + 1}\text{{ {one}}}")


@given(st.data(), NUMBERS)
def test_degrees(data: st.DataObject, n: int) -> None:
    for gold in (rf"{n}^\circ", rf"{n}^{{\circ}}", f"{n}°", rf"{n}\text{{ degrees}}"):
        assert equal(gold, str(n))
        assert not equal(gold, str(n + 1))


@given(st.data(), NUMBERS, POSITIVE, VARIABLES)
def test_intervals(data: st.DataObject, a: int, length: int, x: str) -> None:
    b = a + length
    agree(data, f"[{a},{b}]", f"({a},{b})", False)
    agree(data, f"[{a},{b}]", f"[{a},{b})", False)
    agree(data, f"[{a},{b}]", rf"{a} \le {x} \le {b}", True)
    agree(data, f"[{a},{b}]", rf"{b} \ge {x} \ge {a}", True)
    agree(data, f"[{a},{b}]", rf"{a} \le {x} < {b}", False)
    agree(data, f"({a},{b}]", f"{a} < {x} <= {b}", True)


@given(st.data(), st.lists(NUMBERS, min_size=2, max_size=5, unique=True))
def test_lists_and_tuples(data: st.DataObject, numbers: list[int]) -> None:
    texts = [str(n) for n in numbers]
    shuffled = data.draw(st.permutations(texts))
    # "1,234" alone is a number.
    assume(not any(len(text) == 3 and text.isdigit() for text in texts[1:] + shuffled[1:]))
    agree(data, ",".join(texts), ",".join(shuffled), True)
    agree(data, rf"\{{{','.join(texts)}\}}", " and ".join(shuffled), True)
    agree(data, ",".join(texts), ",".join(shuffled[1:]), False)
    agree(data, f"({','.join(texts)})", f"({','.join(shuffled)})", shuffled == texts)


@given(st.integers(5, 4000), st.integers(5, 4000))
def test_tiny_numbers(n: int, m: int) -> None:
    assert equal(rf"\frac{{1}}{{{n}!}}", f"1/{m}!") is (n == m)


@given(st.data(), POSITIVE)
def test_plus_minus(data: st.DataObject, n: int) -> None:
    agree(data, rf"\pm {n}", str(n), False)
    agree(data, rf"\pm {n}", f"-{n}", False)
    agree(data, rf"\pm {n}", f"-{n} , {n}", True)


@given(st.data(), POSITIVE, POSITIVE, NUMBERS, POSITIVE, VARIABLES, VARIABLES)
def test_lines(data: st.DataObject, a: int, b: int, c: int, k: int, x: str, y: str) -> None:
    assume(x != y)
    gold = f"{a}{x}-{b}{y}+{c}=0" if c >= 0 else f"{a}{x}-{b}{y}{c}=0"
    agree(data, gold, f"{a * k}{x} = {b * k}{y} - ({c * k})", True)
    agree(data, gold, f"{a * k}{x} = {(b + 1) * k}{y} - ({c * k})", False)
    agree(data, gold, f"{a}{x}-{b}{y}+({c + 1})=0", False)


@given(st.data(), POSITIVE, NUMBERS)
def test_plain_writing(data: st.DataObject, n: int, m: int) -> None:
    agree(data, rf"-{n}\pi", f"-{n}*pi", True)
    agree(data, rf"-{n}\pi", f"-{n + 1}*pi", False)
    agree(data, rf"\dfrac{{\pi}}{{{n}}}", f"pi/{n}", True)
    agree(data, rf"\dfrac{{\pi}}{{{n}}}", f"pi*{n}", False)
    agree(data, rf"e^{{{n}}}+({m})", f"({m})+exp({n})", True)
    agree(data, rf"e^{{{n}}}+({m})", f"({m})+exp({n + 1})", False)
    agree(data, rf"{n}\sqrt{{{n}}}", f"{n}*sqrt({n})", True)


@given(st.integers(1, 10**6), st.integers(3, 36), st.integers(3, 36))
def test_bases(n: int, one: int, other: int) -> None:
    digits = ""
    for _ in range(7):
        n, digit = divmod(n, min(one, 10))
        digits = str(digit) + digits
    digits = digits.lstrip("0") or "1"
    assert equal(f"{digits}_{one}" if one < 10 else f"{digits}_{{{one}}}", f"{digits}_{{{other}}}") is (one == other)


@given(NUMBERS, st.integers(0, 3))
def test_ways_to_write_a_whole_number(n: int, zeros: int) -> None:
    text = f"-{'0' * zeros}{-n}" if n < 0 else f"{'0' * zeros}{n}"
    for same in (text, f"{text}.", f"{text}.{'0' * zeros}", f" {text} ", f"${text}$", f"\\({text}\\)"):
        assert equal(str(n), same)
        assert not equal(str(n + 1), same)


@given(st.data(), POSITIVE, st.integers(1, 998), POSITIVE, st.booleans())
def test_mixed_numbers(data: st.DataObject, whole: int, over: int, under: int, negative: bool) -> None:
    assume(over < under)
    sign, value = "-" if negative else "", whole * under + over
    gold = rf"{sign}\frac{{{value}}}{{{under}}}"
    agree(data, gold, rf"{sign}{whole}\frac{{{over}}}{{{under}}}", True)
    assert equal(gold, f"{sign}{whole} {over}/{under}")
    agree(data, gold, rf"{sign}{whole + 1}\frac{{{over}}}{{{under}}}", False)


@given(st.integers(1, 999), st.integers(3, 999))
def test_short_decimals_are_no_fractions(over: int, under: int) -> None:
    assume(Fraction(over, under).denominator % 3 == 0)
    gold = rf"\frac{{{over}}}{{{under}}}"
    assert not equal(gold, f"{over / under:.3f}")
    assert equal(gold, f"{Fraction(over, under)}")


@given(st.data(), POSITIVE, POSITIVE, VARIABLES, VARIABLES)
def test_left_sides_may_be_left_out(data: st.DataObject, a: int, b: int, x: str, y: str) -> None:
    assume(x != y)
    agree(data, f"{y} = {a}{x} + {b}", f"{a}{x}+{b}", True)
    agree(data, f"{y} = {a}{x} + {b}", f"{b}+{a}{x} = {y}", True)
    agree(data, f"{y} = {a}{x} + {b}", f"{a}{x}-{b}", False)
    agree(data, f"{a}{x}+{b}", f"{a}{y}+{b}", False)


@pytest.mark.parametrize(
    "said", ["no solution", "No solutions.", "None", r"\varnothing", r"\{\}", "∅", r"\text{no solution}"]
)
def test_the_empty_set(said: str) -> None:
    assert equal(r"\emptyset", said)
    assert not equal(r"\emptyset", "0")
    assert not equal("0", said)


@given(st.integers(10**15, 10**40), st.integers(1, 9))
def test_long_whole_numbers_are_compared_to_the_last_digit(n: int, more: int) -> None:
    assert equal(str(n), f"{n:,}")
    assert not equal(str(n), str(n + more))


@given(st.integers(3, 20), st.integers(3, 20), st.integers(1, 5))
def test_towers_end(one: int, other: int, height: int) -> None:
    gold, predicted = ("10^{" * height + str(n) + "}" * height for n in (one, other))
    assert equal(gold, predicted) is (one == other)


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_gets_a_verdict(gold: str, answer: str) -> None:
    assume("\\int" not in gold + answer)
    verdict = grade_math(gold, answer)
    assert verdict.outcome in ("right", "wrong", "unparsed")
    assert (verdict.extracted is None) is (verdict.outcome == "unparsed")
