"""An outside program goes on when the daemon was restarted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fakes.daemon_site import GUEST, Site, listening, site

from tactful.agent import Agent
from tactful.errors import DaemonDown, Denied, NotAuthenticated
from tactful.outside import OutsideApp
from tactfuld.events.inbox import ItemKind


async def token_of(at: Site) -> str:
    return await asyncio.to_thread(at.tokens.issue, GUEST)


async def asked_for_ever(app: OutsideApp) -> None:
    while True:
        await app.budget()


async def test_it_connects_when_it_first_asks_and_again_after_a_restart(
    profile_dir: Path,
) -> None:
    async with site(profile_dir) as at:
        token = await token_of(at)
        async with OutsideApp.connected(at.profile, token) as app:
            async with listening(at):
                assert [slot.slot for slot in (await app.budget()).slots] == ["food"]
                assert (await app.ask("What is for dinner?")).text
            async with asyncio.TaskGroup() as group:
                waiting = group.create_task(app.vocabulary())
                await asyncio.sleep(0)
                async with listening(at):
                    assert (await waiting).slots[0].slot == "food"
                    await app.notify("Soup is on.")
                    await app.propose("I like soup.", "food")
                    assert (await app.quote("dinner?", slots=["food"])).slots
                    with pytest.raises(Denied):
                        await app.send("meals", "hello")
        assert [item.kind for item in at.inbox.items] == [ItemKind.NOTICE, ItemKind.PROPOSAL]


async def test_without_a_daemon_it_gives_up_when_its_patience_ends(profile_dir: Path) -> None:
    async with (
        site(profile_dir) as at,
        OutsideApp.connected(at.profile, await token_of(at), patience=0.0) as app,
    ):
        with pytest.raises(DaemonDown):
            await app.budget()


async def test_a_token_that_was_revoked_is_not_tried_again(profile_dir: Path) -> None:
    async with (
        site(profile_dir) as at,
        listening(at),
        OutsideApp.connected(at.profile, await token_of(at)) as app,
    ):
        await app.budget()
        await asyncio.to_thread(at.tokens.revoke, GUEST)
        at.doors.revoked(GUEST)
        with pytest.raises(NotAuthenticated):
            await asked_for_ever(app)


async def test_an_agent_takes_it_as_its_asker(profile_dir: Path) -> None:
    async with (
        site(profile_dir) as at,
        listening(at),
        OutsideApp.connected(at.profile, await token_of(at)) as app,
        asyncio.TaskGroup() as group,
    ):
        agent = Agent(app, group)
        assert [piece async for piece in agent.stream("dinner?")]
