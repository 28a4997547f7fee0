"""Exact sampling: integer weights and a uniform integer below their sum.

Decides how `exp(-x)` becomes a whole number and how an index is drawn. What is *not* here: which
weights a mechanism uses (`selection`).

Invariants:

- no float takes part: weights are whole numbers, the draw is `randbelow(total)` of them, so the
  probability of index `i` is the rational `weights[i] / sum(weights)`, exactly;
- a weight is never zero: it is rounded *up*, so every view stays possible under every memory.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Protocol

from tactful_core.errors import ContractError
from tactful_core.values import UNITS_PER_EPSILON, Units

WEIGHT_BITS = 128
ONE = 1 << WEIGHT_BITS
"""The weight of `exp(0)`."""

_CONTEXT = Context(prec=56)
_UP = Context(prec=56, rounding=ROUND_CEILING)
_DOWN = Context(prec=56, rounding=ROUND_FLOOR)


class Randomness(Protocol):
    """A source of uniform integers."""

    def below(self, limit: int) -> int:
        """A uniform integer in `[0, limit)`."""
        ...


class SystemRandomness:
    """The operating system's generator, through `secrets`."""

    def below(self, limit: int) -> int:
        return secrets.randbelow(limit)


def exp_weight(exponent: Fraction) -> int:
    """`2 ** WEIGHT_BITS * exp(-exponent)`, rounded up to a whole number.

    `Decimal.exp` is correctly rounded at 56 digits. The quotient is rounded towards zero of the
    exponent (a larger weight), and one unit in the last place is added before rounding up, so the
    result is never below the real number; it is the least such integer except where the real
    number lies within 1e-15 below one.

    Raises:
        ContractError: `exponent` is negative.
    """
    if exponent < 0:
        raise ContractError("A weight's exponent must not be negative.")
    if exponent == 0:
        return ONE
    negated = _UP.divide(Decimal(-exponent.numerator), Decimal(exponent.denominator))
    value = _UP.next_plus(_CONTEXT.exp(negated))
    scaled = _UP.multiply(value, Decimal(ONE))
    return max(1, int(scaled.to_integral_value(rounding=ROUND_CEILING)))


def inverse_exp_weight(exponent: Fraction) -> int:
    """`2 ** WEIGHT_BITS * exp(exponent)`, rounded down to a whole number.

    Raises:
        ContractError: `exponent` is negative.
    """
    if exponent < 0:
        raise ContractError("A weight's exponent must not be negative.")
    value = _DOWN.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    scaled = _DOWN.multiply(_DOWN.next_minus(_CONTEXT.exp(value)), Decimal(ONE))
    return max(ONE, int(scaled.to_integral_value(rounding=ROUND_FLOOR)))


def log_units_up(ratio: Fraction) -> Units:
    """`ln(ratio)` in privacy units, rounded up.

    Raises:
        ContractError: `ratio` is below 1.
    """
    if ratio < 1:
        raise ContractError("A worst likelihood ratio is at least 1.")
    quotient = _UP.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    loss = _UP.next_plus(_CONTEXT.ln(quotient)) if quotient > 1 else Decimal(0)
    scaled = _UP.multiply(loss, Decimal(UNITS_PER_EPSILON))
    return Units(int(scaled.to_integral_value(rounding=ROUND_CEILING)))


def draw(weights: Sequence[int], randomness: Randomness) -> int:
    """An index with probability `weights[i] / sum(weights)`.

    Raises:
        ContractError: no weights, one that is not positive, or a number that is out of range.
    """
    if not weights or min(weights) < 1:
        raise ContractError("A draw needs at least one weight, all of them positive.")
    ticket = randomness.below(sum(weights))
    if ticket >= 0:
        for index, weight in enumerate(weights):
            ticket -= weight
            if ticket < 0:
                return index
    raise ContractError("The source of randomness returned a number that is out of range.")
