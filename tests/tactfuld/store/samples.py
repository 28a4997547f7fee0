"""The running example of the DP-MemView paper (Figure 2), small enough to read in a test.

Positions 1 to 5; diabetes covers 1, 2, 3 and debt 3, 4, 5; slots health, food, finance and, beside
the paper, one that the owner left unprotected.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from tactful_core.allocation import Online
from tactful_core.entries import Charge, Mechanism, UnprotectedRead, ViewReleased, new_entry_id
from tactful_core.layout import GENERIC, Attribute, Layout, Shelf, Slot, View
from tactful_core.promises import Grant, Promises
from tactful_core.values import (
    AppId,
    AttributeName,
    Position,
    Secret,
    ShelfName,
    SlotName,
    Units,
    ViewName,
    units_from_epsilon,
)
from tactfuld.keys.values import Ephemeral, StoreKeys
from tactfuld.store.ledger import LEDGER_FILE, LedgerPlace
from tactfuld.store.mark import MARK_FILE
from tactfuld.store.memory import MEMORY_FILE, MemoryPlace
from tactfuld.store.witness import WITNESS_FILE

TOKENS = 8
CAP = units_from_epsilon(2)
MEALS, MONEY = AppId("meals"), AppId("money")
DIABETES, DEBT = AttributeName("diabetes"), AttributeName("debt")
HEALTH, FOOD, FINANCE, HOBBIES = map(SlotName, ("health", "food", "finance", "hobbies"))
DIET = ShelfName("food.diet")


def positions(*numbers: int) -> tuple[Position, ...]:
    return tuple(Position(number) for number in numbers)


def slot(name: SlotName, shelf: str, *numbers: int, unprotected: bool = False) -> Slot:
    shelves = (Shelf(ShelfName(f"{name}.{shelf}"), positions(*numbers), TOKENS, unprotected),)
    return Slot(name, "a topic", shelves, (View(GENERIC, "Answer for a general audience."),))


def layout() -> Layout:
    return Layout(
        slots=(
            slot(HEALTH, "conditions", 1),
            slot(FOOD, "diet", 2, 3),
            slot(FINANCE, "accounts", 4, 5),
            slot(HOBBIES, "music", 6, unprotected=True),
        ),
        attributes=(
            Attribute(DIABETES, frozenset(positions(1, 2, 3)), CAP),
            Attribute(DEBT, frozenset(positions(3, 4, 5)), CAP),
        ),
    )


def promises(money_quota: Units | None = None) -> Promises:
    slots = frozenset({HEALTH, FOOD, FINANCE, HOBBIES})
    quota = {} if money_quota is None else {DEBT: money_quota}
    return Promises(
        layout=layout(),
        allocation=Online(3),
        mechanism=Mechanism.EXPONENTIAL,
        grants=(Grant(MEALS, slots), Grant(MONEY, slots, quota)),
        digest="7f83b165",
    )


def charge(
    name: SlotName = FOOD, app: AppId = MEALS, units: int = CAP // 3, epoch: int = 1
) -> Charge:
    """A charge for one whole slot, as `release_view` makes it."""
    read_set = layout().slot(name).positions
    return Charge(
        id=new_entry_id(),
        epoch=epoch,
        app=app,
        slot=name,
        mechanism=Mechanism.EXPONENTIAL,
        positions=frozenset(read_set),
        charged=layout().required_charge_set(read_set),
        units=Units(units),
        policy="7f83b165",
    )


def unprotected_read(epoch: int = 1) -> UnprotectedRead:
    return UnprotectedRead(
        new_entry_id(), epoch, MEALS, HOBBIES, frozenset(positions(6)), "7f83b165"
    )


def released(paid: Charge) -> ViewReleased:
    """The view that a charge bought."""
    return ViewReleased(
        id=new_entry_id(),
        epoch=paid.epoch,
        charge=paid.id,
        slot=paid.slot,
        mechanism=paid.mechanism,
        candidates=(GENERIC, ViewName("frugal")),
        view=GENERIC,
        units=paid.units,
    )


def place(folder: Path) -> LedgerPlace:
    """The ledger below a folder, and its mark in the folder beside it, as in a profile."""
    data, state = _made(folder)
    return LedgerPlace(data / LEDGER_FILE, state / MARK_FILE)


def memory_place(folder: Path) -> MemoryPlace:
    """Memory below a folder, and its witness in the folder beside it."""
    data, state = _made(folder)
    return MemoryPlace(data / MEMORY_FILE, state / WITNESS_FILE)


def memory_at(database: Path) -> MemoryPlace:
    """The place that `memory_place` made."""
    return memory_place(database.parents[1])


def _made(folder: Path) -> tuple[Path, Path]:
    data, state = folder / "data", folder / "state"
    for each in (data, state):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    return data, state


def keys(store: bytes = b"S") -> StoreKeys:
    """Keys that are the same in every process, so that a child can open what a test made."""
    return StoreKeys(
        store_id=store * 16,
        memory=Secret(b"M" * 32),
        memory_key_id=b"m" * 16,
        ledger=Secret(b"L" * 32),
        ledger_key_id=b"l" * 16,
        history=Secret(b"H" * 32),
        history_key_id=b"h" * 16,
        source_description="a test",
        succession=Ephemeral(),
    )


def epsilon(value: str) -> Units:
    return units_from_epsilon(Decimal(value))
