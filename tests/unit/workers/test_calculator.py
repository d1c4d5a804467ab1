"""The calculator: right answers in many wordings, refusals of all else, and operands from earlier steps."""

import contextlib
import operator
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor_plugin.workers import REFUSAL
from conductor_plugin.workers.tools import child
from conductor_plugin.workers.tools.arithmetic import parse
from conductor_plugin.workers.tools.exact import Impossible, Irrational, evaluate, rounded, written
from conductor_plugin.workers.tools.trees import Unreadable
from tests.unit.workers.tools import HOSTILE, NOBODYS_QUESTIONS, NUL_BYTE, ask, ask_quickly

ARITHMETIC = {
    "2+2": "4",
    "What is 3 + 4?": "7",
    "what's 3+4": "7",
    "What is 3 + 4 equal to?": "7",
    "What does 3 + 4 equal?": "7",
    "3 + 4 =": "7",
    "3 + 4 = ?": "7",
    "How much is 3 + 4?": "7",
    "Please compute 3 + 4.": "7",
    "Can you calculate 7 times 8, please?": "56",
    "Compute 2+2. Give only the number.": "4",
    "Compute 2+2. Answer with just the number.": "4",
    "Question: What is 12 * 12?": "144",
    "Compute the following: 3 * (4 + 5)": "27",
    "Use the calculator to compute 3 + 4": "7",
    "What is the value of 3 + 4?": "7",
    "What is 3 plus 4 times 2?": "11",
    "(2+3)*(4-1)": "15",
    "2(3+4)": "14",
    "10 - 3 - 2": "5",
    "100 / 5 / 2": "10",
    "10/4": "5/2",
    "6/4": "3/2",
    "-7 + 3": "-4",
    "3 - -5": "8",
    "-2^2": "-4",
    "2^3^2": "512",
    "2**10": "1024",
    "2^-2": "1/4",
    "7×8": "56",
    "7 x 8": "56",
    "7x8": "56",
    "6 ÷ 4": "3/2",
    "9 − 4": "5",
    "3² + 4²": "25",
    "√16 + √9": "7",
    "sqrt(144)": "12",
    "1/3 + 1/6": "1/2",
    "0.1 + 0.2": "0.3",
    "1.5 * 4": "6",
    "1.0 / 3": "1/3",
    "0.5 / 0.25": "2",
    "1,000 + 2,000": "3000",
    "2e3 + 1": "2001",
    "1.5e-3 * 2": "0.003",
    "12345678901234567890 * 98765432109876543210": "1219326311370217952237463801111263526900",
    "one plus one": "2",
    "What is twenty-five times four?": "100",
    "seven minus ten": "-3",
    "What is 12 multiplied by 7?": "84",
    "What is 84 divided by 7?": "12",
    "3 over 4 plus 1 over 4": "1",
    "5 squared": "25",
    "5 squared minus 3 squared": "16",
    "2 cubed": "8",
    "2 to the power of 10": "1024",
    "2 raised to the power 10": "1024",
    "2 to the 5th power": "32",
    "the square of -3": "9",
    "What is the cube of 3?": "27",
    "What is the square root of 144?": "12",
    "the cube root of 27": "3",
    "square root of 1/4": "1/2",
    "27^(1/3)": "3",
    "32^(2/5)": "4",
    "cbrt(-8)": "-2",
    "5 plus the square root of 16": "9",
    "5!": "120",
    "What is 5 factorial?": "120",
    "What is the factorial of 5?": "120",
    "factorial(5)": "120",
    "What is 10!/(8!)?": "90",
    "0!": "1",
    "10 choose 3": "120",
    "abs(-3)": "3",
    "the absolute value of -3": "3",
    "the reciprocal of 4": "1/4",
    "max(3, 5, 4)": "5",
    "the largest of 3, 7 and 5": "7",
    "the minimum of 3, 7 and 5": "3",
    "What is the sum of 3, 4 and 5?": "12",
    "Please calculate the sum of 3, 4, and 5.": "12",
    "the product of 12 and 12": "144",
    "the difference between 10 and 4": "6",
    "the quotient of 10 and 4": "5/2",
    "the average of 3, 4 and 5": "4",
    "the mean of 1/2 and 1/3": "5/12",
    "the product of 3 and the sum of 4 and 5": "27",
    "2 times the sum of 3 and 4": "14",
    "twice the sum of 3 and 4": "14",
    "What is half of 10?": "5",
    "1/3 of 9": "3",
    "a third of 9": "3",
    "two thirds of 9": "6",
    "three quarters of 80": "60",
    "Add 3 to 4": "7",
    "Add 3 and 4": "7",
    "Add 3, 4 and 5.": "12",
    "Subtract 3 from 10": "7",
    "3 subtracted from 10 plus": REFUSAL,
    "Multiply 6 by 7": "42",
    "Multiply 6 and 7": "42",
    "Multiply 3 + 4 by 2": "14",
    "Divide 10 by 4": "5/2",
    "Raise 2 to the power of 10": "1024",
    "Square 5": "25",
    "Double 7": "14",
    "Halve 7": "7/2",
    "Multiply 6 by the sum of 3 and 4": "42",
    "Multiply 6 by 7, then subtract 2": "40",
    "Add 3 and 4, then multiply by 2, and then square it": "196",
    "What is the sum of the integers from 1 to 100?": "5050",
    "Which is larger, 9.11 or 9.9?": "9.9",
    "Which number is smaller: 3/4 or 2/3?": "2/3",
    "the larger of 3/4 and 2/3": "3/4",
    "Simplify 12/18": "2/3",
}
PERCENT_AND_FORM = {
    "What is 15% of 80?": "12",
    "What is 15 percent of 80?": "12",
    "15% of 85": "12.75",
    "12.5% of 64": "8",
    "20% of 50% of 80": "8",
    "15% of 80 + 20% of 50": "22",
    "200% of 3": "6",
    "What is 20 percent off 50?": "40",
    "20% off of 50": "40",
    "Increase 50 by 20%": "60",
    "Decrease 50 by 20 percent": "40",
    "What percent of 80 is 12?": "15%",
    "12 is what percent of 80?": "15%",
    "What is 12 as a percentage of 80?": "15%",
    "What percentage is 1 of 3?": "100/3%",
    "What is 3/8 as a decimal?": "0.375",
    "What is 15% as a decimal?": "0.15",
    "Write 0.75 as a fraction": "3/4",
    "Convert 3/4 to a percentage": "75%",
    "Round 10/3 to 2 decimal places": "3.33",
    "What is 2/3 rounded to two decimal places?": "0.67",
    "Round 2.5 to the nearest integer": "3",
    "Round -2.5 to the nearest whole number": "-3",
    "1234 to the nearest hundred": "1200",
    "1/3 as a decimal": REFUSAL,
}
ALGEBRA = {
    "Solve x^2 - 5x + 6 = 0": "x = 2 or x = 3",
    "Solve the equation x^2 - 5x + 6 = 0.": "x = 2 or x = 3",
    "Solve 3x + 7 = 22 for x": "x = 5",
    "Solve for x: 3x + 7 = 22": "x = 5",
    "3x + 7 = 22": "x = 5",
    "What is x if 3x + 7 = 22?": "5",
    "Find x if 3x + 7 = 22": "5",
    "Find the value of x such that 2x = 8.": "4",
    "If 3x + 7 = 22, what is x?": "5",
    "If 3x + 7 = 22, what is 2x + 1?": "11",
    "What is x^2 + 1 when x = 3?": "10",
    "Evaluate 3x^2 - y at x = 2, y = 5": "7",
    "What is x if x^2 = 4?": "-2 or 2",
    "What is x^2 if x^2 = 4?": "4",
    "Solve x^2 = 2": "x = -sqrt(2) or x = sqrt(2)",
    "Solve x^2 = -1": "x = -i or x = i",
    "Solve 2x = 1": "x = 1/2",
    "Solve 0.5x = 1": "x = 2",
    "Solve (x^2-1)/(x-1) = 0": "x = -1",
    "Solve 2^x = 8": "x = 3",
    "Solve sqrt(x) = 3": "x = 9",
    "Solve sqrt(x) = -3": "no real solution",
    "Solve x = x + 1": "no solution",
    "Solve x = x": "infinitely many solutions",
    "x + y = 10, x - y = 2": "x = 6, y = 4",
    "Solve the system x + y = 10 and x - y = 2": "x = 6, y = 4",
    "Solve x + y = 10, x - y = 2 for x": "x = 6",
    "What are x and y if x + y = 10 and x - y = 2?": "x = 6, y = 4",
    "What is x + y if x + y = 10?": "10",
    "Solve x + y = 10 for x": "x = 10 - y",
    "Solve x + y = 1, x + y = 2": "no solution",
    "Solve x + y = 1, 2x + 2y = 2": "infinitely many solutions",
    "Solve sin(x) = 0": REFUSAL,
    "Solve cos(x) = x": REFUSAL,
    "Solve x^5 - x - 1 = 0": REFUSAL,
    "Solve x^2 + y^2 = 1, x = y": REFUSAL,
    "Solve x^2 = 4 for y": REFUSAL,
    "What is z if x + y = 10?": REFUSAL,
    "What is 10 - 3 if x = 5?": REFUSAL,
    "Simplify (x^2-1)/(x-1)": "x + 1",
    "Simplify 2x + 3x": "5*x",
    "Expand (x+1)^3": "x^3 + 3*x^2 + 3*x + 1",
    "Expand (x+y)(x-y)": "x^2 - y^2",
    "Factor x^2 - 5x + 6": "(x - 3)*(x - 2)",
    "What is the derivative of x^3?": "3*x^2",
    "Differentiate sin(x) with respect to x": "cos(x)",
    "the second derivative of x^4": "12*x^2",
    "d/dx x^3": "3*x^2",
    "Differentiate xy with respect to x": "y",
    "Integrate x^2 dx": "x^3/3 + C",
    "Integrate x^2 from 0 to 1": "1/3",
    "What is the integral of 1/x?": "ln(x) + C",
    "Integrate 1/x^2 from -1 to 1": REFUSAL,
    "What is sqrt(8)?": "2*sqrt(2)",
    "sqrt(2)*sqrt(8)": "4",
    "the square root of 2 to 5 decimal places": "1.41421",
    "pi to 10 decimals": "3.1415926536",
    "sin(pi/6)": "1/2",
    "ln(e)": "1",
}
REFUSED = [
    "What is the square root of 2?",  # the exact answer is the question
    "Factor 12",  # another tool's
    "17 mod 5",
    "8/2(2+2)",
    "1/2x = 3",
    "50 + 10%",
    "Add 10% to 50",
    "the square root of 16 plus 9",
    "half of 10 plus 4",
    "Double 5 plus 3",
    "Divide 10 by 2 + 3",
    "Add 3 to 4 times 2",
    "-3 squared",
    "negative 3 squared",
    "the sum of 100,200 and 3",
    "the sum of the product of 2 and 3 and 4",
    "the average of 10",
    "difference between 4 and 10",
    "007 + 1",
    "0x10 + 1",
    "1.2.3 + 1",
    "5!!",
    "1/0",
    "0^0",
    "(-8)^(1/3)",
    "sqrt(-4)",
    "(-1)!",
    "2.5!",
    "sin(30)",
    "log(100)",
    "f(2)",
    "What is f(3) if f(x) = x^2?",
    "What is a + b?",
    "E = mc^2",
    "3 + 4 = 7",
    "Is 3 + 4 = 7?",
    "What is 3 + 4 apples?",
    "$3 + $4",
    "3 m + 4 m",
    "20% off 50 + 10",
    "What is 3 + 4, then what is 5 + 6?",
    "2 to the power half of 10",
    "d/dx 7x8",
    "Solve and + y = 10, x - y = 2",
    "What is 3 more than 5?",
    "Which is larger, 2 or 2.0?",
    "Convert 3/8 to decimal places",
]
TABLE = {**ARITHMETIC, **PERCENT_AND_FORM, **ALGEBRA, **dict.fromkeys(REFUSED, REFUSAL)}

# instruction, outputs of the visible steps, answer
STEPS = [
    ("Now add 5 to the result.", ["12"], "17"),
    ("Add 5.", ["12"], "17"),
    ("Multiply by 3.", ["x = 4"], "12"),
    ("Then multiply it by 3", ["4"], "12"),
    ("Multiply the result of step 0 by 3.", ["The answer is 4.", "x"], "12"),
    ("Multiply the output from step 1 by 3.", ["7", "5"], "15"),
    ("Multiply step 1's result by 3", ["7", "5"], "15"),
    ("Multiply the result of step 3 by 3.", ["7"], REFUSAL),
    ("Subtract the result of step 1 from the result of step 0.", ["30", "4"], "26"),
    ("Add the results of steps 0 and 1", ["3", "4", "9"], "7"),
    ("Add the two results.", ["3", "4"], "7"),
    ("Add the two results.", ["3", "4", "5"], REFUSAL),
    ("Add both numbers", ["3", "4"], "7"),
    ("What is the sum of the answers above?", ["3", "4", "5"], "12"),
    ("Multiply the first answer by the second answer.", ["3", "5"], "15"),
    ("Divide the previous result by the first result", ["4", "12"], "3"),
    ("What is 10% of the previous result?", ["200"], "20"),
    ("What is 10% of that?", ["200"], "20"),
    ("Square the answer above.", ["So 3 + 9 = 12 apples."], "144"),
    ("Double it.", ["First I add.\nThen I get **21**."], "42"),
    ("Double it.", ["The final answer is \\boxed{21}"], "42"),
    ("Double it.", ["Answer: 1,000"], "2000"),
    ("Double it.", ["17/3"], "34/3"),
    ("Double it.", ["-2.5"], "-5"),
    ("Double it.", ["It is about 21."], REFUSAL),
    ("Double it.", ["3 red and 5 blue"], REFUSAL),
    ("Double it.", ["x = 2 or x = 3"], REFUSAL),
    ("Double it.", ["2x = 4"], REFUSAL),
    ("Double it.", ["15%"], REFUSAL),
    ("Double it.", ["hello"], REFUSAL),
    ("Double it.", [REFUSAL], REFUSAL),
    ("Double it.", ["4", REFUSAL], REFUSAL),  # not 8: the latest step has no answer
    ("Double it.", ["4", "(no answer)"], REFUSAL),
    ("Double it.", [], REFUSAL),
    ("Take the square root.", ["16"], "4"),
    ("Take its square root.", ["16"], "4"),
    ("Round to 2 decimal places.", ["10/3"], "3.33"),
    ("Sum the numbers.", ["3, 4 and 5"], "12"),
    ("Compute the sum of the solutions.", ["x = 2 or x = 3"], "5"),
    ("Divide the sum by 2", ["12"], "6"),
    ("Add 5, then multiply by 2.", ["1"], "12"),
    ("Add 5, then multiply 2 by 3.", ["1"], REFUSAL),  # the first result would vanish
    ("Take the square both root", ["16"], REFUSAL),
    ("Solve the equation.", ["x^2 = 9"], "x = -3 or x = 3"),
    ("Factor the polynomial.", ["x^2 - 1"], "(x - 1)*(x + 1)"),
    ("Differentiate it.", ["x^3"], "3*x^2"),
    ("Compute it.", ["3*4 + 5"], "17"),
    ("Compute 3 + 4", ["100"], "7"),
    ("Is that right?", ["12"], REFUSAL),
    ("Verify the result.", ["12"], REFUSAL),
    ("Explain the answer above.", ["12"], REFUSAL),
    ("Reverse it.", ["12"], REFUSAL),
    ("Give the first answer above that is not a refusal.", ["12"], REFUSAL),
]

# question, instruction, answer: nothing is visible
INSTRUCTIONS = [
    ("What is 3 + 4?", "", "7"),
    ("What is 3 + 4?", "   ", "7"),
    ("What is 3 + 4?", "Solve the problem.", "7"),
    ("What is 3 + 4?", "Answer the question.", "7"),
    ("What is 3 + 4?", "Please answer the question above.", "7"),
    ("What is 3 + 4?", "Compute the answer", "7"),
    ("What is 3 + 4?", "Give the final answer.", "7"),
    ("What is 3 + 4?", "Compute it.", "7"),
    ("What is 3 + 4?", "Find the solution to the given problem", "7"),
    ("What is 3 + 4?", "What is 3 + 5?", "8"),
    ("What is 3 + 4?", "Write a poem.", REFUSAL),
    ("What is 3 + 4?", "Check the answer.", REFUSAL),
    ("What is 3 + 4?", "Write Python code for the problem.", REFUSAL),
    ("What is 3 + 4?", "Double the result", REFUSAL),
    ("What is the capital of France?", "What is 3 + 4?", "7"),
    ("What is the capital of France?", "Solve the problem.", REFUSAL),
    ("Solve 2x = 8", "Solve the equation.", "x = 4"),
    ("Factor x^2 - 1", "Factor the polynomial.", "(x - 1)*(x + 1)"),
    ("x^2 - 1", "Factor the polynomial.", "(x - 1)*(x + 1)"),
    ("Tom has 3 apples and buys 4.", "Double the number", REFUSAL),
]


@pytest.mark.parametrize(("question", "expected"), TABLE.items())
async def test_question(question: str, expected: str) -> None:
    assert await ask("calculator", question) == expected


@pytest.mark.parametrize("question", NOBODYS_QUESTIONS)
async def test_refuses_what_is_not_its_own(question: str) -> None:
    assert await ask("calculator", question) in (REFUSAL, {"3 + 4": "7"}.get(question))


@pytest.mark.parametrize(("instruction", "outputs", "expected"), STEPS)
async def test_instruction_with_steps(instruction: str, outputs: list[str], expected: str) -> None:
    assert await ask("calculator", "Some other question?", instruction, outputs) == expected


@pytest.mark.parametrize(("question", "instruction", "expected"), INSTRUCTIONS)
async def test_instruction_alone(question: str, instruction: str, expected: str) -> None:
    assert await ask("calculator", question, instruction) == expected


async def test_general_instruction_means_the_question_also_beside_steps() -> None:
    assert await ask("calculator", "What is 3 + 4?", "Solve the problem.", ["100"]) == "7"


@pytest.mark.parametrize("question", [text for text in HOSTILE if len(text) > 300 or "^" in text or "*" in text])
async def test_hostile_input_comes_back_soon(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "JOB_SECONDS", 0.2)
    assert len(await ask_quickly("calculator", question, 8)) <= 20_003


async def test_nul_byte_is_refused() -> None:
    assert await ask("calculator", NUL_BYTE) == REFUSAL


@pytest.mark.parametrize("question", ["7^11832", "3248!", "9" * 9_000 + " + 1", "1/7^5000"])
async def test_results_of_thousands_of_digits(question: str) -> None:
    output = await ask("calculator", question)
    assert output != REFUSAL
    assert len(output) <= 10_003


@pytest.mark.parametrize("question", ["7^11900", "3249!", "9" * 10_001 + " + 1"])
async def test_results_beyond_ten_thousand_digits_are_refused(question: str) -> None:
    assert await ask("calculator", question) == REFUSAL


OPERATORS = {
    "+": operator.add,
    " plus ": operator.add,
    " - ": operator.sub,
    " minus ": operator.sub,
    "*": operator.mul,
    " times ": operator.mul,
    "×": operator.mul,
    "/": operator.truediv,
    " divided by ": operator.truediv,
}


def apply(case: tuple[tuple[str, Fraction], str, tuple[str, Fraction]]) -> tuple[str, Fraction] | None:
    (left, x), sign, (right, y) = case
    return (
        None if y == 0 and OPERATORS[sign] is operator.truediv else (f"({left}{sign}-{right})", OPERATORS[sign](x, -y))
    )


def expressions() -> st.SearchStrategy[tuple[str, Fraction]]:
    """A written expression, and its value by Python's Fractions."""
    numbers = st.one_of(
        st.integers(0, 10**6).map(lambda n: (str(n), Fraction(n))),
        st.tuples(st.integers(0, 999), st.integers(0, 999)).map(
            lambda pair: (f"{pair[0]}.{pair[1]:03}", Fraction(pair[0] * 1000 + pair[1], 1000))
        ),
    )

    def combined(parts: st.SearchStrategy[tuple[str, Fraction]]) -> st.SearchStrategy[tuple[str, Fraction]]:
        return (
            st.tuples(parts, st.sampled_from(list(OPERATORS)), parts).map(apply).filter(lambda part: part is not None)
        )

    return st.recursive(numbers, combined, max_leaves=12)


@settings(max_examples=300, deadline=None)
@given(expressions())
def test_random_expressions_agree_with_fractions(case: tuple[str, Fraction]) -> None:
    text, value = case
    assert evaluate(parse(text).tree) == value


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=2, max_size=8), st.data())
def test_precedence_is_that_of_python(numbers: list[int], data: st.DataObject) -> None:
    text = str(numbers[0])
    for number in numbers[1:]:
        text += data.draw(st.sampled_from([" + ", " - ", " * "])) + str(number)
    assert evaluate(parse(text).tree) == eval(text)


@settings(max_examples=200, deadline=None)
@given(st.fractions(max_denominator=10**6))
def test_written_values_read_back(value: Fraction) -> None:
    assert evaluate(parse(written(value)).tree) == value
    assert evaluate(parse(written(value, decimal=True)).tree) == value


@settings(max_examples=200, deadline=None)
@given(st.fractions(max_denominator=10**4), st.integers(-3, 6))
def test_rounding_is_within_half_a_unit(value: Fraction, places: int) -> None:
    assert abs(Fraction(rounded(value, places)) - value) <= Fraction(1, 2) / Fraction(10) ** places


@settings(max_examples=500, deadline=None)
@given(st.text(alphabet="0123456789+-*/^()!%., xyepi²√×=of", max_size=40))
def test_parser_raises_nothing_but_its_own(text: str) -> None:
    with contextlib.suppress(Unreadable, Impossible, Irrational):
        evaluate(parse(text).tree)
