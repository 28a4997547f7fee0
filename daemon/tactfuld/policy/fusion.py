"""Whether fused text can be promised at the epsilon, delta and number of draws of a policy.

What is *not* here: the parameters that an epoch is calibrated to (`tactful_core.fusion`), and what
an epoch of fused text buys (`explanation`).
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache

from tactful_core.fusion import smallest_epsilon


@lru_cache(maxsize=256)
def smallest(delta: Decimal, planned_draws: int) -> Decimal:
    """The smallest epsilon, with three decimals, that some order up to 32 reaches."""
    return Decimal(f"{smallest_epsilon(float(delta), planned_draws):.3f}")


def is_reachable(epsilon: Decimal, delta: Decimal, planned_draws: int) -> bool:
    """Whether an epoch can promise `(epsilon, delta)` for so many draws (GUARANTEE §5)."""
    return epsilon >= smallest(delta, planned_draws)
