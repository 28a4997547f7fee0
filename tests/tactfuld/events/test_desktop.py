"""Notices on the desktop: what is shown, how often, and only if the owner wants it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.fakes.manual_clock import ManualClock

from tactful_core.values import AppId, SlotName
from tactfuld.events import desktop
from tactfuld.events.desktop import AT_MOST, LONGEST, Desktop, command
from tactfuld.events.inbox import Item, ItemKind

NOTICE = Item(1, ItemKind.NOTICE, AppId("meals"), 0, "-Dinner", "<b>Soup</b>\x1b[2J is on.")
PROPOSAL = Item(2, ItemKind.PROPOSAL, AppId("meals"), 0, "", "I am ill.", SlotName("health"))


def test_no_text_of_an_app_is_an_option_or_markup() -> None:
    assert command(NOTICE, "linux") == [
        *("notify-send", "--app-name=tactful", "--"),
        *("meals: -Dinner", "&lt;b&gt;Soup&lt;/b&gt;[2J is on."),
    ]
    assert command(NOTICE, "darwin")[-2:] == ["meals: -Dinner", "<b>Soup</b>[2J is on."]
    assert len(command(replace(NOTICE, text="x" * 1000), "darwin")[-1]) == LONGEST


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_of_a_proposal_only_that_there_is_one_is_shown(platform: str) -> None:
    assert "ill" not in " ".join(command(PROPOSAL, platform))


async def test_it_shows_while_it_is_wanted_and_not_too_much() -> None:
    shown: list[list[str]] = []
    wanted = [False]
    async with asyncio.TaskGroup() as group:
        screen = Desktop(group, lambda: wanted[0], ManualClock(), shown.append)
        screen.shown(NOTICE)
        wanted[0] = True
        for _ in range(AT_MOST.burst + 3):
            screen.shown(NOTICE)
    assert len(shown) == AT_MOST.burst


def test_a_desktop_that_is_not_there_is_nobodys_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    desktop._run(["notify-send", "hello"])
