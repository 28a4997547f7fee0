"""Fused text in numbers for the owner: what it came to, what it may come to, how much is left.

Decides how losses at an order become an epsilon and odds at a delta. What is *not* here: the losses
(`tactful_core.fused_ledger`), their budget (`tactful_core.ledger.fused_cap`), and wording
(`tactful.odds`).

Source: GUARANTEE §1, "Odds", and §5, Theorem 2.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tactful.owner_wire import FusedLine
from tactful_core.fused_ledger import draw_loss, loss_cap, lowest
from tactful_core.fusion import FusionParameters, epsilon_of
from tactful_core.layout import Attribute
from tactful_core.ledger import Ledger, fused_cap
from tactful_core.promises import Promises
from tactful_core.values import UNITS_PER_EPSILON, Units
from tactful_core.values import epsilon_of as in_epsilon

USUAL_DELTA = Fraction(1, 100_000)
"""For what was fused under a policy that has no delta any more."""


def delta_of(promises: Promises) -> Fraction:
    """The probability that all of this is stated at."""
    return USUAL_DELTA if promises.privacy is None else promises.privacy.delta


def epsilon_at(alpha: int, rho: int, delta: Fraction) -> float:
    """The epsilon of `(ε, δ)` that a loss at an order is, rounded up; 0 where nothing was drawn."""
    return epsilon_of(FusionParameters.in_steps(max(alpha, 2), 1, 1), Units(rho), delta)


def odds_at(alpha: int, rho: int, delta: Fraction) -> float:
    """`ρ + ln(1/δ)/(α − 1)`, up: how far log-odds move, but for a probability of `δ` (Markov)."""
    if rho == 0:
        return 0.0
    tail = math.log(delta.denominator / delta.numerator) / (alpha - 1)
    return math.nextafter(rho / UNITS_PER_EPSILON + tail, math.inf) + 1e-12


def lifetime_odds_now(attribute: Attribute, ledger: Ledger, promises: Promises) -> float:
    """How far fused text of all epochs may move log-odds by the end of the open one."""
    fused = ledger.fused
    left = max(0, (fused_cap(ledger, attribute, promises) or 0) - fused.spent(attribute))
    orders = (fused.alpha, 0 if fused.now is None else fused.now.alpha)
    rho = fused.lifetime_spent(attribute) + left
    return odds_at(lowest(*orders), rho, delta_of(promises))


def lifetime_odds_after(
    attribute: Attribute,
    after: Attribute,
    ledger: Ledger,
    following: Promises,
    calibrated: FusionParameters | None,
) -> float:
    """The same if another epoch were opened under `following`, where the attribute is `after`."""
    fused, delta = ledger.fused, delta_of(following)
    spent = max(fused.lifetime_spent(attribute), fused.lifetime_spent(after))
    if calibrated is None or after.fusion is None:
        return odds_at(fused.alpha, spent, delta)
    more = loss_cap(calibrated, after.fusion, delta)
    return odds_at(lowest(fused.alpha, calibrated.alpha), spent + more, delta)


def fused_line(attribute: Attribute, ledger: Ledger, promises: Promises) -> FusedLine | None:
    """An attribute's account; `None` where no text may be fused from it, and none ever was."""
    fused, delta = ledger.fused, delta_of(promises)
    lifetime = fused.lifetime_spent(attribute)
    if attribute.fusion is None and lifetime == 0:
        return None
    cap, now = fused_cap(ledger, attribute, promises), fused.now
    spent = fused.spent(attribute)
    alpha = fused.alpha if now is None else now.alpha
    each = 0 if now is None else draw_loss(now, 1, 1)
    left = max(0, (cap - spent) // each) if cap and each else 0
    if ledger.exposed(attribute) or ledger.exhausted:
        left = 0
    allowed = None if attribute.fusion is None else in_epsilon(attribute.fusion)
    so_far = epsilon_at(alpha, spent, delta)
    return FusedLine(
        delta=float(delta),
        spent=so_far,
        epsilon=allowed,
        promised=max(so_far, allowed if cap and allowed else 0.0),
        lifetime=epsilon_at(fused.alpha, lifetime, delta),
        odds=odds_at(alpha, spent, delta),
        promised_odds=odds_at(alpha, max(spent, cap or 0), delta),
        lifetime_odds=odds_at(max(fused.alpha, 2), lifetime, delta),
        draws_left=left,
    )
