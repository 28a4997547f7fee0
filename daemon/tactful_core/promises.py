"""One version of the policy, as far as the promise depends on it: all of it public input.

Decides what belongs together: layout, allocation, selection and grants. What is *not* here: reading
a policy file (`tactfuld.policy`), and applying a changed one (`tactfuld`).

Invariants:

- a slot's charge set contains `Γ*(R)`; the policy can add to it, never take away (C2);
- an app without a grant may ask for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType

from tactful_core.allocation import Allocation, release_epsilon
from tactful_core.entries import Mechanism
from tactful_core.errors import ContractError
from tactful_core.fusion import FusionParameters, calibrate
from tactful_core.layout import Layout, Slot
from tactful_core.values import AppId, AttributeName, SlotName, Units, epsilon_of


@dataclass(frozen=True, slots=True)
class Grant:
    """What one app may ask for: slots, and per-attribute quotas inside the device-wide caps."""

    app: AppId
    slots: frozenset[SlotName]
    quota: Mapping[AttributeName, Units] = field(default_factory=lambda: MappingProxyType({}))


class Renewal(StrEnum):
    """When a new epoch opens by itself: never, or at the beginning of each period."""

    MANUAL = "manual"
    WEEKLY = "weekly"
    MONTHLY = "monthly"


@dataclass(frozen=True, slots=True)
class EpochRule:
    """The public moments at which epochs may open.

    Attributes:
        tick: minutes after midnight, local time.
    """

    renewal: Renewal = Renewal.MANUAL
    tick: int = 180


@dataclass(frozen=True, slots=True)
class Privacy:
    """What fused text is accounted with.

    Attributes:
        delta: the probability with which it may cost more.
        planned_draws: how many draws an epoch is calibrated for.
    """

    delta: Fraction
    planned_draws: int


@lru_cache(maxsize=16)
def _calibrated(
    fused: tuple[tuple[AttributeName, Units], ...], privacy: Privacy
) -> FusionParameters:
    """It takes a second and is asked for again and again, for the epoch that could be next."""
    epsilons = {name: epsilon_of(units) for name, units in fused}
    return calibrate(epsilons, float(privacy.delta), privacy.planned_draws)


@dataclass(frozen=True, slots=True)
class Promises:
    """What is promised, to whom, and at what price.

    Attributes:
        charge_also: attributes that a slot's releases are charged to beyond `Γ*`.
        digest: identifies the version of the policy file.
        privacy: `None` where no text is fused.

    Raises:
        ContractError: two grants for one app, or names that the layout does not have.
    """

    layout: Layout
    allocation: Allocation
    mechanism: Mechanism
    grants: tuple[Grant, ...]
    digest: str
    charge_also: Mapping[SlotName, frozenset[AttributeName]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    epochs: EpochRule = EpochRule()
    privacy: Privacy | None = None

    def __post_init__(self) -> None:
        if len({grant.app for grant in self.grants}) != len(self.grants):
            raise ContractError("Two grants are for the same app.")
        for slot, names in self.charge_also.items():
            self.layout.slot(slot)
            for name in names:
                self.layout.attribute(name)

    def grant(self, app: AppId) -> Grant | None:
        """The app's grant; `None` means that it may ask for nothing."""
        return next((grant for grant in self.grants if grant.app == app), None)

    def calibrated(self) -> FusionParameters | None:
        """What an epoch that opens under these promises fuses text with; `None` for no such text.

        Raises:
            Unreachable: an attribute's fused epsilon is too small.
        """
        fused = tuple((a.name, a.fusion) for a in self.layout.attributes if a.fusion is not None)
        if self.privacy is None or not fused:
            return None
        return _calibrated(fused, self.privacy)

    def require_granted(self, app: AppId, slot: SlotName) -> None:
        """Raises `ContractError` unless the app may ask for the slot."""
        grant = self.grant(app)
        if grant is None or slot not in grant.slots:
            raise ContractError("An app may ask only for slots that the policy grants it.")

    def charge_set(self, slot: Slot) -> frozenset[AttributeName]:
        """`Γ` of a slot: `Γ*(R)` and what the policy adds; empty only where `Γ*` is."""
        required = self.layout.required_charge_set(slot.positions)
        if not required:
            return required
        return required | self.charge_also.get(slot.name, frozenset())

    def epsilon(self, slot: Slot) -> Units:
        """What a release of the slot may cost each attribute of its charge set.

        Raises:
            ContractError: the charge set is empty, or a cap is too small to be divided.
        """
        charge_set = self.charge_set(slot)
        return release_epsilon(self.allocation, self.layout, slot, charge_set, self.charge_also)
