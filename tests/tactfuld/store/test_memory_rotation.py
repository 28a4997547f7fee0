"""Memory goes from one key to the next without losing anything, whatever fails on the way."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.kept_succession import KeptSuccession
from tests.tactfuld.store import samples
from tests.vectors import reference

from tactful.errors import NoPermission, Unusable
from tactful_core.errors import SealError
from tactful_core.sealing import RowSealer, capacity_bytes
from tactful_core.values import Position, ShelfName
from tactfuld.keys.values import StoreKeys
from tactfuld.store import memory as memory_module
from tactfuld.store.memory import MemoryStore, layout_fingerprint

NOW = 1_767_225_600
LIMIT = capacity_bytes(samples.TOKENS)
ALL = samples.positions(1, 2, 3, 4, 5, 6)
SHELVES = {
    "two": samples.DIET,
    "three": ShelfName("finance.accounts"),
    "four": ShelfName("hobbies.music"),
}


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A new, empty store."""
    place = samples.memory_place(tmp_path)
    await MemoryStore.create(place, samples.layout(), samples.keys())
    return place.database


def opened(
    path: Path, keys: StoreKeys | None = None, notices: Callable[[str], None] = print
) -> AbstractAsyncContextManager[MemoryStore]:
    return MemoryStore.open(
        samples.memory_at(path), samples.layout(), keys or samples.keys(), notices
    )


async def texts(store: MemoryStore, *read_set: Position) -> tuple[str, ...]:
    return (await store.open_rows(read_set)).reveal()


@pytest.fixture
def succession() -> KeptSuccession:
    return KeptSuccession()


def keys_with(succession: KeptSuccession) -> StoreKeys:
    return replace(samples.keys(), succession=succession)


async def test_rotation_seals_all_rows_under_a_key_that_was_durable_before(
    path: Path, succession: KeptSuccession
) -> None:
    old = samples.keys()
    async with opened(path, keys_with(succession)) as store:
        await store.remember("one", samples.DIET, None, NOW)
        await store.rotate()
        (fresh,) = succession.fresh
        assert succession.steps == [("begin", old.memory_key_id), ("finish", fresh.id)]
        assert await texts(store, *samples.positions(2, 3)) == ("one", "")
        assert await store.remember("two", samples.DIET, None, NOW) == 3
        assert await texts(store, *samples.positions(2, 3)) == ("one", "two")
    renewed = replace(old, memory=fresh.key, memory_key_id=fresh.id)
    async with opened(path, renewed) as store:
        assert await texts(store, *samples.positions(2, 3)) == ("one", "two")
    with pytest.raises(Unusable, match="other keys"):
        async with opened(path):
            pass


async def test_no_row_opens_under_the_old_key_after_a_rotation(
    path: Path, succession: KeptSuccession
) -> None:
    async with opened(path, keys_with(succession)) as store:
        await store.remember("one", samples.DIET, None, NOW)
        await store.rotate()
    old = samples.keys()
    sealer = RowSealer(old.memory, old.memory_key_id, old.store_id, LIMIT)
    with closing(sqlite3.connect(path)) as connection:
        records = connection.execute("SELECT position, sealed, version FROM header, rows")
        for position, sealed, version in records.fetchall():
            with pytest.raises(SealError):
                sealer.open(sealed, position, version)


async def test_a_read_that_began_before_a_rotation_opens_what_it_found(
    path: Path, succession: KeptSuccession, monkeypatch: pytest.MonkeyPatch
) -> None:
    notices: list[str] = []
    async with opened(path, keys_with(succession), notices.append) as store:
        await store.remember("one", samples.DIET, None, NOW)
        fetch = store._reader.execute_fetchall

        async def slow(*arguments: Any) -> Any:
            records = await fetch(*arguments)
            await store.rotate()
            return records

        monkeypatch.setattr(store._reader, "execute_fetchall", slow)
        assert await texts(store, *samples.positions(2)) == ("one",)
        assert [memory.text for _, memory in await store.listing()] == ["one"]
    assert notices == []


async def test_a_read_that_finds_a_newer_key_than_when_it_began_opens_it(
    path: Path, succession: KeptSuccession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(path, keys_with(succession)) as store:
        await store.remember("one", samples.DIET, None, NOW)
        fetch = store._reader.execute_fetchall

        async def late(*arguments: Any) -> Any:
            await store.rotate()
            return await fetch(*arguments)

        monkeypatch.setattr(store._reader, "execute_fetchall", late)
        assert await texts(store, *samples.positions(2)) == ("one",)
        assert [memory.text for _, memory in await store.listing()] == ["one"]


async def test_key_is_replaced_before_it_has_sealed_more_than_half_of_what_it_may(
    path: Path, succession: KeptSuccession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert memory_module.MOST_SEALS == 2**32
    monkeypatch.setattr(memory_module, "MOST_SEALS", 2 * 2 * len(ALL))
    async with opened(path, keys_with(succession)) as store:
        await store.remember("one", samples.DIET, None, NOW)
        assert succession.steps == []
        for text in ("two", "three", "four"):
            await store.remember(text, SHELVES[text], None, NOW)
        assert [name for name, _ in succession.steps] == ["begin", "finish"] * 2
        assert len(await store.listing()) == 4


async def test_key_that_cannot_be_replaced_seals_no_more(
    path: Path, succession: KeptSuccession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_module, "MOST_SEALS", 2 * len(ALL))
    succession.broken = "begin"
    async with opened(path, keys_with(succession)) as store:
        with pytest.raises(NoPermission, match="disk is full"):
            await store.remember("one", samples.DIET, None, NOW)
        assert await store.listing() == ()


async def test_rotation_that_cannot_destroy_the_old_key_says_so_and_goes_on(
    path: Path, succession: KeptSuccession
) -> None:
    async with opened(path, keys_with(succession)) as store:
        await store.remember("one", samples.DIET, None, NOW)
        succession.broken = "finish"
        with pytest.raises(NoPermission):
            await store.rotate()
        assert await texts(store, *samples.positions(2)) == ("one",)
        succession.broken = None
        await store.rotate()
        begun, second = succession.fresh
        assert succession.steps[-2:] == [("begin", begun.id), ("finish", second.id)]


async def test_memory_is_kept_where_only_the_old_key_could_not_be_destroyed(
    path: Path, succession: KeptSuccession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the owner wanted was to remember, and that was done."""
    monkeypatch.setattr(memory_module, "MOST_SEALS", 2 * len(ALL))
    succession.broken = "finish"
    notices: list[str] = []
    async with opened(path, keys_with(succession), notices.append) as store:
        await store.remember("one", samples.DIET, None, NOW)
        assert await texts(store, *samples.positions(2)) == ("one",)
    assert ["could not be destroyed" in notice for notice in notices] == [True]


async def test_rotation_of_a_damaged_store_changes_nothing(
    path: Path, succession: KeptSuccession
) -> None:
    async with opened(path, keys_with(succession)) as store:

        def damage(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE rows SET sealed = zeroblob(9) WHERE position = 1")

        await store._writer.run(damage)
        with pytest.raises(Unusable):
            await store.rotate()
    assert succession.steps[-1] == ("finish", samples.keys().memory_key_id)


async def test_root_is_over_the_version_that_the_key_is_in_use_from(
    path: Path, succession: KeptSuccession
) -> None:
    async with opened(path, keys_with(succession)) as store:
        await store.remember("one", samples.DIET, None, NOW)
        await store.rotate()
    (fresh,) = succession.fresh
    with closing(sqlite3.connect(path)) as connection:
        version, since, root = connection.execute(
            "SELECT version, since, root FROM header"
        ).fetchone()
        rows = [row for (row,) in connection.execute("SELECT sealed FROM rows ORDER BY position")]
        parts = [layout_fingerprint(samples.layout()), reference.u(since, 8), *rows]
        store_id = samples.keys().store_id
        assert (version, since) == (3, 3)
        assert root == reference.root(fresh.key.reveal(), store_id, version, parts)
        connection.execute("UPDATE header SET since = 2")
        connection.commit()
    renewed = replace(samples.keys(), memory=fresh.key, memory_key_id=fresh.id)
    with pytest.raises(Unusable, match="not as it was written last"):
        async with opened(path, renewed):
            pass
