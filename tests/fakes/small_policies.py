"""Promises small enough to enumerate, above all those of DP-MemView's Figure 2."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tactful_core.allocation import Allocation, Online
from tactful_core.entries import Mechanism
from tactful_core.layout import GENERIC, Attribute, Layout, Shelf, Slot, View
from tactful_core.promises import Grant, Promises
from tactful_core.values import (
    AppId,
    AttributeName,
    Position,
    ShelfName,
    SlotName,
    Units,
    ViewName,
    units_from_epsilon,
)

MEALS, COACH = AppId("meals"), AppId("coach")
HEALTH, FOOD, FINANCE = SlotName("health"), SlotName("food"), SlotName("finance")
DIABETES, DEBT = AttributeName("diabetes"), AttributeName("debt")

FIGURE_TWO_VIEWS: Mapping[SlotName, tuple[str, ...]] = {
    HEALTH: ("calm", "active"),
    FOOD: ("low_sugar", "budget"),
    FINANCE: ("frugal", "saving"),
}
THREE_CHARGES = Online(3)


def slot(
    name: str, positions: Iterable[int], views: Iterable[str], *, unprotected: bool = False
) -> Slot:
    """A slot with one shelf, whose views after the generic one are called `views`."""
    shelf = Shelf(
        ShelfName(f"{name}.notes"),
        tuple(Position(p) for p in positions),
        tokens=16,
        unprotected=unprotected,
    )
    vocabulary = tuple(View(ViewName(view), f"Answer so: {view}.") for view in (GENERIC, *views))
    return Slot(SlotName(name), f"What concerns {name}.", (shelf,), vocabulary)


def attribute(name: str, positions: Iterable[int], cap: str) -> Attribute:
    """An attribute with its cap as a decimal epsilon."""
    return Attribute(
        AttributeName(name), frozenset(Position(p) for p in positions), units_from_epsilon(cap)
    )


def grant(app: AppId, slots: Iterable[str], quota: Mapping[str, str] | None = None) -> Grant:
    """A grant with quotas as decimal epsilons."""
    units: dict[AttributeName, Units] = {
        AttributeName(name): units_from_epsilon(share) for name, share in (quota or {}).items()
    }
    return Grant(app, frozenset(SlotName(name) for name in slots), units)


def promises_for(
    layout: Layout,
    *,
    allocation: Allocation = THREE_CHARGES,
    mechanism: Mechanism = Mechanism.EXPONENTIAL,
    charge_also: Mapping[SlotName, frozenset[AttributeName]] = MappingProxyType({}),
    quotas: Mapping[AppId, Mapping[str, str]] = MappingProxyType({}),
    digest: str = "small",
) -> Promises:
    """Promises in which both apps may ask for every slot."""
    every = tuple(each.name for each in layout.slots)
    return Promises(
        layout=layout,
        allocation=allocation,
        mechanism=mechanism,
        grants=tuple(grant(app, every, quotas.get(app)) for app in (MEALS, COACH)),
        digest=digest,
        charge_also=charge_also,
    )


def figure_two(
    *,
    diabetes_cap: str = "2",
    debt_cap: str = "2",
    allocation: Allocation = THREE_CHARGES,
    mechanism: Mechanism = Mechanism.EXPONENTIAL,
    views: Mapping[SlotName, tuple[str, ...]] = FIGURE_TWO_VIEWS,
    coach_quota: Mapping[str, str] | None = None,
    charge_also: Mapping[SlotName, frozenset[AttributeName]] = MappingProxyType({}),
) -> Promises:
    """Health reads 1, food 2 and 3, finance 4 and 5; diabetes is 1..3, debt is 3..5."""
    layout = Layout(
        slots=(
            slot(HEALTH, (1,), views[HEALTH]),
            slot(FOOD, (2, 3), views[FOOD]),
            slot(FINANCE, (4, 5), views[FINANCE]),
        ),
        attributes=(
            attribute(DIABETES, (1, 2, 3), diabetes_cap),
            attribute(DEBT, (3, 4, 5), debt_cap),
        ),
    )
    return promises_for(
        layout,
        allocation=allocation,
        mechanism=mechanism,
        charge_also=charge_also,
        quotas={COACH: coach_quota or {}},
        digest="figure-2",
    )
