"""The allocation rule: what one release may cost (GUARANTEE §3).

Decides epsilon from public input alone. What is *not* here: whether it still fits (`ledger`).

Invariants:

- units are divided rounding down, so `K` charges never exceed a cap, and for `K ≤ 16` and caps
  with up to three decimals they fill it exactly.
"""

from __future__ import annotations

from collections.abc import Iterable

from tactful_core.errors import ContractError
from tactful_core.layout import Layout
from tactful_core.values import AttributeName, Units


def online_epsilon(
    layout: Layout, charge_set: Iterable[AttributeName], charges_per_cap: int
) -> Units:
    """`ε = min_{a ∈ Γ} B_a / K`.

    Raises:
        ContractError: the charge set is empty (nothing may be read then), or the cap is too small
            to be divided.
    """
    caps = [layout.attribute(name).cap for name in charge_set]
    if not caps:
        raise ContractError("An empty charge set has no epsilon: nothing may be read.")
    epsilon = min(caps) // charges_per_cap
    if epsilon < 1:
        raise ContractError("A cap divided by charges_per_cap must be at least one unit.")
    return Units(epsilon)
