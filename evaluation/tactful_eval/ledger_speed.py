"""How much of the disk's speed charging leaves: a ratio, measured in one run.

Decides the ratio of `LedgerStore.admit` to bare SQLite commits of the same durability: the same
row size, WAL, `synchronous=FULL`, `BEGIN IMMEDIATE`, `INSERT`, `COMMIT`. Charges are measured
twice: many waiting at once, which is throughput, and each waiting for the one before. All three
take turns in short rounds, so that what else the machine does meets them alike. What is *not* here:
selection.

On a disk that syncs in no time the ratio is about the processor; on one that takes milliseconds it
is close to 1 whatever the code does. Compare ratios of one machine only.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tactful_core.allocation import Online
from tactful_core.entries import Charge, Mechanism, new_entry_id
from tactful_core.layout import GENERIC, Attribute, Layout, Shelf, Slot, View
from tactful_core.ledger import Admitted, Refused
from tactful_core.promises import Grant, Promises
from tactful_core.values import (
    AppId,
    AttributeName,
    Position,
    ShelfName,
    SlotName,
    Units,
    units_from_epsilon,
)
from tactful_eval.throwaway import throwaway_keys, unexpected
from tactfuld.store.ledger import LEDGER_FILE, LedgerPlace, LedgerStore
from tactfuld.store.mark import MARK_FILE

APP = AppId("asker")
SLOTS, POSITIONS_EACH = 6, 40
_DURABLE = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA fullfsync=ON",
    "PRAGMA checkpoint_fullfsync=ON",
)


@dataclass(frozen=True, slots=True)
class LedgerSpeed:
    """Medians over rounds.

    Attributes:
        charge_over_bare: throughput of charges over throughput of bare commits; the goal is 0.7.
        alone_over_bare: the same where each charge waits for the one before.
        charges, commits: how many in a second.
    """

    charge_over_bare: float
    alone_over_bare: float
    charges: float
    commits: float


def ledger_speed(folder: Path | None = None, rounds: int = 30, each: int = 32) -> LedgerSpeed:
    """Measures in a temporary folder inside `folder` (default: the system's), then removes it."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        return asyncio.run(_measured(Path(temporary), rounds, each))


async def _measured(folder: Path, rounds: int, each: int) -> LedgerSpeed:
    promises, keys = _promises(), throwaway_keys()
    place = LedgerPlace(folder / LEDGER_FILE, folder / MARK_FILE)
    await LedgerStore.create(place, keys)
    attributes = promises.layout.attributes
    async with LedgerStore.open(place, keys, attributes, unexpected) as store:
        await _admit(store, promises, number=0)
        with closing(_bare(folder / "bare.db")) as connection:
            row = bytes(_row_size(place.database))
            together, alone, bare = [], [], []
            for _ in range(rounds):
                started = time.perf_counter()
                _commit(connection, row, each)
                bare.append(time.perf_counter() - started)
                together.append(await _charged_together(store, promises, each))
                alone.append(await _charged_alone(store, promises, each))
    commits, charges = each / median(bare), each / median(together)
    return LedgerSpeed(charges / commits, each / median(alone) / commits, charges, commits)


async def _charged_together(store: LedgerStore, promises: Promises, count: int) -> float:
    """Seconds for `count` charges that are all waiting from the start."""
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(_admit(store, promises, number), name=f"charge {number}")
    return time.perf_counter() - started


async def _charged_alone(store: LedgerStore, promises: Promises, count: int) -> float:
    """Seconds for `count` charges, each after the one before."""
    started = time.perf_counter()
    for number in range(count):
        await _admit(store, promises, number)
    return time.perf_counter() - started


async def _admit(store: LedgerStore, promises: Promises, number: int) -> None:
    slot = promises.layout.slots[number % SLOTS]
    charge = Charge(
        id=new_entry_id(),
        epoch=1,
        app=APP,
        slot=slot.name,
        mechanism=promises.mechanism,
        positions=frozenset(slot.positions),
        charged=promises.charge_set(slot),
        units=Units(1),
        policy=promises.digest,
    )
    match await store.admit(charge, promises):
        case Refused(reason):
            raise RuntimeError(f"The ledger refused a charge that fits: {reason}.")
        case Admitted():
            return


def _bare(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in _DURABLE:
        connection.execute(pragma)
    connection.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, row BLOB NOT NULL) STRICT")
    return connection


def _commit(connection: sqlite3.Connection, row: bytes, count: int) -> None:
    for _ in range(count):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO rows (row) VALUES (?)", (row,))
        connection.execute("COMMIT")


def _row_size(database: Path) -> int:
    with closing(sqlite3.connect(database)) as connection:
        (size,) = connection.execute("SELECT max(length(sealed)) FROM entries").fetchone()
    return int(size)


def _promises() -> Promises:
    """Six slots, and six attributes that each cover four of them."""
    slots = tuple(_slot(number) for number in range(SLOTS))
    attributes = tuple(
        Attribute(
            AttributeName(f"attribute {number}"),
            frozenset(p for k in range(4) for p in slots[(number + k) % SLOTS].positions),
            units_from_epsilon(2),
        )
        for number in range(SLOTS)
    )
    grant = Grant(APP, frozenset(slot.name for slot in slots))
    return Promises(
        Layout(slots, attributes), Online(3), Mechanism.EXPONENTIAL, (grant,), digest="bench" * 12
    )


def _slot(number: int) -> Slot:
    first = 1 + number * POSITIONS_EACH
    positions = tuple(map(Position, range(first, first + POSITIONS_EACH)))
    name = SlotName(f"slot {number}")
    shelf = Shelf(ShelfName(f"{name}.all"), positions, tokens=48)
    return Slot(name, "a topic", (shelf,), (View(GENERIC, "Answer for anybody."),))
