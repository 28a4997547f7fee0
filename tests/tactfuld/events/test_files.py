"""Granted folders: who hears of which change, and of which nobody may."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from watchfiles import Change

from tactful.wire import EventKind, FileChange
from tactful_core.values import AppId
from tactfuld.events.files import MOST_AT_ONCE, FolderWatch, Told, Watched, told, watched
from tactfuld.events.grants import EventGrant, EventGrants
from tactfuld.journal import LogLevel, open_journal

MEALS, GUEST = AppId("meals"), AppId("guest")
FILE = frozenset({EventKind.FILE})


def grants(**folders: Path) -> EventGrants:
    return {AppId(app): EventGrant(kinds=FILE, folders=(path,)) for app, path in folders.items()}


def test_only_folders_that_are_there_and_granted_are_looked_after(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = watched(grants(meals=tmp_path / "a", guest=tmp_path / "missing"), ())
    assert found == (Watched(MEALS, tmp_path / "a", tmp_path / "a"),)
    assert watched(grants(meals=tmp_path / "link"), ())[0].real == tmp_path / "a"
    silent = {MEALS: EventGrant(kinds=frozenset({EventKind.TIMER}), folders=(tmp_path / "a",))}
    assert watched(silent, ()) == ()


def test_no_folder_that_shows_what_happens_to_memory_is_looked_after(tmp_path: Path) -> None:
    data = tmp_path / "home" / "data"
    (data / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(data)
    for folder in (tmp_path / "home", data, data / "inner", tmp_path / "link", tmp_path):
        assert watched(grants(meals=folder), (data,)) == (), folder
    (tmp_path / "other").mkdir()
    assert watched(grants(meals=tmp_path / "other"), (data,)) != ()


def test_a_change_is_told_to_those_whose_folder_it_is_in_under_their_name_for_it() -> None:
    folders = (
        Watched(MEALS, Path("/srv/recipes"), Path("/srv/recipes")),
        Watched(GUEST, Path("/home/me/link"), Path("/srv")),
    )
    changes = [
        (Change.added, "/srv/recipes/soup.md"),
        (Change.deleted, "/srv/list"),
        (Change.modified, "/srv/recipes.md"),
    ]
    assert sorted(told(changes, folders, ()), key=str) == [
        Told(GUEST, "/home/me/link/list", FileChange.DELETED),
        Told(GUEST, "/home/me/link/recipes.md", FileChange.MODIFIED),
        Told(GUEST, "/home/me/link/recipes/soup.md", FileChange.ADDED),
        Told(MEALS, "/srv/recipes/soup.md", FileChange.ADDED),
    ]


def test_what_is_written_in_the_profile_is_told_to_nobody() -> None:
    """Also where a folder of the profile came to lie in a granted one while it was looked after."""
    folders = (Watched(MEALS, Path("/home/me"), Path("/home/me")),)
    changes = [(Change.modified, "/home/me/data/memory.db"), (Change.added, "/home/me/list")]
    assert list(told(changes, folders, (Path("/home/me/data"),))) == [
        Told(MEALS, "/home/me/list", FileChange.ADDED)
    ]


def test_many_changes_at_once_are_told_as_one() -> None:
    folders = (Watched(MEALS, Path("/srv"), Path("/srv")),)
    changes = [(Change.added, f"/srv/{number}") for number in range(MOST_AT_ONCE + 1)]
    assert list(told(changes, folders, ())) == [Told(MEALS, "/srv", FileChange.MANY)]
    assert len(list(told(changes[1:], folders, ()))) == MOST_AT_ONCE


@pytest.mark.parametrize(
    ("changes", "told_as"),
    [
        ((Change.added, Change.modified), FileChange.ADDED),
        ((Change.modified, Change.deleted), FileChange.DELETED),
        ((Change.added, Change.deleted), FileChange.MODIFIED),
        ((Change.modified,), FileChange.MODIFIED),
    ],
)
def test_several_changes_of_one_file_are_told_as_one(
    changes: tuple[Change, ...], told_as: FileChange
) -> None:
    folders = (Watched(MEALS, Path("/srv"), Path("/srv")),)
    found = told([(change, "/srv/a") for change in changes], folders, ())
    assert [each.change for each in found] == [told_as]


class Listener:
    """What was told, and a wait for it."""

    def __init__(self) -> None:
        self.told: list[tuple[AppId, str]] = []
        self._news = asyncio.Event()

    def tell(self, app: AppId, path: str, _change: FileChange) -> None:
        self.told.append((app, path))
        self._news.set()

    async def until(self, app: AppId, path: Path) -> None:
        while (app, str(path)) not in self.told:
            self._news.clear()
            await self._news.wait()


@asynccontextmanager
async def watching(held: list[EventGrants], private: Path) -> AsyncIterator[Listener]:
    listener = Listener()
    watch = FolderWatch(
        lambda: held[-1], listener.tell, (private,), open_journal(io.StringIO(), LogLevel("debug"))
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch.run())
        yield listener
        watch.look_again()
        task.cancel()


async def test_changes_of_real_files_are_told(tmp_path: Path) -> None:
    """The folder is written again and again until it is heard: when watching begins is not told."""
    folder, private = tmp_path / "recipes", tmp_path / "profile"
    folder.mkdir()
    private.mkdir()
    async with watching([grants(meals=folder)], private) as listener, asyncio.TaskGroup() as group:

        async def write() -> None:
            number = 0
            while True:
                number += 1
                await asyncio.to_thread((folder / "soup.md").write_text, str(number))
                await asyncio.to_thread((private / "memory.db").write_text, str(number))
                await asyncio.sleep(0.2)

        writing = group.create_task(write())
        await listener.until(MEALS, folder / "soup.md")
        writing.cancel()
    assert {path for _, path in listener.told} == {str(folder / "soup.md")}
