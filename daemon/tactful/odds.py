"""What a loss means, in words: the owner's reading of an epsilon.

Decides how a loss becomes odds and a percentage (GUARANTEE §1). What is *not* here: how much of a
cap is left (`spending`), and what was spent (the daemon).

Invariants:

- every number that is a bound is rounded away from the prior, never to nearest;
- where no bound holds, or only but for a probability, the sentence says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tactful.owner_wire import LedgerLine

PRIOR_PERCENT = 10
_LONGEST = math.log(1e6)
"""Larger factors are shown as powers of ten."""
_LARGEST = 700.0
"""`e` to more than this is no number for a computer."""
_DUST = 1e-9
"""Floating-point dust below any digit that is shown; without it 10 % could round up to 11 %."""


def largest_factor(loss: float) -> str:
    """The most that the odds were multiplied by, `e^loss`, rounded up: `7.4`."""
    if loss > _LONGEST:
        return f"10^{_up(loss / math.log(10), 0):.0f}"
    factor = math.exp(loss)
    return f"{_up(factor, 1):.1f}" if factor < 100 else f"{_up(factor, 0):,.0f}"


def largest_percent(loss: float) -> str:
    """The most that a belief of 10 % has become, rounded up: `46`."""
    percent = _belief(loss)
    if percent > 99.999:
        return "100"
    return f"{_up(percent, 0):.0f}" if percent <= 99 else f"{_up(percent, 3):.3f}"


def smallest_percent(loss: float) -> str:
    """The least that a belief of 10 % has become, rounded down: `1.4`."""
    percent = _belief(-loss)
    return f"{_down(percent, 1):.1f}" if percent >= 0.1 else f"{_down(percent, 3):.3f}"


def bound(loss: float) -> str:
    """What a loss allows, in one breath: `at most ×7.4: from 10 % to at most 46 %`."""
    return (
        f"at most ×{largest_factor(loss)}: "
        f"from {PRIOR_PERCENT} % to at most {largest_percent(loss)} %"
    )


def either_way(loss: float) -> str:
    """What a loss allows in both directions: `at most ×7.4, up or down: ...`."""
    if loss == 0:
        return f"nothing: it stays {PRIOR_PERCENT} %"
    return (
        f"at most ×{largest_factor(loss)}, up or down: "
        f"at most {largest_percent(loss)} %, at least {smallest_percent(loss)} %"
    )


def sentences(lines: Sequence[LedgerLine]) -> list[str]:
    """What all apps together can have learned in this epoch, attribute by attribute.

    The bound is spelled out for the first attribute that was charged, in short for the others.
    """
    told: list[str] = []
    spelled_out = False
    for line in lines:
        bounded = seen(line) > 0 and not line.exposed
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
    if seen(line) == 0:
        return f"In this epoch all apps together have seen nothing that depends on {about}."
    return (
        "Everything that all apps together have seen in this epoch moves the odds between two "
        f"memories that differ only in {about} by {bound(seen(line))}{_except(line)}."
    )


def seen(line: LedgerLine) -> float:
    """How far everything that was released in the epoch moves log-odds, views and fused text."""
    return line.spent + (0.0 if line.fused is None else line.fused.odds)


def promised(line: LedgerLine) -> float:
    """How far anything of the epoch may move them at most, until it ends."""
    return line.promised + (0.0 if line.fused is None else line.fused.promised_odds)


def lifetime(line: LedgerLine) -> float:
    """How far everything of all epochs moves them."""
    return line.lifetime + (0.0 if line.fused is None else line.fused.lifetime_odds)


def together(line: LedgerLine) -> str:
    """What is promised of views and fused text together: `(ε 10.000, δ 1e-05)`, `ε 2.000`."""
    if line.fused is None or line.fused.promised == 0:
        return f"ε {line.promised:.3f}"
    return f"(ε {line.promised + line.fused.promised:.3f}, δ {line.fused.delta:g})"


def _in_short(line: LedgerLine) -> str:
    return f"For `{line.attribute}`, likewise: by {bound(seen(line))}{_except(line)}."


def _except(line: LedgerLine) -> str:
    """How far fused text loosens a bound."""
    if line.fused is None or line.fused.odds == 0:
        return ""
    return f", except with a probability of at most {line.fused.delta:g}"


def _belief(loss: float) -> float:
    """What a belief of 10 % becomes if its odds are multiplied by `e^loss`, in percent."""
    against = (100 - PRIOR_PERCENT) / PRIOR_PERCENT * math.exp(min(-loss, _LARGEST))
    return 100 / (1 + against)


def _up(number: float, digits: int) -> float:
    scale = 10.0**digits
    return math.ceil(number * scale - _DUST) / scale


def _down(number: float, digits: int) -> float:
    scale = 10.0**digits
    return math.floor(number * scale + _DUST) / scale
