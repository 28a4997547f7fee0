"""Events in a real daemon: of files, to an app that dies meanwhile, while memory changes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.fakes.app_site import install_app
from tests.fakes.daemon_site import POLICY
from tests.model_fixture import embedded_model
from tests.tactfuld.test_lifecycle import profile, running, until_loaded

from tactful.owner_client import OwnerClient
from tactful.profile import Profile
from tactful.wire import FileChange

__all__ = ["embedded_model", "profile"]

WATCHER = """
import os

from tactful import Agent, Event, EventKind, Manifest, hookimpl


@hookimpl
def tactful_manifest():
    return Manifest(name="watcher", title="Watcher", version="1", events=(EventKind.FILE,))


@hookimpl
async def tactful_on_event(event, agent):
    told = await agent.state.get("told", [])
    await agent.state.set("told", [*told, [event.id, event.path]])
    if not told:
        os._exit(9)
    await agent.notify(f"{event.path} was {event.change}.")
"""


@pytest.mark.timeout(180)
async def test_a_file_is_told_again_after_the_app_died_and_memory_is_never_told(
    profile: Profile,
    embedded_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert embedded_model.exists()
    monkeypatch.setattr("tactfuld.events.bus.LOOK_SECONDS", 0.2)
    recipes, sources = tmp_path / "recipes", tmp_path / "sources"
    recipes.mkdir()
    sources.mkdir()
    monkeypatch.syspath_prepend(str(sources))
    install_app(sources, "watcher", WATCHER)
    grant = f"  watcher: {{slots: [food], events: [file], folders: {{{recipes}: read}}}}\n"
    profile.policy_file.write_text(POLICY + grant)

    async with running(profile), OwnerClient.connect(profile) as owner:
        await until_loaded(owner)
        files = 0
        while not await owner.events_tail(seconds=1):
            files += 1
            await asyncio.to_thread((recipes / f"soup{files}.md").write_text, "lentils")
        for number in range(3):
            position = (await owner.remember(f"note {number}", "food.diet")).positions[0]
            await owner.memory_edit(position, f"note {number}, edited")
            await owner.memory_forget((position,))
        soup = (await owner.events_tail())[0].about
        while not any(soup in item.text for item in await owner.inbox()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # the owner is told no other way
        found = await owner.events_tail()
        notices = [item.text for item in await owner.inbox()]
    first = [each for each in found if each.id == found[0].id]
    assert [each.fate for each in first] == ["waiting", "again", "handled"]
    written = {str(recipes / f"soup{number + 1}.md") for number in range(files)}
    assert {each.about for each in found} <= written
    assert {(each.app, each.kind) for each in found} == {("watcher", "file")}
    assert notices[0] == f"{soup} was {FileChange.ADDED}."
    state = profile.state / "apps" / "watcher" / "state.json"
    told = json.loads(await asyncio.to_thread(state.read_text))["told"]
    assert told[:2] == [[found[0].id, soup]] * 2
