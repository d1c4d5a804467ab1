"""The number tool: right answers in many wordings, refusals of all else, and operands from earlier steps."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor_plugin.workers import REFUSAL
from conductor_plugin.workers.tools import bases, child, primes
from tests.unit.workers.tools import HOSTILE, NOBODYS_QUESTIONS, NUL_BYTE, ask, ask_quickly

# The product of two primes of 40 and 50 digits: factors that nobody finds in a few seconds.
HARD = (10**39 + 3) * (10**49 + 9)

TABLE = {
    "What is the gcd of 48 and 180?": "12",
    "gcd(48, 180)": "12",
    "gcd(48,180)": "12",
    "GCD of 12, 18 and 24": "6",
    "Find the greatest common divisor of 48 and 180.": "12",
    "the highest common factor of 48 and 180": "12",
    "gcd of 0 and 5": "5",
    "gcd of 17 and 5": "1",
    "gcd of 1,000 and 500": "500",
    "gcd of 2^10 and 6!": "16",
    "What is the lcm of 4 and 6?": "12",
    "least common multiple of 4, 6, and 10": "60",
    "lcm(21, 6)": "42",
    "Are 8 and 9 coprime?": "yes",
    "Are 8 and 12 relatively prime?": "no",
    "Factor 360": "2^3 * 3^2 * 5",
    "Factorise 360 into primes": "2^3 * 3^2 * 5",
    "What is the prime factorization of 360?": "2^3 * 3^2 * 5",
    "Find the prime factorisation of the number 97": "97",
    "Write 360 as a product of primes": "2^3 * 3^2 * 5",
    "What are the prime factors of 60?": "2^2 * 3 * 5",
    "Factor 600851475143": "71 * 839 * 1471 * 6857",
    "What are the distinct prime factors of 60?": "2, 3, 5",
    "How many distinct prime factors does 60 have?": "3",
    "What is the largest prime factor of 600851475143?": "6857",
    "the smallest prime factor of 91": "7",
    "How many divisors does 60 have?": "12",
    "What is the number of divisors of 60?": "12",
    "How many positive divisors are there of 60?": "12",
    "List all the divisors of 12": "1, 2, 3, 4, 6, 12",
    "What are the factors of 12?": "1, 2, 3, 4, 6, 12",
    "the proper divisors of 12": "1, 2, 3, 4, 6",
    "divisors of 1": "1",
    "What is the sum of the divisors of 60?": "168",
    "sum of the proper divisors of 28": "28",
    "Is 28 a perfect number?": "yes",
    "What is Euler's totient of 10?": "4",
    "phi(36)": "12",
    "Is 7 prime?": "yes",
    "Is 91 a prime number?": "no",
    "Is 1 prime?": "no",
    "Is 0 prime?": "no",
    "Is -7 prime?": "no",
    "Is 2 prime?": "yes",
    "Is 1,001 prime?": "no",
    "Is 561 prime?": "no",
    "Is 3215031751 prime?": "no",
    "Is 2^31 - 1 prime?": "yes",
    "Is 2^67 - 1 prime?": "no",
    "Is 2^127 - 1 prime?": "yes",
    "Check whether 97 is prime.": "yes",
    "Determine if 97 is a prime number.": "yes",
    "Tell me whether or not 97 is prime": REFUSAL,
    "Is 97 prime or not?": "yes",
    "Is 91 composite?": "yes",
    "Is 1 composite?": "no",
    "What is the next prime after 100?": "101",
    "the smallest prime greater than 13": "17",
    "What is the largest prime less than 100?": "97",
    "previous prime before 3": "2",
    "largest prime less than 2": REFUSAL,
    "next prime after 10^20": "100000000000000000039",
    "What is the 10th prime number?": "29",
    "the 1st prime": "2",
    "What is the 100000th prime?": "1299709",
    "List the first 10 primes": "2, 3, 5, 7, 11, 13, 17, 19, 23, 29",
    "How many primes are there below 100?": "25",
    "How many prime numbers are less than 100?": "25",
    "primes up to 13": "2, 3, 5, 7, 11, 13",
    "primes below 13": "2, 3, 5, 7, 11",
    "primes between 10 and 30": "11, 13, 17, 19, 23, 29",
    "How many primes are between 10 and 30?": "6",
    "How many 1s are in the binary representation of 13?": "3",
    "What is the number of ones in the binary representation of 255?": "8",
    "popcount of 13": "3",
    "popcount(13)": "3",
    "What is the bit count of 255?": "8",
    "How many set bits are in 13?": "3",
    "How many zeros are in the binary representation of 8?": "3",
    "bit length of 13": "4",
    "How many bits are needed to represent 13?": "4",
    "What is 255 in hex?": "ff",
    "Convert 255 to hexadecimal.": "ff",
    "Write 255 in hexadecimal notation": "ff",
    "255 to base 16": "ff",
    "What is 13 in binary?": "1101",
    "How do you write 13 in binary?": "1101",
    "What is 0 in binary?": "0",
    "What is -13 in binary?": "-1101",
    "What is the binary representation of 13?": "1101",
    "the octal form of 64": "100",
    "Convert 35 to base 36": "z",
    "Convert ten to base two": "1010",
    "0xff to decimal": "255",
    "What is 0xFF in decimal?": "255",
    "What is the decimal value of 0xff?": "255",
    "0b1011 in hex": "b",
    "What is 1011 in base 2 to base 10?": "11",
    "Convert 1011 from base 2 to base 10": "11",
    "Convert binary 1011 to decimal": "11",
    "Convert the binary number 1011 to decimal": "11",
    "ff in base 16 to base 10": "255",
    "1011_2 in decimal": "11",
    "1011 (base 2) to base 10": "11",
    "Convert 12 from decimal to binary": "1100",
    "1,024 in binary": "10000000000",
    "What is the digit sum of 12345?": "15",
    "What is the sum of the digits of 2^15?": "26",
    "the sum of the digits of 10!": "27",
    "the product of the digits of 234": "24",
    "the digital root of 12345": "6",
    "How many digits does 2^100 have?": "31",
    "How many digits are in 12345?": "5",
    "Reverse the digits of 120": "021",
    "Reverse the number 123": "321",
    "What are the digits of 123 reversed?": "321",
    "What is the last digit of 7^100?": "1",
    "the last 3 digits of 12345": "345",
    "17 mod 5": "2",
    "What is 17 modulo 5?": "2",
    "17 % 5": "2",
    "-7 mod 3": "2",
    "What is the remainder when 17 is divided by 5?": "2",
    "the remainder of 17 divided by 5": "2",
    "2^100 mod 7": "2",
    "3^1000000000000 mod 1000": "1",
    "the inverse of 3 mod 7": "5",
    "the modular inverse of 2 modulo 4": REFUSAL,
    "Is 10 even?": "yes",
    "Is 10 an odd number?": "no",
    "Is 10 even or odd?": "even",
    "Is 2^10 + 1 odd?": "yes",
    "Is 10 divisible by 5?": "yes",
    "Is 10 a multiple of 4?": "no",
    "Does 5 divide 10?": "yes",
    "Is 5 a factor of 10?": "yes",
    "Is 10 divisible by 0?": REFUSAL,
    "Is 16 a perfect square?": "yes",
    "Is 27 a perfect cube?": "yes",
    "Is 64 a power of two?": "yes",
    "Is 0 a power of 2?": "no",
    **dict.fromkeys(
        [
            "What is 3 + 4?",
            "gcd of 12",
            "gcd of 1,200 and 300",
            "gcd of 12 and apples",
            "gcd of 1.5 and 3",
            "lcm of 4 and 6 and the number of days in a week",
            "Factor x^2 - 1",
            "Factor 0",
            "Factor 1",
            "Factor -12",
            "the factors of success",
            "How many factors of 2 are in 8?",
            "How many prime factors does 60 have?",
            "Is 007 prime?",
            "Is 1.5 prime?",
            "Is 7 prime and odd?",
            "Is 7 the largest prime?",
            "Is 2 the only even prime?",
            "What is the next prime number?",
            "the 0th prime",
            "the 1000000th prime",
            "primes between 11 and 30",
            "How many primes are there?",
            "1011 in decimal",
            "ff to decimal",
            "Convert 0101 to hex",
            "Convert 102 from base 2 to base 10",
            "Convert 10 to base 37",
            "Convert 10 to base 1",
            "Convert 3.14 to binary",
            "Convert 255 to binary and octal",
            "0xff in base 2 to decimal",
            "the sum of the digits of 15 plus 3",
            "the sum of the digits of pi",
            "-7 % 3",
            "-2^2 mod 3",
            "17 mod 0",
            "17 mod 5 mod 2",
            "popcount of -1",
            "How many 5s are in 25?",
        ],
        REFUSAL,
    ),
}

# instruction, outputs of the visible steps, answer
STEPS = [
    ("Is it prime?", ["17"], "yes"),
    ("Is the result prime?", ["7", "91"], "no"),
    ("Check whether the previous answer is prime.", ["17"], "yes"),
    ("Factor that number.", ["The answer is 360."], "2^3 * 3^2 * 5"),
    ("Factor it.", ["12 + 9 = 21"], "3 * 7"),
    ("Factor", ["360"], "2^3 * 3^2 * 5"),
    ("Convert to hexadecimal.", ["255"], "ff"),
    ("Convert the result of step 0 to binary.", ["13", "x"], "1101"),
    ("Convert it to decimal.", ["0xff"], "255"),
    ("Convert it to decimal.", ["ff"], REFUSAL),
    ("Find the gcd of the two results.", ["48", "180"], "12"),
    ("Find the gcd of the results of steps 0 and 2.", ["48", "7", "180"], "12"),
    ("Find the gcd of the numbers.", ["48, 180"], "12"),
    ("What is the digit sum of that?", ["12345"], "15"),
    ("Take its digit sum.", ["12345"], "15"),
    ("How many divisors does it have?", ["60"], "12"),
    ("Count the divisors.", ["60"], "12"),
    ("Give the next prime after the result.", ["x = 7"], "11"),
    ("What is it mod 5?", ["17"], "2"),
    ("Reverse the digits of the result, then factor it", ["51"], "3 * 5"),
    ("Is it prime?", ["3.5"], REFUSAL),
    ("Is it prime?", ["2 and 3"], REFUSAL),
    ("Is it prime?", ["seven"], REFUSAL),
    ("Is it prime?", [REFUSAL], REFUSAL),
    ("Is it prime?", [], REFUSAL),
    ("Is it correct?", ["17"], REFUSAL),
    ("Double it.", ["17"], REFUSAL),
]

# question, instruction, answer: nothing is visible
INSTRUCTIONS = [
    ("What is the gcd of 48 and 180?", "", "12"),
    ("What is the gcd of 48 and 180?", "Solve the problem.", "12"),
    ("What is the gcd of 48 and 180?", "Find the lcm of the two numbers.", "720"),
    ("What is the prime factorisation of 360?", "Factor the number.", "2^3 * 3^2 * 5"),
    ("360", "Factor it.", "2^3 * 3^2 * 5"),
    ("What is the next prime after 100?", "Is it prime?", REFUSAL),  # 100, or the next prime?
    ("What is the population of France in 2020?", "Factor the number.", REFUSAL),
    ("What is the gcd of 48 and 180?", "Factor the number.", REFUSAL),
    ("What is the gcd of 48 and 180?", "Translate it to French.", REFUSAL),
]


@pytest.mark.parametrize(("question", "expected"), TABLE.items())
async def test_question(question: str, expected: str) -> None:
    assert await ask("number", question) == expected


@pytest.mark.parametrize("question", NOBODYS_QUESTIONS)
async def test_refuses_what_is_not_its_own(question: str) -> None:
    assert await ask("number", question) == REFUSAL


@pytest.mark.parametrize(("instruction", "outputs", "expected"), STEPS)
async def test_instruction_with_steps(instruction: str, outputs: list[str], expected: str) -> None:
    assert await ask("number", "Some other question?", instruction, outputs) == expected


@pytest.mark.parametrize(("question", "instruction", "expected"), INSTRUCTIONS)
async def test_instruction_alone(question: str, instruction: str, expected: str) -> None:
    assert await ask("number", question, instruction) == expected


@pytest.mark.parametrize("question", [*HOSTILE, f"Factor {HARD}", f"How many divisors does {HARD} have?"])
async def test_hostile_input_comes_back_soon(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "JOB_SECONDS", 0.2)
    assert len(await ask_quickly("number", question, 8)) <= 20_000


async def test_nul_byte_is_refused() -> None:
    assert await ask("number", NUL_BYTE) == REFUSAL


async def test_factors_too_hard_to_find_are_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "JOB_SECONDS", 0.3)
    assert await ask("number", f"Factor {HARD}") == REFUSAL
    assert await ask("number", f"Factor {10**20 + 39}") == str(10**20 + 39)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 10**30), min_size=2, max_size=5))
async def test_gcd_and_lcm(numbers: list[int]) -> None:
    listed = ", ".join(map(str, numbers[:-1])) + f" and {numbers[-1]}"
    assert await ask("number", f"What is the gcd of {listed}?") == str(math.gcd(*numbers))
    assert await ask("number", f"What is the lcm of {listed}?") == str(math.lcm(*numbers))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**40), st.integers(2, 36))
def test_bases_round_trip(n: int, base: int) -> None:
    text = bases.in_base(n, base)
    assert text is not None
    assert bases.from_base(text, base) == n == int(text, base)


@settings(max_examples=50, deadline=None)
@given(st.integers(-(10**20), 10**20), st.sampled_from([2, 8, 16, 36]))
async def test_conversion_there_and_back(n: int, base: int) -> None:
    there = await ask("number", f"Convert {n} to base {base}")
    assert await ask("number", f"Convert {there} from base {base} to base 10") == str(n)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 10**9))
async def test_factors_are_prime_and_multiply_to_the_number(n: int) -> None:
    factors = await primes.factorised(n)
    assert factors is not None
    assert math.prod(p**k for p, k in factors.items()) == n
    assert all([await primes.is_prime(p) for p in factors])


def test_sieve_and_miller_rabin_agree() -> None:
    sieve = set(primes.primes_to(20_000) or [])
    assert sieve == {n for n in range(20_001) if primes._is_small_prime(n)}
    assert len(primes.first_primes(5_000) or []) == 5_000


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**30), st.integers(1, 10**15))
async def test_remainders(n: int, m: int) -> None:
    expected = str(n % m)
    assert await ask("number", f"{n} mod {m}") == expected
    assert await ask("number", f"What is the remainder when {n} is divided by {m}?") == expected
