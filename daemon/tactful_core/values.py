"""Values that everything else is made of: identifiers, privacy units, secrets.

Decides how an epsilon becomes an integer and back. What is *not* here: what may be spent
(`ledger`), how much one release costs (`allocation`), and any arithmetic on scores (`scoring`).

Invariants:

- privacy is counted in whole units of 1/720,720,000 epsilon (GUARANTEE §3); caps convert exactly
  or not at all, and a division of units rounds down (spend less, never more);
- `Secret` never shows what it holds: `str`, `repr`, `format`, pickling, copying and JSON refuse.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Generic, NewType, NoReturn, TypeVar

from tactful_core.errors import ContractError

Position = NewType("Position", int)
"""One fixed place in memory, `1..n`; public existence, secret content."""

SlotName = NewType("SlotName", str)
ShelfName = NewType("ShelfName", str)
"""A shelf's full name: `slot.shelf`."""
AttributeName = NewType("AttributeName", str)
ViewName = NewType("ViewName", str)
AppId = NewType("AppId", str)

Units = NewType("Units", int)
"""Privacy loss in whole units of `1 / UNITS_PER_EPSILON` epsilon."""

UNITS_PER_EPSILON = 720_720_000
"""720,720 is the least common multiple of 1..16, so B/K is whole for every K ≤ 16 and every cap
with up to three decimals (GUARANTEE §3)."""

T = TypeVar("T")


def units_from_epsilon(epsilon: Decimal | int | str) -> Units:
    """The exact number of units of a decimal epsilon.

    Raises:
        ContractError: not a finite, positive number with at most three decimals.
    """
    try:
        value = Decimal(epsilon)
    except InvalidOperation as problem:
        raise ContractError("An epsilon must be a positive number.") from problem
    if not value.is_finite() or value <= 0:
        raise ContractError(f"An epsilon must be a positive number; {epsilon} is not.")
    thousandths = Fraction(value) * 1000
    if thousandths.denominator != 1:
        raise ContractError(f"An epsilon has at most three decimals; {epsilon} has more.")
    return Units(int(thousandths) * UNITS_PER_EPSILON // 1000)


def epsilon_of(units: Units) -> float:
    """Units as an epsilon for people to read; never used in a decision."""
    return units / UNITS_PER_EPSILON


class Secret(Generic[T]):
    """A value that may be used inside the daemon and never shown, logged or serialised.

    `reveal()` is the only way to the value; every reveal is a line one can search for.
    """

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def reveal(self) -> T:
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    def __str__(self) -> NoReturn:
        raise ContractError("A secret has no text form; reveal it where it is really needed.")

    def __format__(self, spec: str) -> NoReturn:
        raise ContractError("A secret cannot be formatted; reveal it where it is really needed.")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise ContractError("A secret cannot be pickled or copied.")

    def __eq__(self, other: object) -> NoReturn:
        raise ContractError("Secrets are not compared; reveal them where it is really needed.")

    __hash__ = None  # type: ignore[assignment]
