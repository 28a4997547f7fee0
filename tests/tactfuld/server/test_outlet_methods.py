"""What an app may tell its owner and other apps, and that no reply tells what became of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.daemon_site import GUEST, MEALS, NOBODY, Site, dialled, listening, site
from tests.fakes.raw_connection import RawConnection

from tactful_core.values import AppId
from tactfuld.events.inbox import ItemKind
from tactfuld.server.outlet_methods import NOTICES, PROPOSALS, TEXTS

MONEY = AppId("money")


async def admitted(at: Site, raw: RawConnection, app: AppId = GUEST) -> None:
    token = await asyncio.to_thread(at.tokens.issue, app)
    assert (await raw.ask("in", "authenticate", token=token))["result"] == {}


def code(reply: dict[str, Any]) -> str:
    return str(reply["error"]["data"]["code"])


async def test_a_notice_reaches_the_inbox(tmp_path: Path) -> None:
    async with site(tmp_path) as at, listening(at), dialled(at.profile.app_socket) as raw:
        await admitted(at, raw)
        assert (await raw.ask(1, "notify", text="Soup is on.", title="Dinner"))["result"] == {}
        (item,) = at.inbox.items
        assert (item.kind, item.app, item.title, item.text, item.slot) == (
            ItemKind.NOTICE,
            GUEST,
            "Dinner",
            "Soup is on.",
            None,
        )


async def test_a_proposal_gets_the_same_reply_whatever_becomes_of_it(tmp_path: Path) -> None:
    async with site(tmp_path) as at, listening(at), dialled(at.profile.app_socket) as raw:
        await admitted(at, raw)
        replies = [await raw.ask(1, "propose", text="I like soup.", slot="food")]
        replies.append(await raw.ask(1, "propose", text="I like soup.", slot="food"))
        at.inbox.remove({1})
        replies.append(await raw.ask(1, "propose", text="I like soup.", slot="food"))
        replies += [
            await raw.ask(1, "propose", text=str(number), slot="food")
            for number in range(PROPOSALS.burst * 2)
        ]
        assert all(reply == replies[0] for reply in replies)
        assert replies[0]["result"] == {}
        assert len(at.inbox.items) == PROPOSALS.burst - 2
        assert {item.slot for item in at.inbox.items} == {"food"}


async def test_a_proposal_is_about_a_granted_slot(tmp_path: Path) -> None:
    async with site(tmp_path) as at, listening(at), dialled(at.profile.app_socket) as raw:
        await admitted(at, raw)
        for slot in ("finance", "nowhere"):
            assert code(await raw.ask(1, "propose", text="x", slot=slot)) == "denied"
        assert at.inbox.items == ()


async def test_too_many_notices_at_a_time_are_refused(tmp_path: Path) -> None:
    async with site(tmp_path) as at, listening(at), dialled(at.profile.app_socket) as raw:
        await admitted(at, raw)
        for number in range(NOTICES.burst):
            assert (await raw.ask(number, "notify", text=str(number)))["result"] == {}
        assert code(await raw.ask("last", "notify", text="one too many")) == "busy"
        assert len(at.inbox.items) == NOTICES.burst


async def test_a_text_goes_to_an_app_that_may_hear_it_and_to_no_other(tmp_path: Path) -> None:
    async with site(tmp_path) as at, listening(at), dialled(at.profile.app_socket) as raw:
        await admitted(at, raw)
        at.switchboard.pairs.add((MEALS, GUEST))
        assert (await raw.ask(1, "send", app="meals", text="soup?"))["result"] == {}
        for app in ("money", "guest", "nobody", "stranger"):
            assert code(await raw.ask(2, "send", app=app, text="soup?")) == "denied"
        assert at.switchboard.texts == [(GUEST, MEALS, "soup?")]
        for number in range(TEXTS.burst - 1):
            assert (await raw.ask(number, "send", app="meals", text="!"))["result"] == {}
        assert code(await raw.ask(3, "send", app="meals", text="!")) == "busy"


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("notify", {"text": "x"}),
        ("propose", {"text": "x", "slot": "food"}),
        ("send", {"app": "meals", "text": "x"}),
        ("vocabulary", {}),
    ],
)
async def test_an_app_that_is_granted_nothing_is_refused(
    tmp_path: Path, method: str, parameters: dict[str, str]
) -> None:
    async with site(tmp_path) as at, listening(at), dialled(at.profile.app_socket) as raw:
        await admitted(at, raw, NOBODY)
        at.switchboard.pairs.add((MEALS, NOBODY))
        assert code(await raw.ask(1, method, **parameters)) == "denied"
        assert at.inbox.items == ()
        assert at.switchboard.texts == []


async def test_the_vocabulary_is_that_of_granted_slots(tmp_path: Path) -> None:
    async with site(tmp_path) as at, listening(at), dialled(at.profile.app_socket) as raw:
        await admitted(at, raw)
        result = (await raw.ask(1, "vocabulary"))["result"]
        assert [slot["slot"] for slot in result["slots"]] == ["food"]
        (food,) = [slot for slot in at.promises.layout.slots if slot.name == "food"]
        assert [(view["view"], view["guidance"]) for view in result["slots"][0]["views"]] == [
            (view.name, view.guidance) for view in food.vocabulary
        ]
        assert set(result) == {"slots", "policy"}
        assert set(result["slots"][0]["views"][0]) == {"view", "guidance"}
