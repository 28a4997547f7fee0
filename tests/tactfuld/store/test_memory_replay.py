"""An older copy of memory is noticed, and is never opened unless its owner takes it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from tests.fakes.kept_succession import KeptSuccession
from tests.tactfuld.store import samples
from tests.tactfuld.store.test_memory_rotation import keys_with

from tactful.errors import NoPermission, Unusable
from tactfuld.keys.values import StoreKeys
from tactfuld.store import memory as memory_module
from tactfuld.store.memory import MemoryStore
from tactfuld.store.witness import WitnessFile

NOW = 1_767_225_600


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A store with one memory, version 2."""
    place = samples.memory_place(tmp_path)
    await MemoryStore.create(place, samples.layout(), samples.keys())
    async with opened(place.database) as store:
        await store.remember("I eat no nuts.", samples.DIET, None, NOW)
    return place.database


def opened(
    path: Path,
    notices: Callable[[str], None] = print,
    *,
    accept: bool = False,
    keys: StoreKeys | None = None,
) -> AbstractAsyncContextManager[MemoryStore]:
    place = samples.memory_at(path)
    return MemoryStore.open(place, samples.layout(), keys or samples.keys(), notices, accept=accept)


async def texts(store: MemoryStore) -> tuple[str, ...]:
    return (await store.open_rows(samples.positions(2, 3))).reveal()


async def older_copy(path: Path) -> bytes:
    """The store with one memory less, after another was written to it."""
    before = path.read_bytes()
    async with opened(path) as store:
        await store.remember("I like rice.", samples.DIET, None, NOW)
    return before


async def test_an_older_copy_put_back_is_refused_with_a_way_out(path: Path) -> None:
    path.write_bytes(before := await older_copy(path))
    with pytest.raises(Unusable, match=r"version 2, .* seen version 3.*`tactful memory accept`"):
        async with opened(path):
            pass
    assert path.read_bytes() == before


async def test_the_newest_copy_put_back_opens(path: Path) -> None:
    await older_copy(path)
    notices: list[str] = []
    copy = path.read_bytes()
    path.write_bytes(copy)
    async with opened(path, notices.append) as store:
        assert await texts(store) == ("I eat no nuts.", "I like rice.")
    assert notices == []


async def test_accepted_it_opens_and_everything_from_before_is_older_than_it(path: Path) -> None:
    """Also the copy that was newer than the one accepted: there must not be two lines of copies."""
    before = await older_copy(path)
    newest = path.read_bytes()
    path.write_bytes(before)
    async with opened(path, accept=True) as store:
        assert await texts(store) == ("I eat no nuts.", "")
    accepted = path.read_bytes()
    for other in (before, newest):
        path.write_bytes(other)
        with pytest.raises(Unusable, match="is older than it was"):
            async with opened(path):
                pass
    path.write_bytes(accepted)
    async with opened(path) as store:
        assert await texts(store) == ("I eat no nuts.", "")


async def test_a_log_that_is_taken_away_is_an_older_copy(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that is only in the write-ahead log, as after a crash, and the log is gone."""
    monkeypatch.setattr(memory_module, "empty_log", lambda _connection: None)
    async with opened(path) as store:
        await store.remember("I like rice.", samples.DIET, None, NOW)
        shutil.copy(path, tmp_path / "without its log")
    shutil.copy(tmp_path / "without its log", path)
    with pytest.raises(Unusable, match="is older than it was"):
        async with opened(path):
            pass


async def test_killed_between_a_write_and_its_witness_nothing_is_said(path: Path) -> None:
    witness, notices = samples.memory_at(path).witness, list[str]()
    before = witness.read_bytes()
    await older_copy(path)
    witness.write_bytes(before)
    async with opened(path, notices.append) as store:
        assert await texts(store) == ("I eat no nuts.", "I like rice.")
    assert notices == []


@pytest.mark.parametrize("content", [None, b"", bytes(40)], ids=["missing", "empty", "forged"])
async def test_a_witness_that_says_nothing_is_told_until_there_is_a_new_one(
    path: Path, content: bytes | None
) -> None:
    witness, notices = samples.memory_at(path).witness, list[str]()
    witness.unlink() if content is None else witness.write_bytes(content)
    for _ in range(2):
        async with opened(path, notices.append) as store:
            assert await texts(store) == ("I eat no nuts.", "")
    assert ["older copy of memory.db would not have been noticed" in each for each in notices] == [
        True,
        True,
    ]
    async with opened(path, accept=True):
        pass
    async with opened(path, notices.append):
        pass
    assert len(notices) == 2


async def test_a_witness_that_cannot_be_written_is_told_and_memory_is_kept(path: Path) -> None:
    state, notices = samples.memory_at(path).witness.parent, list[str]()
    async with opened(path, notices.append) as store:
        shutil.rmtree(state)
        await store.remember("I like rice.", samples.DIET, None, NOW)
        assert await texts(store) == ("I eat no nuts.", "I like rice.")
    (notice,) = notices
    assert "its witness in the state folder was not" in notice


async def test_a_store_without_a_place_for_its_witness_is_not_made(tmp_path: Path) -> None:
    place = samples.memory_place(tmp_path)
    place.witness.parent.rmdir()
    with pytest.raises(NoPermission, match=r"memory\.witness could not be written"):
        await MemoryStore.create(place, samples.layout(), samples.keys())


async def test_the_witness_follows_a_rotation_before_the_old_key_is_destroyed(path: Path) -> None:
    succession = KeptSuccession()
    succession.broken = "finish"
    witness = WitnessFile(samples.memory_at(path).witness, samples.keys().store_id)
    async with opened(path, keys=keys_with(succession)) as store:
        with pytest.raises(NoPermission):
            await store.rotate()
        (sealer,) = store._sealers.values()
        assert await asyncio.to_thread(witness.read, sealer) == 3
