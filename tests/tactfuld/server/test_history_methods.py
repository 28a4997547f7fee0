"""What the owner sees of released history and forgets of it, over the real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fakes.daemon_site import GUEST, MEALS, Site, hosting_apps, listening, site
from tests.fakes.fixed_randomness import HighestTicket
from tests.fakes.recording_engine import RecordingEngine

from tactful.app_client import AppClient
from tactful.errors import InvalidParams, NotFound, UnknownMethod
from tactful.owner_client import OwnerClient
from tactful.owner_wire import HistoryView, OwnerMethod
from tactful.wire import Ask, Empty
from tactful_core.values import AppId

LONG = " ".join(str(number) for number in range(40))


@dataclass(frozen=True, slots=True)
class Office:
    """The owner's connection and the daemon behind it."""

    at: Site
    owner: OwnerClient

    async def kept(self, app: str | None = None, thread: str | None = None) -> list[int]:
        return [turn.id for turn in (await self.owner.history_list(app, thread)).turns]


async def drop(_piece: str) -> None:
    """Nobody listens."""


@asynccontextmanager
async def office(folder: Path) -> AsyncIterator[Office]:
    """A daemon that was asked: by meals alone, in thread a, in thread b; by guest in thread a."""
    async with (
        site(folder, engine=RecordingEngine(LONG), randomness=HighestTicket()) as at,
        hosting_apps(at) as host,
        listening(at, host),
        OwnerClient.connect(at.profile) as owner,
    ):
        turns: tuple[tuple[AppId, str | None], ...] = (
            (MEALS, None),
            (MEALS, "a"),
            (MEALS, "b"),
            (GUEST, "a"),
        )
        for number, (app, thread) in enumerate(turns, start=1):
            question = Ask(query=f"Question {number}?", slots=("food",), thread=thread)
            await at.gate.ask(app, question, drop)
        yield Office(at, owner)


async def test_list_has_turns_newest_first_with_the_beginning_of_the_answer(
    profile_dir: Path,
) -> None:
    async with office(profile_dir) as here:
        found = (await here.owner.history_list()).turns
        assert [turn.id for turn in found] == [4, 3, 2, 1]
        newest, oldest = found[0], found[-1]
        assert (newest.app, newest.thread, newest.query) == ("guest", "a", "Question 4?")
        assert newest.beginning == "0 1 2 3 4 5 6 7 8 9 10 11 …"
        assert newest.complete
        assert oldest.views == (HistoryView(slot="food", view="quick_meal", fallback=False),)
        assert newest.views == (HistoryView(slot="food", view="generic", fallback=True),)


async def test_list_is_of_all_apps_of_one_or_of_a_thread_and_bounded(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        assert await here.kept("meals") == [3, 2, 1]
        assert await here.kept("meals", "a") == [2]
        assert await here.kept("guest", "b") == []
        newest = (await here.owner.history_list(limit=1)).turns
        assert [turn.id for turn in newest] == [4]
        with pytest.raises(InvalidParams, match="name the app"):
            await here.owner.history_list(thread="a")


async def test_show_has_the_whole_turn(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        turn = await here.owner.history_show(2)
        assert (turn.app, turn.thread, turn.query) == ("meals", "a", "Question 2?")
        assert turn.answer == LONG
        with pytest.raises(NotFound, match="no turn 99"):
            await here.owner.history_show(99)


async def test_forgetting_takes_what_is_named_and_leaves_the_ledgers(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        spent = here.at.spent()
        assert min(spent.values()) > 0
        assert await here.owner.history_forget((1, 99)) == 1
        assert await here.kept() == [4, 3, 2]
        assert await here.owner.history_forget(app="meals", thread="b") == 1
        assert await here.kept() == [4, 2]
        assert await here.owner.history_forget(app="guest") == 1
        assert await here.kept() == [2]
        assert await here.owner.history_forget(everything=True) == 1
        assert await here.kept() == []
        assert here.at.spent() == spent


@pytest.mark.parametrize(
    "what",
    [
        {},
        {"ids": (1,), "everything": True},
        {"ids": (1,), "app": "meals"},
        {"ids": (1,), "thread": "a"},
        {"app": "meals", "everything": True},
        {"thread": "a"},
        {"thread": "a", "everything": True},
    ],
)
async def test_what_to_forget_must_be_said_in_one_way(
    profile_dir: Path, what: dict[str, object]
) -> None:
    async with office(profile_dir) as here:
        with pytest.raises(InvalidParams, match="Nothing was forgotten"):
            await here.owner.history_forget(**what)  # type: ignore[arg-type]
        assert await here.kept() == [4, 3, 2, 1]


async def test_no_app_can_list_or_forget_what_was_asked(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        token = await asyncio.to_thread(here.at.tokens.issue, MEALS)
        async with AppClient.connect(here.at.profile, token) as app:
            for method in OwnerMethod:
                if method.startswith("history."):
                    with pytest.raises(UnknownMethod):
                        await app._peer.call(method, Empty(), Empty)
        assert await here.kept() == [4, 3, 2, 1]
