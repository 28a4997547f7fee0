"""The copy of the high-water mark in a keyring: it speaks where both folders were put back."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from keyring.backend import KeyringBackend
from tests.tactfuld.store import samples

from tactful_core.ledger import Admitted, Ledger
from tactfuld.store.ledger import LedgerPlace, LedgerStore

THIRD = 480_480_000


class ShelfKeyring(KeyringBackend):
    """Keeps what it is given, in this process; refuses when it is told to."""

    priority: ClassVar[float] = 5  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, entries: dict[tuple[str, str], str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries = entries
        self.broken = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.broken:
            raise OSError("the bus is gone")
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if self.broken:
            raise OSError("the bus is gone")
        self.entries[service, username] = password


@pytest.fixture
def shelf() -> ShelfKeyring:
    return ShelfKeyring({})


@pytest.fixture
async def place(tmp_path: Path) -> LedgerPlace:
    made = samples.place(tmp_path)
    await LedgerStore.create(made, samples.keys())
    return made


@asynccontextmanager
async def opened(place: LedgerPlace, shelf: KeyringBackend) -> AsyncIterator[LedgerStore]:
    keys = replace(samples.keys(), keyring=shelf)
    attributes = samples.promises().layout.attributes
    async with LedgerStore.open(place, keys, attributes, lambda _sentence: None) as store:
        yield store


def ledger_of(store: LedgerStore) -> Ledger:
    ledger = store.snapshot()
    assert isinstance(ledger, Ledger)
    return ledger


def spent(store: LedgerStore) -> set[int]:
    ledger = ledger_of(store)
    return {int(ledger.spent(a)) for a in samples.promises().layout.attributes}


async def spend(place: LedgerPlace, shelf: KeyringBackend) -> None:
    async with opened(place, shelf) as store:
        charge = samples.charge(units=THIRD, epoch=ledger_of(store).epoch)
        assert isinstance(await store.admit(charge, samples.promises()), Admitted)


def put_back(place: LedgerPlace, old: Path) -> None:
    """Both folders as they were: the database and the mark beside it."""
    for path in place.database.parent.glob("ledger.db*"):
        path.unlink()
    shutil.copy2(old / "ledger.db", place.database)
    shutil.copy2(old / "ledger.mark", place.mark)


@pytest.fixture
async def old(place: LedgerPlace, tmp_path: Path) -> Path:
    """A copy of both, made before anything was spent."""
    folder = tmp_path / "old"
    folder.mkdir()
    await asyncio.to_thread(shutil.copy2, place.database, folder / "ledger.db")
    await asyncio.to_thread(shutil.copy2, place.mark, folder / "ledger.mark")
    return folder


async def test_putting_both_folders_back_wins_nothing(
    place: LedgerPlace, shelf: ShelfKeyring, old: Path
) -> None:
    await spend(place, shelf)
    await asyncio.to_thread(put_back, place, old)
    async with opened(place, shelf) as store:
        assert spent(store) == {THIRD}
    await spend(place, shelf)
    async with opened(place, shelf) as store:
        assert spent(store) == {2 * THIRD}


async def test_without_a_keyring_the_same_is_not_noticed(
    place: LedgerPlace, shelf: ShelfKeyring, old: Path
) -> None:
    """The control: it is the copy that notices."""
    await spend(place, shelf)
    await asyncio.to_thread(put_back, place, old)
    shelf.entries.clear()
    async with opened(place, shelf) as store:
        assert spent(store) == {0}


async def test_an_epoch_that_only_the_keyring_knows_exhausts(
    place: LedgerPlace, shelf: ShelfKeyring, old: Path
) -> None:
    async with opened(place, shelf) as store:
        assert await store.open_next_epoch(0) == 2
    await asyncio.to_thread(put_back, place, old)
    async with opened(place, shelf) as store:
        assert ledger_of(store).exhausted


async def test_a_keyring_that_fails_leaves_the_file_to_speak(
    place: LedgerPlace, shelf: ShelfKeyring
) -> None:
    shelf.broken = True
    await spend(place, shelf)
    async with opened(place, shelf) as store:
        assert spent(store) == {THIRD}


async def test_what_the_keyring_holds_is_sealed_and_strange_texts_do_not_count(
    place: LedgerPlace, shelf: ShelfKeyring
) -> None:
    await spend(place, shelf)
    ((name, kept),) = shelf.entries.items()
    assert "diabetes" not in kept
    assert name[1].endswith(" mark")
    for strange in ("", "???", "AAAA", kept[:-8] + "AAAAAAA="):
        shelf.entries[name] = strange
        async with opened(place, shelf) as store:
            assert spent(store) == {THIRD}
