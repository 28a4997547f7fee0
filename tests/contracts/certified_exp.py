"""Rational bounds on `e^x` that are certified, for comparing exact likelihood ratios with `e^B`.

All terms of the Taylor series are positive for `x ≥ 0`, so a partial sum is a lower bound, and the
tail after the term of degree n is at most the next term divided by `1 - x / (n + 2)`. Both results
are rounded outwards to a multiple of 2^-256, which keeps numbers short.
"""

from fractions import Fraction
from functools import lru_cache
from math import ceil, floor

TERMS = 160
_GRID = 1 << 256


def exp_at_least(exponent: Fraction) -> Fraction:
    """A rational just below `e^exponent`, for `0 ≤ exponent ≤ 24`; exactly 1 at 0."""
    return Fraction(floor(_series(exponent)[0] * _GRID), _GRID)


def exp_at_most(exponent: Fraction) -> Fraction:
    """A rational just above `e^exponent`, for `0 ≤ exponent ≤ 24`; exactly 1 at 0."""
    partial, tail = _series(exponent)
    return Fraction(ceil((partial + tail) * _GRID), _GRID)


@lru_cache(maxsize=1024)
def _series(exponent: Fraction) -> tuple[Fraction, Fraction]:
    """The partial sum and a bound on what it leaves out."""
    if not 0 <= exponent <= 24:
        raise ValueError("The bounds are certified for exponents from 0 to 24.")
    term = partial = Fraction(1)
    for degree in range(1, TERMS + 1):
        term = term * exponent / degree
        partial += term
    following = term * exponent / (TERMS + 1)
    return partial, following / (1 - exponent / (TERMS + 2))
