"""A thief with the disk: what the data folder tells somebody who has every byte and no key.

GUARANTEE §1 covers presence, count and length of memories, so the files must not tell them either;
DESIGN §8 says what a thief may see: a store's capacity and how many writes it had.
"""

from __future__ import annotations

import asyncio
import base64
import sqlite3
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from tests.tactfuld.store import samples

from tactful_core.ledger import Admitted
from tactful_core.sealing import PassphraseParameters, capacity_bytes
from tactful_core.values import Secret, ShelfName
from tactfuld.keys.ring import create_keys
from tactfuld.keys.sources import PassphraseSource
from tactfuld.keys.values import StoreKeys
from tactfuld.locking import hold
from tactfuld.store.ledger import LEDGER_FILE, LedgerPlace, LedgerStore
from tactfuld.store.mark import MARK_FILE
from tactfuld.store.memory import MEMORY_FILE, MemoryPlace, MemoryStore
from tactfuld.store.witness import WITNESS_FILE

MARKER = "kumquat marmalade"
PASSPHRASE = "correct horse battery staple"
CHEAP = PassphraseParameters(salt=b"0123456789abcdef", iterations=1, lanes=1, memory_kib=8)
SHORTEST = 8
LONGEST = capacity_bytes(samples.TOKENS)
SHELVES: tuple[ShelfName, ...] = tuple(shelf.name for shelf in samples.layout().shelves)
FULL = (SHELVES[0], SHELVES[1], SHELVES[1], SHELVES[2], SHELVES[2], SHELVES[3])


@asynccontextmanager
async def data_folder(folder: Path) -> AsyncIterator[tuple[StoreKeys, MemoryStore, LedgerStore]]:
    """A new data folder as the daemon makes and holds it; the ledger's mark lies beside it."""
    folder.mkdir()
    layout, place = samples.layout(), LedgerPlace(folder / LEDGER_FILE, mark_beside(folder))
    place.mark.parent.mkdir()
    at = MemoryPlace(folder / MEMORY_FILE, place.mark.with_name(WITNESS_FILE))
    with hold(folder):
        source = PassphraseSource(Secret(PASSPHRASE), CHEAP)
        keys = await asyncio.to_thread(create_keys, folder, source)
        await MemoryStore.create(at, layout, keys)
        await LedgerStore.create(place, keys)
        async with (
            MemoryStore.open(at, layout, keys, print) as memory,
            LedgerStore.open(place, keys, layout.attributes, print) as ledger,
        ):
            yield keys, memory, ledger


def mark_beside(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}, state") / MARK_FILE


def found(folder: Path, planted: Iterable[bytes]) -> list[str]:
    """Files with any of the planted values, in any form in which they could leak."""
    forms = {form for value in planted for form in disguises(value)}
    return [
        path.name
        for path in sorted(folder.rglob("*"))
        if path.is_file() and any(form in path.read_bytes() for form in forms)
    ]


def disguises(value: bytes) -> set[bytes]:
    """The value as it is, in hexadecimal, in Base64 at every alignment, and as UTF-16."""
    aligned = {base64.b64encode(bytes(offset) + value + bytes(3))[4:-8] for offset in range(3)}
    wide = {value.decode("latin-1").encode(codec) for codec in ("utf-16-le", "utf-16-be")}
    forms = {value, value.hex().encode(), value.hex().upper().encode(), *aligned, *wide}
    assert min(map(len, forms)) >= SHORTEST, "shorter ones are found in random bytes by chance"
    return forms


def sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.iterdir()}


def shape(path: Path) -> dict[str, object]:
    """What SQLite's own bookkeeping shows without a key."""
    pragmas = ("page_count", "freelist_count", "page_size", "user_version", "schema_version")
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT position, length(sealed) FROM rows").fetchall()
        (version,) = connection.execute("SELECT version FROM header").fetchone()
        values = {name: connection.execute(f"PRAGMA {name}").fetchone() for name in pragmas}
    return {**values, "rows": rows, "version": version}


async def test_no_byte_of_the_data_folder_shows_a_memory_a_key_or_a_charge(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with data_folder(folder) as (keys, memory, ledger):
        await memory.remember(f"I like {MARKER}.", samples.DIET, None, 1_767_225_600)
        admitted = await ledger.admit(samples.charge(), samples.promises())
        assert isinstance(admitted, Admitted)
        assert await ledger.record(samples.released(samples.charge()))
        planted = [
            MARKER.encode(),
            PASSPHRASE.encode(),
            keys.memory.reveal(),
            keys.ledger.reveal(),
            samples.charge().mechanism.encode(),
            b'"policy":"7f83b165"',
            f'"diabetes":{samples.CAP // 3}'.encode(),
        ]
        assert {f"{MEMORY_FILE}-wal", f"{LEDGER_FILE}-wal"} <= {p.name for p in folder.iterdir()}
        assert not found(folder, planted), "while the stores are open, with their WAL"
    assert not found(folder, planted), "after they are closed"
    assert mark_beside(folder).exists()
    assert not found(mark_beside(folder).parent, planted), "in the ledger's mark"


@pytest.mark.parametrize("form", ["as it is", "hexadecimal", "Base64", "UTF-16"])
async def test_the_scan_would_have_found_it(tmp_path: Path, form: str) -> None:
    """The control: the same scan over a copy that is not sealed."""
    text = f"I like {MARKER}.".encode()
    unsealed = {
        "as it is": text,
        "hexadecimal": text.hex().encode(),
        "Base64": base64.b64encode(text),
        "UTF-16": text.decode().encode("utf-16-le"),
    }[form]
    folder = tmp_path / "data"
    async with data_folder(folder):
        with closing(sqlite3.connect(folder / "unsealed.db")) as connection:
            connection.execute("CREATE TABLE rows (position INTEGER PRIMARY KEY, text BLOB)")
            connection.execute("INSERT INTO rows VALUES (1, ?)", (unsealed,))
            connection.commit()
        assert found(folder, [MARKER.encode()]) == ["unsealed.db"]


async def test_an_empty_and_a_full_store_are_equally_large(tmp_path: Path) -> None:
    async with data_folder(tmp_path / "empty"):
        pass
    async with data_folder(tmp_path / "full") as (_, memory, _ledger):
        for shelf in FULL:
            await memory.remember("x" * LONGEST, shelf, None, 1)
        assert len(await memory.listing()) == samples.layout().size
    assert sizes(tmp_path / "empty") == sizes(tmp_path / "full")
    empty, full = (shape(tmp_path / name / MEMORY_FILE) for name in ("empty", "full"))
    assert (empty.pop("version"), full.pop("version")) == (1, 1 + len(FULL))
    assert empty == full


async def test_after_equally_many_writes_nothing_tells_which_or_how_long(tmp_path: Path) -> None:
    """Also not while the store is open, when its WAL holds what was written."""
    seen = {}
    for name, text, shelves in (
        ("short", "x", (SHELVES[0], SHELVES[1], SHELVES[1])),
        ("long", "x" * LONGEST, (SHELVES[2], SHELVES[3], SHELVES[2])),
    ):
        async with data_folder(tmp_path / name) as (_, memory, _ledger):
            for shelf in shelves:
                await memory.remember(text, shelf, None, 1)
            seen[name] = sizes(tmp_path / name)
        seen[f"{name}, closed"] = sizes(tmp_path / name)
    assert seen["short"] == seen["long"]
    assert seen["short, closed"] == seen["long, closed"]
    assert shape(tmp_path / "short" / MEMORY_FILE) == shape(tmp_path / "long" / MEMORY_FILE)


async def test_ledger_entries_are_equally_large_whatever_was_read(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with data_folder(folder) as (_, _memory, ledger):
        for slot in (samples.HEALTH, samples.FOOD, samples.FINANCE):
            for app in (samples.MEALS, samples.MONEY):
                charge = samples.charge(slot, app, units=1)
                assert isinstance(await ledger.admit(charge, samples.promises()), Admitted)
                assert await ledger.record(samples.released(charge))
        assert await ledger.record(samples.unprotected_read())
    with closing(sqlite3.connect(folder / LEDGER_FILE)) as connection:
        lengths = connection.execute("SELECT length(sealed) FROM entries").fetchall()
    assert len(lengths) == 14
    assert len(set(lengths)) == 1


async def test_mark_is_equally_large_whatever_was_charged(tmp_path: Path) -> None:
    seen = set()
    for name, slots in (
        ("none", ()),
        ("health", (samples.HEALTH,)),
        ("all", (samples.HEALTH, samples.FOOD, samples.FINANCE)),
    ):
        folder = tmp_path / name
        async with data_folder(folder) as (_, _memory, ledger):
            for slot in slots:
                await ledger.admit(samples.charge(slot, units=1), samples.promises())
        seen.add(mark_beside(folder).stat().st_size)
    assert len(seen) == 1


async def test_two_stores_with_the_same_memory_share_no_block(tmp_path: Path) -> None:
    sealed = []
    for name in ("one", "two"):
        async with data_folder(tmp_path / name) as (_, memory, _ledger):
            await memory.remember(f"I like {MARKER}.", samples.DIET, None, 1)
        with closing(sqlite3.connect(tmp_path / name / MEMORY_FILE)) as connection:
            (row,) = connection.execute("SELECT sealed FROM rows WHERE position = 2").fetchone()
        sealed.append({row[start : start + 16] for start in range(len(row) - 15)})
    assert not sealed[0] & sealed[1]


async def test_every_file_is_private(tmp_path: Path) -> None:
    async with data_folder(tmp_path / "data") as (_, memory, ledger):
        await memory.remember("x", samples.DIET, None, 1)
        await ledger.admit(samples.charge(), samples.promises())
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "data").iterdir()}
    assert len(modes) == 8
    assert set(modes.values()) == {0o600}
