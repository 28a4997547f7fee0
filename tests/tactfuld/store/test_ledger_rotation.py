"""The ledger goes from one key to the next: the same entries, the same sums, the same mark."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from keyring.backend import KeyringBackend
from tests.fakes.kept_succession import KeptSuccession
from tests.tactfuld.store import samples
from tests.tactfuld.store.test_mark_copy import ShelfKeyring

from tactful.errors import IoFailed, NoPermission, Unusable
from tactful_core.entries import UnreadableEntry
from tactful_core.errors import SealError
from tactful_core.ledger import Admitted, Ledger, UnreadableLedger
from tactful_core.sealing import ChainSealer
from tactfuld.keys.values import DataKey, Purpose, StoreKeys
from tactfuld.store import ledger as ledger_module
from tactfuld.store import mark as mark_module
from tactfuld.store.ledger import LedgerPlace, LedgerStore


@pytest.fixture
def succession() -> KeptSuccession:
    return KeptSuccession()


@pytest.fixture
async def place(tmp_path: Path) -> LedgerPlace:
    """A ledger with five entries: the epoch, three charges, and a read without protection."""
    new = samples.place(tmp_path)
    await LedgerStore.create(new, samples.keys())
    async with opened(new, samples.keys()) as store:
        for name in (samples.FOOD, samples.HEALTH, samples.FINANCE):
            assert isinstance(await store.admit(samples.charge(name), samples.promises()), Admitted)
        assert await store.record(samples.unprotected_read())
    return new


def opened(
    place: LedgerPlace, keys: StoreKeys, notices: Callable[[str], None] = print
) -> AbstractAsyncContextManager[LedgerStore]:
    return LedgerStore.open(place, keys, samples.layout().attributes, notices)


def keys_with(succession: KeptSuccession, keyring: KeyringBackend | None = None) -> StoreKeys:
    return replace(samples.keys(), succession=succession, keyring=keyring)


def renewed(key: DataKey, keyring: KeyringBackend | None = None) -> StoreKeys:
    return replace(samples.keys(), ledger=key.key, ledger_key_id=key.id, keyring=keyring)


def readable(store: LedgerStore) -> Ledger:
    ledger = store.snapshot()
    assert isinstance(ledger, Ledger)
    return ledger


async def test_rotation_keeps_every_entry_every_sum_and_the_mark(
    place: LedgerPlace, succession: KeptSuccession
) -> None:
    notices: list[str] = []
    async with opened(place, keys_with(succession), notices.append) as store:
        before, entries = await store.witnessed()
        await store.rotate()
        assert await store.witnessed() == (before, entries)
        again = await store.admit(samples.charge(samples.FOOD), samples.promises())
        assert isinstance(again, Admitted)
        after = readable(store)
    (fresh,) = succession.fresh
    old = samples.keys().ledger_key_id
    assert succession.steps == [("begin", old), ("finish", fresh.id)]
    assert succession.purposes == {Purpose.LEDGER}
    async with opened(place, renewed(fresh), notices.append) as store:
        assert readable(store) == after
        assert (await store.entries())[:-1] == entries
    assert notices == []


async def test_no_entry_and_no_mark_opens_under_the_old_key_after_a_rotation(
    place: LedgerPlace, succession: KeptSuccession
) -> None:
    async with opened(place, keys_with(succession)) as store:
        await store.rotate()
    keys = samples.keys()
    old = ChainSealer(keys.ledger, keys.ledger_key_id, keys.store_id)
    with closing(sqlite3.connect(place.database)) as connection:
        (first,) = connection.execute("SELECT sealed FROM entries WHERE sequence = 1").fetchone()
    for sealed, number in ((first, 1), (place.mark.read_bytes(), 0)):
        with pytest.raises(SealError):
            old.open(sealed, number, ChainSealer.FIRST)


async def test_entries_never_change_otherwise_also_after_a_rotation(
    place: LedgerPlace, succession: KeptSuccession
) -> None:
    async with opened(place, keys_with(succession)) as store:
        await store.rotate()
    with closing(sqlite3.connect(place.database)) as connection:
        for statement in ("UPDATE entries SET sealed = x'00'", "DELETE FROM entries"):
            with pytest.raises(sqlite3.IntegrityError, match="entries never"):
                connection.execute(statement)


async def test_reading_that_began_before_a_rotation_ends_well(
    place: LedgerPlace, succession: KeptSuccession, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed = ledger_module._replayed
    async with opened(place, keys_with(succession)) as store:
        expected = await store.entries()

        async def late(*arguments: Any) -> Any:
            await store.rotate()
            return await replayed(*arguments)

        monkeypatch.setattr(ledger_module, "_replayed", late)
        assert await store.entries() == expected


async def test_mark_that_an_exhausted_ledger_must_not_write_over_goes_along(
    place: LedgerPlace, succession: KeptSuccession
) -> None:
    """Put back from before the newest epoch, the ledger stays exhausted under its new key."""
    old = place.database.read_bytes()
    async with opened(place, samples.keys()) as store:
        assert await store.open_next_epoch(0) == 2
    place.database.write_bytes(old)
    async with opened(place, keys_with(succession)) as store:
        assert readable(store).exhausted
        await store.rotate()
    async with opened(place, renewed(succession.fresh[0])) as store:
        assert readable(store).exhausted


async def test_copy_of_the_mark_in_a_keyring_goes_along(
    place: LedgerPlace, succession: KeptSuccession
) -> None:
    shelf = ShelfKeyring({})
    old = (place.database.read_bytes(), place.mark.read_bytes())
    keys = keys_with(succession, shelf)
    async with opened(place, keys) as store:
        await store.admit(samples.charge(samples.FOOD), samples.promises())
    async with opened(place, keys) as store:
        spent = readable(store).settled
        await store.rotate()
        entry = dict(shelf.entries)
    assert old != (place.database.read_bytes(), place.mark.read_bytes())
    (fresh,) = succession.fresh
    place.mark.unlink()
    shelf.entries = entry
    async with opened(place, renewed(fresh, shelf)) as store:
        assert readable(store).settled == spent


async def test_rotation_that_fails_after_the_entries_is_finished_by_the_next(
    place: LedgerPlace, succession: KeptSuccession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    async with opened(place, keys_with(succession)) as store:
        expected = readable(store)
        with monkeypatch.context() as patch:
            patch.setattr(mark_module, "replace_file", full)
            with pytest.raises(IoFailed):
                await store.rotate()
        assert readable(store) == expected
        assert [name for name, _ in succession.steps] == ["begin"]
        await store.rotate()
    async with opened(place, renewed(succession.fresh[-1])) as store:
        assert readable(store) == expected


async def test_key_that_cannot_be_made_durable_changes_nothing(
    place: LedgerPlace, succession: KeptSuccession
) -> None:
    before = place.database.read_bytes()
    succession.broken = "begin"
    async with opened(place, keys_with(succession)) as store:
        with pytest.raises(NoPermission):
            await store.rotate()
        assert isinstance(
            await store.admit(samples.charge(samples.FOOD), samples.promises()), Admitted
        )
    assert place.database.read_bytes()[:100] == before[:100]


async def test_damaged_ledger_is_not_sealed_anew(
    place: LedgerPlace, succession: KeptSuccession
) -> None:
    async with opened(place, keys_with(succession)) as store:
        with closing(sqlite3.connect(place.database)) as connection:
            connection.execute("DROP TRIGGER entries_never_change")
            connection.execute("UPDATE entries SET sealed = zeroblob(64) WHERE sequence = 2")
            connection.commit()
        with pytest.raises(Unusable, match="not sealed under a new key"):
            await store.rotate()
        assert isinstance(store.snapshot(), UnreadableLedger)
        with pytest.raises(Unusable):
            await store.rotate()
    assert ("finish", samples.keys().ledger_key_id) not in succession.steps


async def test_ledger_of_other_keys_is_named_and_exhausted(place: LedgerPlace) -> None:
    notices: list[str] = []
    other = DataKey(b"o" * 16, samples.keys().ledger)
    async with opened(place, renewed(other), notices.append) as store:
        assert isinstance(store.snapshot(), UnreadableLedger)
        with pytest.raises(UnreadableEntry):
            await store.entries()
    assert len(notices) == 1
    assert "belongs to other keys" in notices[0]
