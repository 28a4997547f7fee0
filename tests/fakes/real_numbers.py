"""Real numbers to many digits, by mpmath: the oracle for exact arithmetic.

The one module of the tests that imports mpmath.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath  # type: ignore[import-untyped]


def exp_enclosure(exponent: Fraction, *, digits: int) -> tuple[Fraction, Fraction]:
    """Rationals around `e^exponent` whose relative distance is 10^-digits."""
    with mpmath.workdps(digits + 20):
        real = _fraction(mpmath.exp(mpmath.mpf(exponent.numerator) / exponent.denominator))
    margin = Fraction(1, 2 * 10**digits)
    return real * (1 - margin), real * (1 + margin)


def ln_enclosure(ratio: Fraction, *, digits: int) -> tuple[Fraction, Fraction]:
    """Rationals around `ln ratio` whose distance is 10^-digits."""
    with mpmath.workdps(digits + 40):
        real = _fraction(mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator))
    margin = Fraction(1, 2 * 10**digits)
    return real - margin, real + margin


def solved_exponent(epsilon: Fraction, measure: Sequence[int], *, digits: int) -> Fraction:
    """The `x` with `max_v x + ln[(μ_v + (1 - μ_v) e^x) / (μ_v e^x + 1 - μ_v)] = ε`, by bisection.

    The formula of GUARANTEE §2, with μ normalised; within `10^-digits`.
    """
    with mpmath.workdps(digits + 20):
        total = mpmath.mpf(sum(measure))
        parts = [mpmath.mpf(weight) / total for weight in measure]
        target = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        low, high = mpmath.mpf(0), target
        while high - low > mpmath.mpf(10) ** -digits:
            middle = (low + high) / 2
            big = mpmath.exp(middle)
            loss = max(
                middle + mpmath.log((mu + (1 - mu) * big) / (mu * big + 1 - mu)) for mu in parts
            )
            low, high = (middle, high) if loss <= target else (low, middle)
        return _fraction(low)


def normal_tail(sigmas: float) -> float:
    """The chance that a normal variable lies further than `sigmas` from its mean."""
    return float(mpmath.erfc(sigmas / mpmath.sqrt(2)))


def chi_square_tail(statistic: float, freedom: int) -> float:
    """The chance that a chi-square variable exceeds `statistic`."""
    return float(
        mpmath.gammainc(mpmath.mpf(freedom) / 2, statistic / mpmath.mpf(2), regularized=True)
    )


def fusion_moments(
    public: Sequence[float], private: Sequence[float], order: int
) -> list[mpmath.mpf]:
    """`E_q |p/q − 1|^j` for `j = 2..order`, to 50 digits; the numbers are taken exactly."""
    with mpmath.workdps(50):
        found = [mpmath.mpf(0)] * (order - 1)
        for q, p in zip(map(mpmath.mpf, public), map(mpmath.mpf, private), strict=True):
            term, ratio = abs(p - q), abs(p - q) / q
            for index in range(order - 1):
                term *= ratio
                found[index] += term
        total = mpmath.fsum(public)
        return [each / total for each in found]


def fusion_condition(
    part: Fraction, of: Sequence[mpmath.mpf], limit: Fraction, widest: int
) -> mpmath.mpf:
    """The left side of the condition on `λ` (GUARANTEE §5, Theorem 2), from `fusion_moments`."""
    with mpmath.workdps(50):
        weight, rest, value = _real(part), 1 - _real(limit), mpmath.mpf(0)
        for j, moment in enumerate(of, start=2):
            factor = mpmath.binomial(len(of) + 1, j) * (2 * widest * weight) ** j
            value += factor * moment / rest ** (j - 1)
        return value


def largest_part(
    of: Sequence[mpmath.mpf], limit: Fraction, divergence: Fraction, widest: int, most: Fraction
) -> Fraction:
    """The largest `λ ≤ most` for which the condition is at most `divergence`, within `10^-15`."""
    low, high = Fraction(0), most
    if fusion_condition(most, of, limit, widest) <= _real(divergence):
        return most
    while high - low > Fraction(1, 10**15):
        middle = (low + high) / 2
        fits = fusion_condition(middle, of, limit, widest) <= _real(divergence)
        low, high = (middle, high) if fits else (low, middle)
    return low


def mollified_moment(
    public: Sequence[float], private: Sequence[float], part: Fraction, alpha: int
) -> mpmath.mpf:
    """The larger of `Σ x^α q^(1−α)` and `Σ q^α x^(1−α)` for `x = q + λ (p − q)`, to 50 digits."""
    with mpmath.workdps(50):
        forward, backward, weight = mpmath.mpf(0), mpmath.mpf(0), _real(part)
        for q, p in zip(map(mpmath.mpf, public), map(mpmath.mpf, private), strict=True):
            ratio = 1 + weight * (p / q - 1)
            forward += q * ratio**alpha
            backward += q * ratio ** (1 - alpha)
        return max(forward, backward) / mpmath.fsum(public)


def largest_mollified_part(
    public: Sequence[float],
    private: Sequence[float],
    alpha: int,
    divergence: Fraction,
    most: Fraction,
) -> Fraction:
    """The largest `λ ≤ most` for which `mollified_moment` is at most `1 + c`, within `10^-12`."""
    low, high = Fraction(0), most
    with mpmath.workdps(50):
        bound = 1 + _real(divergence)
        if mollified_moment(public, private, most, alpha) <= bound:
            return most
        while high - low > Fraction(1, 10**12):
            middle = (low + high) / 2
            fits = mollified_moment(public, private, middle, alpha) <= bound
            low, high = (middle, high) if fits else (low, middle)
    return low


def _real(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def _fraction(real: Any) -> Fraction:
    sign, mantissa, exponent, _ = real._mpf_
    magnitude = int(mantissa) * Fraction(2) ** int(exponent)
    return -magnitude if sign else magnitude
