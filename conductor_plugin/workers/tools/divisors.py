"""Answers about the divisors and primes of a number, as text. None where there is none, or none in time."""

import math

from conductor_plugin.workers.tools import primes
from conductor_plugin.workers.tools.trees import digits


def yes(is_so: bool | None) -> str | None:
    """`yes` or `no`."""
    return None if is_so is None else "yes" if is_so else "no"


def joined(numbers: list[int] | None) -> str | None:
    """A list of at least one number and at most MAX_LISTED."""
    return ", ".join(map(digits, numbers)) if numbers and len(numbers) <= primes.MAX_LISTED else None


def gcd(numbers: list[int]) -> str:
    return digits(math.gcd(*numbers))


def lcm(numbers: list[int]) -> str | None:
    return digits(math.lcm(*numbers)) if sum(number.bit_length() for number in numbers) < 30_000 else None


def coprime(numbers: list[int]) -> str | None:
    """Of two; of more it would be unclear whether each pair is meant."""
    return yes(math.gcd(*numbers) == 1) if len(numbers) == 2 else None


async def factorisation(n: int) -> str | None:
    """`2^3 * 3`."""
    factors = await primes.factorised(n)
    return " * ".join(f"{p}^{k}" if k > 1 else str(p) for p, k in factors.items()) if factors else None


async def prime_factors(n: int) -> str | None:
    """The different ones."""
    return joined(list(await primes.factorised(n) or {}))


async def prime_factor_count(n: int) -> str | None:
    """Of the different ones."""
    factors = await primes.factorised(n)
    return None if factors is None else str(len(factors))


async def extreme_prime_factor(word: str, n: int) -> str | None:
    factors = await primes.factorised(n)
    if not factors:
        return None
    return str(min(factors) if word in ("smallest", "least", "lowest") else max(factors))


async def divisors(proper: str | None, n: int) -> str | None:
    """All, or all but n itself."""
    factors = await primes.factorised(n)
    found = primes.divisors(factors) if factors is not None else None
    return joined(found[:-1] if found and proper else found)


async def divisor_count(proper: str | None, n: int) -> str | None:
    factors = await primes.factorised(n)
    if factors is None:
        return None
    return str(math.prod(k + 1 for k in factors.values()) - bool(proper))


async def divisor_sum(proper: str | None, n: int) -> str | None:
    factors = await primes.factorised(n)
    if factors is None:
        return None
    total = math.prod((p ** (k + 1) - 1) // (p - 1) for p, k in factors.items())
    return digits(total - n if proper else total)


async def is_perfect(n: int) -> str | None:
    total = await divisor_sum("proper", n)
    return None if total is None else yes(total == digits(n))


async def totient(n: int) -> str | None:
    factors = await primes.factorised(n)
    return None if factors is None else digits(math.prod((p - 1) * p ** (k - 1) for p, k in factors.items()))


async def is_prime(n: int) -> str | None:
    return yes(await primes.is_prime(n))


async def is_composite(n: int) -> str | None:
    prime = await primes.is_prime(n)
    return None if prime is None else yes(n > 1 and not prime)


def nth_prime(n: int) -> str | None:
    found = primes.first_primes(n)
    return str(found[-1]) if found else None


def first_primes(n: int) -> str | None:
    return joined(primes.first_primes(n))


def primes_between(count: str | None, low: int, high: int) -> str | None:
    """The word leaves open whether the ends count, so neither may be a prime."""
    found = primes.primes_to(high)
    if found is None or low in found or high in found or low > high:
        return None
    return _counted(count, [prime for prime in found if prime > low])


def primes_up_to(count: str | None, word: str, n: int) -> str | None:
    return _counted(count, primes.primes_to(n if word in ("up to", "from 1 to") else n - 1))


def _counted(count: str | None, found: list[int] | None) -> str | None:
    return joined(found) if not count or found is None else str(len(found))
