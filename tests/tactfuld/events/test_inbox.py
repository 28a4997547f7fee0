"""The inbox: what is kept of what apps say, and for how long."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from pathlib import Path

import pytest

from tactful_core.values import AppId, SlotName
from tactfuld.events import inbox as inbox_module
from tactfuld.events.inbox import (
    INBOX_FILE,
    MOST_ITEMS,
    Contents,
    Inbox,
    Item,
    ItemKind,
    with_item,
    without,
)
from tactfuld.journal import LogLevel, open_journal

MEALS, MONEY = AppId("meals"), AppId("money")
NOTICE = Item(0, ItemKind.NOTICE, MEALS, 1000, "Dinner", "Soup is on.")
PROPOSAL = Item(0, ItemKind.PROPOSAL, MEALS, 1001, "", "I like soup.", SlotName("food"))


def filled(app: AppId, count: int, before: Contents | None = None) -> Contents:
    contents = before or Contents()
    for number in range(count):
        contents = with_item(contents, replace(NOTICE, app=app, text=str(number)))
    return contents


def test_ids_go_on_also_after_items_are_gone() -> None:
    contents = without(filled(MEALS, 3), {2, 3})
    assert [item.id for item in with_item(contents, PROPOSAL).items] == [1, 4]


def test_the_oldest_of_an_app_gives_way_and_none_of_another() -> None:
    contents = filled(MEALS, MOST_ITEMS + 5, filled(MONEY, 2))
    texts = [item.text for item in contents.items if item.app == MEALS]
    assert texts == [str(number) for number in range(5, MOST_ITEMS + 5)]
    assert [item.id for item in contents.items if item.app == MONEY] == [1, 2]


def test_what_is_there_word_for_word_is_not_added_again() -> None:
    contents = with_item(Contents(), NOTICE)
    assert with_item(contents, replace(NOTICE, at=2000)) is contents
    assert len(with_item(contents, replace(NOTICE, app=MONEY)).items) == 2
    assert len(with_item(contents, replace(NOTICE, title="Lunch")).items) == 2


def opened(folder: Path, shown: list[Item] | None = None) -> Inbox:
    journal = open_journal(io.StringIO(), LogLevel("debug"))
    return Inbox.load(folder / INBOX_FILE, journal, (shown if shown is not None else []).append)


async def run_until_written(inbox: Inbox) -> None:
    async with asyncio.TaskGroup() as group:
        running = group.create_task(inbox.run())
        await asyncio.sleep(0)
        running.cancel()


async def test_what_was_put_in_is_there_after_a_restart(tmp_path: Path) -> None:
    shown: list[Item] = []
    inbox = await asyncio.to_thread(opened, tmp_path, shown)
    inbox.add(NOTICE)
    inbox.add(PROPOSAL)
    inbox.add(PROPOSAL)
    assert inbox.remove({1, 99}) == (1,)
    await run_until_written(inbox)
    again = await asyncio.to_thread(opened, tmp_path)
    assert again.items == (replace(PROPOSAL, id=2),) == inbox.items
    assert shown == [replace(NOTICE, id=1), replace(PROPOSAL, id=2)]
    assert (tmp_path / INBOX_FILE).stat().st_mode & 0o777 == 0o600
    again.add(NOTICE)
    assert again.items[-1].id == 3


async def test_what_cannot_be_written_stays_until_the_daemon_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(inbox_module, "replace_file", full)
    inbox = await asyncio.to_thread(opened, tmp_path)
    inbox.add(NOTICE)
    await run_until_written(inbox)
    assert [item.text for item in inbox.items] == ["Soup is on."]
    assert not (tmp_path / INBOX_FILE).exists()


@pytest.mark.parametrize("content", [b"{", b"{}", b'{"last":1,"items":[{"id":0}]}', b"\xff"])
def test_a_damaged_file_is_put_aside(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / INBOX_FILE
    file.write_bytes(content)
    assert opened(tmp_path).items == ()
    assert file.with_suffix(".damaged").read_bytes() == content
