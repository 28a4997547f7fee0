"""What entries really cost: the true charge, whatever a ledger shows.

Decides a sum from entries and a layout alone, without the core's accountant, so that the two can be
compared. What is *not* here: admission.
"""

from __future__ import annotations

from collections.abc import Iterable

from tactful_core.entries import Charge, Entry
from tactful_core.layout import Attribute
from tactful_core.values import Units


def true_charge(entries: Iterable[Entry], attribute: Attribute) -> Units:
    """The units of every charge whose read set meets `I_a` (GUARANTEE §1, C2)."""
    return Units(
        sum(
            entry.units
            for entry in entries
            if isinstance(entry, Charge) and entry.positions & attribute.positions
        )
    )
