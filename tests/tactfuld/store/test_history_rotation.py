"""Released history goes from one key to the next with every turn that can be read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.kept_succession import KeptSuccession
from tests.tactfuld.store import samples
from tests.tactfuld.store.test_history import MEALS, changed, opened, queries, sealed_rows, turn

from tactful.errors import IoFailed, NoPermission
from tactful_core.errors import SealError
from tactful_core.sealing import TurnSealer
from tactfuld.keys.values import DataKey, Purpose, StoreKeys
from tactfuld.store.history import HISTORY_FILE


@pytest.fixture
def succession() -> KeptSuccession:
    return KeptSuccession()


def keys_with(succession: KeptSuccession) -> StoreKeys:
    return replace(samples.keys(), succession=succession)


def renewed(key: DataKey) -> StoreKeys:
    return replace(samples.keys(), history=key.key, history_key_id=key.id)


async def test_rotation_keeps_every_turn(tmp_path: Path, succession: KeptSuccession) -> None:
    async with opened(tmp_path, keys=keys_with(succession)) as store:
        for query in ("one", "two"):
            await store.record(turn(query, thread="a"))
        before = await store.listing(None, None, 10)
        await store.rotate()
        assert await store.listing(None, None, 10) == before
        await store.record(turn("three", thread="a"))
        assert [kept.query for kept in await store.thread(MEALS, "a")] == ["one", "two", "three"]
    (fresh,) = succession.fresh
    assert succession.steps == [("begin", samples.keys().history_key_id), ("finish", fresh.id)]
    assert succession.purposes == {Purpose.HISTORY}
    async with opened(tmp_path, keys=renewed(fresh)) as store:
        assert await queries(store) == ["three", "two", "one"]


async def test_no_turn_opens_under_the_old_key_after_a_rotation(
    tmp_path: Path, succession: KeptSuccession
) -> None:
    async with opened(tmp_path, keys=keys_with(succession)) as store:
        await store.record(turn("one"))
        await store.rotate()
    keys = samples.keys()
    (sealed,) = sealed_rows(tmp_path)
    with pytest.raises(SealError):
        TurnSealer(keys.history, keys.history_key_id, keys.store_id).open(sealed, 1)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_reading_around_a_rotation_finds_the_turns(
    tmp_path: Path, succession: KeptSuccession, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    async with opened(tmp_path, keys=keys_with(succession)) as store:
        await store.record(turn("one"))
        assert store._reader is not None
        fetch = store._reader.execute_fetchall

        async def around(*arguments: Any) -> Any:
            if when == "before":
                await store.rotate()
                return await fetch(*arguments)
            rows = await fetch(*arguments)
            await store.rotate()
            return rows

        monkeypatch.setattr(store._reader, "execute_fetchall", around)
        assert await queries(store) == ["one"]


async def test_turn_that_cannot_be_read_stays_and_the_others_go_along(
    tmp_path: Path, succession: KeptSuccession
) -> None:
    notices: list[str] = []
    async with opened(tmp_path) as store:
        await store.record(turn("one"))
        await store.record(turn("two"))
    changed(tmp_path, "UPDATE turns SET sealed = zeroblob(64) WHERE number = 1")
    async with opened(tmp_path, notices, keys=keys_with(succession)) as store:
        await store.rotate()
        assert await queries(store) == ["two"]
    assert sealed_rows(tmp_path)[0] == bytes(64)


async def test_history_that_cannot_be_read_keeps_its_key(
    tmp_path: Path, succession: KeptSuccession
) -> None:
    async with opened(tmp_path):
        pass
    changed(tmp_path, "UPDATE header SET store = zeroblob(16)")
    async with opened(tmp_path, [], keys=keys_with(succession)) as store:
        with pytest.raises(IoFailed, match="cannot be read"):
            await store.rotate()
    assert succession.steps == []


async def test_rotation_that_fails_leaves_the_key_that_the_file_names(
    tmp_path: Path, succession: KeptSuccession
) -> None:
    async with opened(tmp_path, keys=keys_with(succession)) as store:
        await store.record(turn("one"))
        succession.broken = "begin"
        with pytest.raises(NoPermission):
            await store.rotate()
        succession.broken = None
        with closing(sqlite3.connect(tmp_path / HISTORY_FILE, timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")

            def give_up(connection: sqlite3.Connection) -> None:
                connection.execute("PRAGMA busy_timeout=0")

            assert store._writer is not None
            await store._writer.run(give_up)
            with pytest.raises(IoFailed, match="not replaced"):
                await store.rotate()
        assert succession.steps[-1] == ("finish", samples.keys().history_key_id)
        assert await queries(store) == ["one"]
        await store.record(turn("two"))
    async with opened(tmp_path) as store:
        assert await queries(store) == ["two", "one"]
