"""What a spent budget means, in words: the owner's reading of one ledger line.

Decides how a loss becomes odds and a percentage (GUARANTEE §1), and how much of a cap is left in
words. What is *not* here: what was spent (the daemon), and bars (`accounts`).

Invariants:

- every number that is a bound is rounded up, never to nearest;
- where no bound holds, the sentence says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tactful.wire import LedgerLine

PRIOR_PERCENT = 10
_DUST = 1e-9
"""Floating-point dust below any digit that is shown; without it 10 % could round up to 11 %."""


def largest_factor(spent: float) -> str:
    """The most that the odds were multiplied by, `e^spent`, rounded up: `7.4`."""
    factor = math.exp(spent)
    return f"{_up(factor, 1):.1f}" if factor < 100 else f"{_up(factor, 0):,.0f}"


def largest_percent(spent: float) -> str:
    """The most that a belief of 10 % has become, rounded up: `46`."""
    odds = PRIOR_PERCENT / (100 - PRIOR_PERCENT) * math.exp(spent)
    percent = 100 * odds / (1 + odds)
    return f"{_up(percent, 0):.0f}" if percent <= 99 else f"{_up(percent, 3):.3f}"


def sentences(lines: Sequence[LedgerLine]) -> list[str]:
    """What all apps together can have learned, attribute by attribute.

    The bound is spelled out for the first attribute that was charged, in short for the others.
    """
    told: list[str] = []
    spelled_out = False
    for line in lines:
        bounded = line.spent > 0 and not line.exposed
        told.append(_in_short(line) if bounded and spelled_out else sentence(line))
        spelled_out = spelled_out or bounded
    return told


def sentence(line: LedgerLine) -> str:
    """What all apps together can have learned about one attribute in this epoch."""
    about = f"what is filed under `{line.attribute}`"
    if line.exposed:
        return (
            f"Nothing is promised about {about} in this epoch: shelves that now imply it "
            "were read without protection before."
        )
    if line.spent == 0:
        return f"All apps together have seen nothing that depends on {about}."
    return (
        "Everything that all apps together have seen moves the odds between two memories that "
        f"differ only in {about} by at most ×{largest_factor(line.spent)}: "
        f"from {PRIOR_PERCENT} % to at most {largest_percent(line.spent)} %."
    )


def _in_short(line: LedgerLine) -> str:
    return (
        f"For `{line.attribute}`, likewise: by at most ×{largest_factor(line.spent)}, "
        f"from {PRIOR_PERCENT} % to at most {largest_percent(line.spent)} %."
    )


def left_in_words(line: LedgerLine) -> str:
    """How much of the cap is left."""
    if line.exposed:
        return "no promise in this epoch"
    if line.spent >= line.cap:
        return "used up"
    if line.closed:
        return "too little left for another charge"
    left = (line.cap - line.spent) / line.cap
    for share, words in _SHARES:
        if left >= share:
            return words
    return "little left"


_SHARES = (
    (1.0, "untouched"),
    (0.8, "most is left"),
    (0.6, "about two thirds left"),
    (0.42, "about half left"),
    (0.25, "about a third left"),
)


def _up(number: float, digits: int) -> float:
    scale = 10.0**digits
    return math.ceil(number * scale - _DUST) / scale
