"""Primes, factors and divisors within bounds: small cases at once, hard ones in the helper process.

Functions give None where there is no answer, or none in time.
"""

import math

from conductor_plugin.workers.tools.child import ask
from conductor_plugin.workers.tools.trees import digits

TRIAL_DIVISION = 10**10
MILLER_RABIN = 3 * 10**23
"""Below this, the first twelve primes as bases decide primality without error."""
MAX_SIEVE = 2_000_000
MAX_NTH = 100_000
MAX_LISTED = 1_000
_BASES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


async def factorised(n: int) -> dict[int, int] | None:
    """The primes of n > 0 with their exponents, ascending."""
    if n < 1:
        return None
    if n <= TRIAL_DIVISION:
        return _by_trial(n)
    reply = await ask("factors", digits(n))
    if reply is None:
        return None
    pairs = (factor.split("^") for factor in reply.split())
    return {int(prime): int(exponent) for prime, exponent in pairs}


async def is_prime(n: int) -> bool | None:
    """Beyond MILLER_RABIN by the Baillie-PSW test, to which no exception is known."""
    if n < MILLER_RABIN:
        return _is_small_prime(n)
    reply = await ask("is_prime", digits(n))
    return None if reply is None else reply == "yes"


async def next_prime(n: int) -> str | None:
    """The least prime greater than n."""
    if n > 10**15:
        return await ask("next_prime", digits(n))
    candidate = max(n + 1, 2)
    while not _is_small_prime(candidate):
        candidate += 1
    return str(candidate)


async def previous_prime(n: int) -> str | None:
    """The greatest prime less than n."""
    if n > 10**15:
        return await ask("previous_prime", digits(n))
    candidate = n - 1
    while candidate >= 2 and not _is_small_prime(candidate):
        candidate -= 1
    return str(candidate) if candidate >= 2 else None


def primes_to(limit: int) -> list[int] | None:
    """All primes up to a limit of at most MAX_SIEVE."""
    if limit > MAX_SIEVE:
        return None
    sieve = bytearray([1]) * (max(limit, 1) + 1)
    sieve[:2] = b"\0\0"
    for i in range(2, math.isqrt(max(limit, 1)) + 1):
        if sieve[i]:
            sieve[i * i :: i] = bytes(len(range(i * i, len(sieve), i)))
    return [i for i, prime in enumerate(sieve) if prime]


def first_primes(count: int) -> list[int] | None:
    """The first primes, at most MAX_NTH of them."""
    if not 1 <= count <= MAX_NTH:
        return None
    bound = int(count * (math.log(count + 1) + math.log(math.log(count + 2) + 1))) + 10
    return (primes_to(bound) or [])[:count]


def divisors(factors: dict[int, int]) -> list[int] | None:
    """All divisors in order; None if there are more than MAX_LISTED."""
    if math.prod(exponent + 1 for exponent in factors.values()) > MAX_LISTED:
        return None
    found = [1]
    for prime, exponent in factors.items():
        found = [divisor * prime**i for divisor in found for i in range(exponent + 1)]
    return sorted(found)


def _by_trial(n: int) -> dict[int, int]:
    factors: dict[int, int] = {}
    candidate = 2
    while candidate * candidate <= n:
        while n % candidate == 0:
            factors[candidate] = factors.get(candidate, 0) + 1
            n //= candidate
        candidate += 1 if candidate == 2 else 2
    if n > 1:
        factors[n] = factors.get(n, 0) + 1
    return factors


def _is_small_prime(n: int) -> bool:
    if n < 2 or any(n % base == 0 for base in _BASES):
        return n in _BASES
    twos = ((n - 1) & -(n - 1)).bit_length() - 1
    return all(_passes(n, base, twos) for base in _BASES)


def _passes(n: int, base: int, twos: int) -> bool:
    power = pow(base, (n - 1) >> twos, n)
    if power in (1, n - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % n
        if power == n - 1:
            return True
    return False
