"""Released history on disk: sealed, kept for as long as it should be, and gone once forgotten."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.tactfuld.store import samples

from tactful.errors import IoFailed, Unusable
from tactful_core.values import AppId, SlotName, ViewName
from tactfuld.keys.values import StoreKeys
from tactfuld.store.connection import Writer
from tactfuld.store.history import HISTORY_FILE, HistoryStore
from tactfuld.store.released_turn import ReleasedTurn, Retention, TurnsGone, TurnView

MEALS, GUEST = AppId("meals"), AppId("guest")
DAY = 86_400
NOW = 1000 * DAY
KEPT = Retention(turns=50, days=90)
MARKER = "kumquat marmalade"
STEP = 211


def turn(
    query: str = "Dinner?",
    answer: str = "Soup.",
    *,
    app: AppId = MEALS,
    thread: str | None = None,
    at: int = NOW,
    complete: bool = True,
) -> ReleasedTurn:
    view = TurnView(SlotName("food"), ViewName("quick_meal"), fallback=False)
    return ReleasedTurn(app, thread, at, query, answer, complete, (view,))


@asynccontextmanager
async def opened(
    folder: Path,
    notices: list[str] | None = None,
    *,
    keys: StoreKeys | None = None,
    retention: Retention = KEPT,
    now: int = NOW,
) -> AsyncIterator[HistoryStore]:
    """The history below a folder, which is made if there is none; nothing may be told about it,
    unless the test listens."""
    path, told = folder / HISTORY_FILE, [] if notices is None else notices
    if not path.exists() and notices is None:
        await HistoryStore.create(path, samples.keys())
    async with HistoryStore.open(
        path, keys or samples.keys(), retention, now, told.append
    ) as store:
        yield store
    if notices is None:
        assert told == []


async def queries(store: HistoryStore, app: AppId | None = None) -> list[str]:
    return [kept.query for _, kept in await store.listing(app, None, 1000)]


def changed(folder: Path, statement: str, *values: object) -> None:
    """Changes the file behind the store's back."""
    with closing(sqlite3.connect(folder / HISTORY_FILE)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute(statement, values)
        connection.commit()


def sealed_rows(folder: Path) -> list[bytes]:
    with closing(sqlite3.connect(folder / HISTORY_FILE)) as connection:
        return [row[0] for row in connection.execute("SELECT sealed FROM turns ORDER BY number")]


def on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file())


# --- keeping ------------------------------------------------------------------------------------


async def test_turn_is_kept_whole_also_over_a_restart(tmp_path: Path) -> None:
    told = turn("What's for “dinner”?", "Crêpes.\n", thread="evening", complete=False)
    async with opened(tmp_path) as store:
        await store.record(told)
        assert await store.listing(None, None, 10) == ((1, told),)
    async with opened(tmp_path) as store:
        assert await store.listing(None, None, 10) == ((1, told),)
        assert await store.turn(1) == told
        assert await store.turn(2) is None
        assert await store.thread(MEALS, "evening") == (told,)


async def test_listing_is_newest_first_of_an_app_a_thread_and_bounded(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for number, (app, thread) in enumerate(
            [(MEALS, None), (GUEST, "a"), (MEALS, "a"), (MEALS, "b"), (MEALS, "a")], start=1
        ):
            await store.record(turn(str(number), app=app, thread=thread))
        assert await queries(store) == ["5", "4", "3", "2", "1"]
        assert await queries(store, MEALS) == ["5", "4", "3", "1"]
        found = await store.listing(MEALS, "a", 10)
        assert [(number, kept.query) for number, kept in found] == [(5, "5"), (3, "3")]
        assert [number for number, _ in await store.listing(None, None, 2)] == [5, 4]


async def test_thread_is_one_apps_own_oldest_first(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for app, thread, query in (
            (MEALS, "a", "1"),
            (GUEST, "a", "2"),
            (MEALS, None, "3"),
            (MEALS, "b", "4"),
            (MEALS, "a", "5"),
        ):
            await store.record(turn(query, app=app, thread=thread))
        assert [kept.query for kept in await store.thread(MEALS, "a")] == ["1", "5"]
        assert [kept.query for kept in await store.thread(GUEST, "a")] == ["2"]
        assert await store.thread(GUEST, "b") == ()


async def test_turns_that_are_recorded_at_once_are_all_kept(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        async with asyncio.TaskGroup() as tasks:
            for number in range(20):
                tasks.create_task(store.record(turn(str(number))), name=f"turn {number}")
        assert sorted(await queries(store), key=int) == [str(number) for number in range(20)]


async def test_turn_of_a_caller_that_is_cancelled_is_kept_once_it_was_begun(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as store:
        async with asyncio.TaskGroup() as tasks:
            recording = tasks.create_task(store.record(turn()), name="record")
            await asyncio.sleep(0)  # the writer's thread has it
            recording.cancel()
        await store.record(turn("after"))
        assert await queries(store) in (["after", "Dinner?"], ["after"])
        numbers = [number for number, _ in await store.listing(None, None, 9)]
        assert numbers in ([2, 1], [1])


# --- retention ----------------------------------------------------------------------------------


async def test_only_the_newest_turns_of_an_app_and_thread_are_kept(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=Retention(turns=2, days=90)) as store:
        for number in range(4):
            for app, thread in ((MEALS, "a"), (MEALS, None), (GUEST, "a")):
                await store.record(turn(f"{number} {app} {thread}", app=app, thread=thread))
        expected = [f"{n} {who}" for n in (3, 2) for who in ("guest a", "meals None", "meals a")]
        assert await queries(store) == expected
    assert len(sealed_rows(tmp_path)) == 6


async def test_old_turns_go_when_one_is_written_and_at_the_start(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.record(turn("old", at=NOW))
        await store.record(turn("new", at=NOW + 80 * DAY, app=GUEST))
        assert await queries(store) == ["new", "old"]
        await store.record(turn("newer", at=NOW + 90 * DAY + 1))
        assert await queries(store) == ["newer", "new"]
    async with opened(tmp_path, now=NOW + 170 * DAY + 1) as store:
        assert await queries(store) == ["newer"]
    assert len(sealed_rows(tmp_path)) == 1


async def test_zero_turns_keeps_nothing_and_removes_what_was_kept(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.record(turn("before"))
    async with opened(tmp_path, retention=Retention(turns=0, days=90)) as store:
        assert await queries(store) == []
        await store.record(turn("after"))
        assert await queries(store) == []
    assert sealed_rows(tmp_path) == []


async def test_changed_retention_holds_from_the_next_write_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for number in range(3):
            await store.record(turn(str(number)))
        store.retain(Retention(turns=1, days=90))
        await store.record(turn("3"))
        assert await queries(store) == ["3"]


# --- forgetting ---------------------------------------------------------------------------------


async def test_forgets_by_number_by_app_by_thread_and_everything(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for query, app, thread in (
            ("1", MEALS, None),
            ("2", MEALS, "a"),
            ("3", MEALS, "b"),
            ("4", GUEST, "a"),
            ("5", GUEST, None),
            ("6", MEALS, None),
        ):
            await store.record(turn(query, app=app, thread=thread))
        assert await store.forget([1, 3, 99]) == 2
        assert await queries(store) == ["6", "5", "4", "2"]
        assert await store.forget_app(MEALS, "a") == 1
        assert await queries(store) == ["6", "5", "4"]
        assert await store.forget_app(GUEST) == 2
        assert await queries(store) == ["6"]
        assert await store.thread(GUEST, "a") == ()
        assert await store.turn(4) is None
        assert await store.forget_all() == 1
        assert await store.forget_all() == 0
    async with opened(tmp_path) as store:
        assert await queries(store) == []


@pytest.mark.parametrize("words", [1, 2000], ids=["one block", "many pages"])
async def test_nothing_of_a_forgotten_turn_is_left_in_any_file(tmp_path: Path, words: int) -> None:
    async with opened(tmp_path) as store:
        await store.record(turn("kept", "So."))
        await store.record(turn(MARKER, MARKER * words))
        kept, planted = sealed_rows(tmp_path)
        pieces = [planted[start : start + 40] for start in range(0, len(planted) - 40, 500)]
        before = on_disk(tmp_path)
        assert all(piece in before for piece in pieces), "the scan finds what is there"
        assert await store.forget([2]) == 1
        after = on_disk(tmp_path)
        assert not any(piece in after for piece in pieces)
        assert kept[:40] in after
    assert not any(piece in on_disk(tmp_path) for piece in pieces)


async def test_number_of_a_forgotten_turn_is_not_used_again(tmp_path: Path) -> None:
    """Else its old row, put back from a copy, would stand for the new one."""
    async with opened(tmp_path) as store:
        await store.record(turn("1"))
        await store.record(turn("2"))
        await store.forget_all()
    async with opened(tmp_path) as store:
        await store.record(turn("3"))
        assert [number for number, _ in await store.listing(None, None, 9)] == [3]


# --- sealing and damage -------------------------------------------------------------------------


async def test_file_shows_nothing_of_a_turn(tmp_path: Path) -> None:
    told = turn(f"query {MARKER}", f"answer {MARKER}", thread="evening")
    async with opened(tmp_path) as store:
        await store.record(told)
        content = on_disk(tmp_path)
        for word in (MARKER, "evening", "meals", "food", "quick_meal"):
            assert word.encode() not in content
        assert b"CREATE TABLE turns" in content, "the scan finds what is readable"


async def test_size_of_a_row_tells_blocks_only(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for length in (0, 1, 500, 1500):
            await store.record(turn("q", "a" * length))
    assert [len(row) for row in sealed_rows(tmp_path)] == [1052, 1052, 1052, 2076]


async def test_no_byte_of_a_sealed_turn_can_be_changed_unnoticed(tmp_path: Path) -> None:
    notices: list[str] = []
    async with opened(tmp_path) as store:
        await store.record(turn(MARKER))
    (good,) = sealed_rows(tmp_path)
    async with opened(tmp_path, notices) as store:
        with closing(sqlite3.connect(tmp_path / HISTORY_FILE, isolation_level=None)) as thief:
            thief.execute("PRAGMA synchronous=OFF")
            for index in range(len(good)):
                flipped = bytearray(good)
                flipped[index] ^= 1
                thief.execute("UPDATE turns SET sealed = ?", (bytes(flipped),))
                notices.clear()
                assert await store.turn(1) is None
                assert len(notices) == 1
                assert MARKER not in notices[0]
            thief.execute("UPDATE turns SET sealed = ?", (good,))
        assert await store.turn(1) == turn(MARKER)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE turns SET sealed = zeroblob(0) WHERE number = 2",
        "UPDATE turns SET sealed = zeroblob(1052) WHERE number = 2",
        "UPDATE turns SET sealed = (SELECT sealed FROM turns WHERE number = 1) WHERE number = 2",
        "UPDATE turns SET number = -2 WHERE number = 2",
        "UPDATE turns SET number = 7 WHERE number = 2",
    ],
    ids=["emptied", "zeros", "another row", "below zero", "moved"],
)
async def test_damaged_turn_counts_as_missing_and_the_owner_is_told(
    tmp_path: Path, damage: str
) -> None:
    async with opened(tmp_path) as store:
        for number in range(1, 4):
            await store.record(turn(str(number), thread="a"))
    changed(tmp_path, damage)
    notices: list[str] = []
    async with opened(tmp_path, notices) as store:
        assert len(notices) == 1
        assert "cannot be opened" in notices[0]
        assert await queries(store) == ["3", "1"]
        assert [kept.query for kept in await store.thread(MEALS, "a")] == ["1", "3"]
        await store.record(turn("4"))
        assert await queries(store) == ["4", "3", "1"]
        assert await store.forget_all() == 4, "the damaged one goes as well"
    assert sealed_rows(tmp_path) == []


@pytest.mark.parametrize(
    "other",
    [
        samples.keys(b"T"),
        replace(samples.keys(), history=samples.keys().memory),
        replace(samples.keys(), history_key_id=b"x" * 16),
    ],
    ids=["another store", "another key", "another key id"],
)
async def test_turns_of_another_store_or_key_do_not_open(tmp_path: Path, other: StoreKeys) -> None:
    async with opened(tmp_path) as store:
        await store.record(turn())
    notices: list[str] = []
    async with opened(tmp_path, notices, keys=other) as store:
        assert await queries(store) == []
    assert len(notices) == 1


async def test_file_that_is_damaged_anywhere_never_stops_the_daemon(tmp_path: Path) -> None:
    """Whatever is left is what was recorded, word for word."""
    async with opened(tmp_path) as store:
        for number in range(3):
            await store.record(turn(str(number)))
    good = (tmp_path / HISTORY_FILE).read_bytes()
    for index in range(0, len(good), STEP):
        flipped = bytearray(good)
        flipped[index] ^= 0xFF
        (tmp_path / HISTORY_FILE).write_bytes(flipped)
        async with opened(tmp_path, []) as store:
            assert set(await queries(store)) <= {"0", "1", "2", "3"}
            await store.record(turn("3"))
            assert set(await queries(store)) <= {"0", "1", "2", "3"}
        for end in ("-wal", "-shm"):
            (tmp_path / f"{HISTORY_FILE}{end}").unlink(missing_ok=True)


async def test_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / HISTORY_FILE).write_bytes(b"no database at all " * 300)
    notices: list[str] = []
    async with opened(tmp_path, notices) as store:
        assert "put the file back" in notices[0]
        await store.record(turn())
        assert (await queries(store), await store.thread(MEALS, "a")) == ([], ())
        with pytest.raises(IoFailed):
            await store.forget_all()
    assert (tmp_path / HISTORY_FILE).read_bytes().startswith(b"no database at all")


async def test_missing_file_is_made_anew_and_the_owner_is_told(tmp_path: Path) -> None:
    notices: list[str] = []
    async with opened(tmp_path, notices) as store:
        assert "was missing" in notices[0]
        await store.record(turn())
        assert await queries(store) == ["Dinner?"]
    assert (tmp_path / HISTORY_FILE).stat().st_mode & 0o777 == 0o600


async def test_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path):
        pass
    changed(tmp_path, "PRAGMA user_version=2")
    with pytest.raises(Unusable, match="newer version"):
        async with opened(tmp_path):
            pass


async def test_turn_that_cannot_be_written_is_a_notice_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notices: list[str] = []

    async def full(_writer: Writer, _work: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async with opened(tmp_path) as store:
        await store.record(turn("before"))
    async with opened(tmp_path, notices) as store:
        with monkeypatch.context() as patch:
            patch.setattr(Writer, "run", full)
            await store.record(turn(MARKER))
            with pytest.raises(IoFailed, match="nothing was forgotten"):
                await store.forget_all()
        (notice,) = notices
        assert "check the disk" in notice
        assert MARKER not in notice
        await store.record(turn("after"))
        assert await queries(store) == ["after", "before"]


# --- telling what is gone -----------------------------------------------------------------------


async def test_tells_whose_turns_the_owner_forgot(tmp_path: Path) -> None:
    told: list[TurnsGone] = []
    async with opened(tmp_path) as store:
        store.watch(told.append)
        for app, thread in ((MEALS, "a"), (MEALS, "b"), (MEALS, None), (GUEST, "a")):
            await store.record(turn(app=app, thread=thread))
        assert told == []
        await store.forget([1, 99])
        await store.forget([99])
        await store.forget_app(MEALS)
        await store.forget_all()
    assert told == [
        TurnsGone(frozenset({(MEALS, "a")}), by_owner=True),
        TurnsGone(frozenset({(MEALS, "b"), (MEALS, None)}), by_owner=True),
        TurnsGone(None, by_owner=True),
    ]


@pytest.mark.parametrize(("most", "expected"), [(2, 1), (0, 3)])
async def test_tells_whose_turns_are_too_many(tmp_path: Path, most: int, expected: int) -> None:
    told: list[TurnsGone] = []
    async with opened(tmp_path, retention=Retention(turns=most, days=90)) as store:
        store.watch(told.append)
        for _ in range(3):
            await store.record(turn(thread="a"))
    assert told == [TurnsGone(frozenset({(MEALS, "a")}), by_owner=False)] * expected


async def test_tells_nothing_where_nothing_could_be_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[TurnsGone] = []
    async with opened(tmp_path) as store:
        await store.record(turn(thread="a"))
        store.watch(told.append)
        monkeypatch.setattr("tactfuld.store.history._DELETE", "no statement")
        with pytest.raises(IoFailed):
            await store.forget([1])
        assert told == []
        assert await queries(store) == ["Dinner?"]
