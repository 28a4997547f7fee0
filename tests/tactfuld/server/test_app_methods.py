"""What an app may call, and that no reply of any kind tells it what it must not know."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.fakes.daemon_site import (
    GUEST,
    MEALS,
    PROMISES,
    Site,
    dialled,
    hosting_apps,
    listening,
    parts_of,
    site,
)
from tests.fakes.raw_connection import RawConnection
from tests.fakes.recording_engine import RecordingEngine

from tactful.call import Call
from tactful.errors import Denied
from tactful.owner_wire import OwnerMethod
from tactful.wire import AppMethod, Ask
from tactful_core.allocation import Standing
from tactful_core.layout import Attribute, Layout, Shelf, Slot
from tactful_core.promises import Promises
from tactful_core.values import AttributeName, ShelfName, units_from_epsilon
from tactfuld.inference.engine import EngineState
from tactfuld.inference.errors import ModelError
from tactfuld.inference.fake_embedder import HashEmbedder
from tactfuld.inference.prompt import Prompt
from tactfuld.scorer import EmbeddingScorer
from tactfuld.server.app_methods import app_methods
from tactfuld.server.owner_methods import owner_methods
from tactfuld.server.session import OWNER, Caller
from tactfuld.store.ledger import LEDGER_FILE

Message = dict[str, Any]

HIDDEN = ("zebra", "quagga", "okapi", "tapir", "1.875", "epsilon", "ε", "5f2dd1gest")
"""Words that stand in the policy below where no app may see them; and what it is counted in."""


def hidden_slot(slot: Slot) -> Slot:
    """The slot with marked shelves, supports and examples."""
    shelves = tuple(
        Shelf(ShelfName(f"{slot.name}.okapi{n}"), shelf.positions, shelf.tokens)
        for n, shelf in enumerate(slot.shelves)
    )
    views = tuple(
        replace(view, supports=("I am a tapir.",), examples=("Why a tapir?",))
        for view in slot.vocabulary
    )
    return replace(slot, shelves=shelves, vocabulary=views)


def hidden_promises() -> Promises:
    """The demo's promises with a word of `HIDDEN` for everything that apps must not see."""
    slots = tuple(hidden_slot(slot) for slot in PROMISES.layout.slots)
    names = (AttributeName("zebra"), AttributeName("quagga"))
    attributes = tuple(
        Attribute(name, attribute.positions, units_from_epsilon("1.875"))
        for name, attribute in zip(names, PROMISES.layout.attributes, strict=True)
    )
    return replace(PROMISES, layout=Layout(slots, attributes), digest="5f2dd1gest")


class FailingScorer(EmbeddingScorer):
    """A defect that shows everything in its message."""

    def __init__(self) -> None:
        super().__init__(HashEmbedder())

    async def relevance(self, query: str, slot: Slot) -> tuple[float, ...]:
        raise RuntimeError(f"{slot} {HIDDEN}")


def broken(_prompt: Prompt) -> str:
    raise ModelError(f"llama.cpp failed on {HIDDEN}")


@asynccontextmanager
async def app(at: Site) -> AsyncIterator[RawConnection]:
    """A connection of `guest`, over the real socket."""
    token = await asyncio.to_thread(at.tokens.issue, GUEST)
    async with listening(at), dialled(at.profile.app_socket) as raw:
        assert (await raw.ask("in", "authenticate", token=token))["result"] == {}
        yield raw


async def heard(raw: RawConnection, **params: object) -> list[Message]:
    """Everything that comes back because of one `ask`."""
    await raw.say(id="q", method="ask", params={"query": "q", **params})
    messages = [await raw.hear()]
    while "id" not in messages[-1]:
        messages.append(await raw.hear())
    return messages


def assert_tells_nothing(messages: list[Message]) -> None:
    text = json.dumps(messages, ensure_ascii=False)
    for word in HIDDEN:
        assert word not in text
    assert not re.search(r"\bcaps?\b|\bscores?\b|\battributes?\b|\bpositions?\b", text), text


# --- the tables ---------------------------------------------------------------------------------


async def test_tables_of_apps_and_the_owner_share_nothing_but_authenticate(
    profile_dir: Path,
) -> None:
    async with site(profile_dir) as at, hosting_apps(at) as host:
        apps, owner = set(at.methods), set(owner_methods(parts_of(at, host)))
    assert not apps & owner
    assert set(AppMethod) & set(OwnerMethod) == {"authenticate"}
    assert apps == set(AppMethod) - {"authenticate"}
    assert owner == set(OwnerMethod) - {"authenticate", "lock", "unlock", "reload"}


async def test_owner_does_not_ask_as_an_app(profile_dir: Path) -> None:
    """The tables keep the owner out; so does the method itself."""
    async with site(profile_dir) as at:
        method = app_methods(at.gate)[AppMethod.ASK]
        with pytest.raises(Denied, match="owner's socket"):
            await method.run(Caller(OWNER, cast(Call, None)), Ask(query="q"))
        assert at.engine.prompts == []


# --- replies ------------------------------------------------------------------------------------


async def test_charged_and_refused_turns_look_alike(profile_dir: Path) -> None:
    async with site(profile_dir, promises=hidden_promises()) as at, app(at) as raw:
        turns = [await heard(raw, slots=["food"]) for _ in range(5)]
        assert all(units == units_from_epsilon("1.875") for units in at.spent().values())
    for messages in turns:
        assert_tells_nothing(messages)
        reply = messages[-1]
        assert set(reply) == {"jsonrpc", "id", "result"}
        assert set(reply["result"]) == {"text", "views", "policy", "detail"}
        assert reply["result"]["policy"] == "opaque"
        (view,) = reply["result"]["views"]
        assert set(view) == {"slot", "view"}
        assert len(messages) == 5  # four words and the reply, charged or not
        for notice in messages[:-1]:
            assert set(notice) == {"jsonrpc", "method", "params"}
            assert set(notice["params"]) == {"request", "text"}
    assert [turn[-1]["result"]["views"][0]["view"] for turn in turns[3:]] == ["generic"] * 2


Arrange = Callable[[Site], None]


def state(of: EngineState) -> Arrange:
    return lambda at: at.engine.enter(of)


REFUSALS: dict[str, tuple[Message, Arrange, str]] = {
    "slot that is not granted": ({"slots": ["finance"]}, lambda _: None, "denied"),
    "slot that does not exist": ({"slots": ["secrets"]}, lambda _: None, "denied"),
    "too many slots": ({"slots": ["food"] * 33}, lambda _: None, "invalid_params"),
    "no query": ({"query": ""}, lambda _: None, "invalid_params"),
    "long query": ({"query": "x" * 2001}, lambda _: None, "invalid_params"),
    "unknown parameter": ({"attribute": "zebra"}, lambda _: None, "invalid_params"),
    "model loads": ({"slots": ["food"]}, state(EngineState.LOADING), "not_ready"),
    "model pauses": ({"slots": ["food"]}, state(EngineState.PAUSED), "not_ready"),
    "model failed": ({"slots": ["food"]}, state(EngineState.FAILED), "model_failed"),
}


@pytest.mark.parametrize("case", REFUSALS)
async def test_refusal_tells_nothing(profile_dir: Path, case: str) -> None:
    params, arrange, code = REFUSALS[case]
    async with site(profile_dir, promises=hidden_promises()) as at, app(at) as raw:
        arrange(at)
        messages = await heard(raw, **params)
        assert messages[-1]["error"]["data"] == {"code": code}
        assert_tells_nothing(messages)
        assert not any(at.spent().values())


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: RecordingEngine(streams=0, max_waiting=0), "busy"),
        (lambda: RecordingEngine(context_length=4), "invalid_params"),
        (lambda: RecordingEngine(broken), "model_failed"),
    ],
)
async def test_error_of_the_model_tells_nothing(
    profile_dir: Path, make: Callable[[], RecordingEngine], code: str
) -> None:
    async with (
        site(profile_dir, promises=hidden_promises(), engine=make()) as at,
        app(at) as raw,
    ):
        messages = await heard(raw, slots=["food"])
        assert messages[-1]["error"]["data"] == {"code": code}
        assert_tells_nothing(messages)


async def test_defect_tells_nothing(profile_dir: Path) -> None:
    async with (
        site(profile_dir, promises=hidden_promises(), scorer=FailingScorer()) as at,
        app(at) as raw,
    ):
        messages = await heard(raw, slots=["food"])
        assert messages[-1]["error"]["data"] == {"code": "internal_error"}
        assert_tells_nothing(messages)
        assert not any(word in at.log.getvalue() for word in HIDDEN)


async def test_damaged_ledger_tells_nothing(profile_dir: Path) -> None:
    promises = hidden_promises()
    async with site(profile_dir, promises=promises) as at:
        pass
    with closing(sqlite3.connect(at.profile.data / LEDGER_FILE)) as connection:
        connection.execute("DROP TABLE entries")
    async with site(profile_dir, promises=promises) as at, app(at) as raw:
        messages = await heard(raw, slots=["food"])
        assert messages[-1]["result"]["views"] == [{"slot": "food", "view": "generic"}]
        assert_tells_nothing(messages)


STANDING = replace(hidden_promises(), allocation=Standing())


@pytest.mark.parametrize(
    ("promises", "first"), [(hidden_promises(), 3), (STANDING, 1)], ids=["online", "standing"]
)
async def test_what_is_left_is_told_in_words_for_apps(
    profile_dir: Path, promises: Promises, first: int
) -> None:
    async with site(profile_dir, promises=promises) as at, app(at) as raw:
        seen = []
        for number in range(5):
            for method, params in (("budget", {}), ("quote", {"query": "q", "slots": ["food"]})):
                reply = await raw.ask(f"{method} {number}", method, **params)
                assert_tells_nothing([reply])
                (slot,) = reply["result"]["slots"]
                assert set(slot) == {"slot", "answer", "fresh_left"}
                seen.append((method, slot["answer"], slot["fresh_left"]))
            await heard(raw, slots=["food"])
    assert seen[:2] == [("budget", "fresh", first), ("quote", "fresh", first)]
    assert [left for _, _, left in seen[-2:]] == [0, 0]


@pytest.mark.parametrize("method", ["budget", "quote"])
async def test_what_is_left_of_a_damaged_ledger_tells_nothing(
    profile_dir: Path, method: str
) -> None:
    promises = hidden_promises()
    async with site(profile_dir, promises=promises) as at:
        pass
    with closing(sqlite3.connect(at.profile.data / LEDGER_FILE)) as connection:
        connection.execute("DROP TABLE entries")
    async with site(profile_dir, promises=promises) as at, app(at) as raw:
        params = {"query": "q", "slots": ["food"]} if method == "quote" else {}
        reply = await raw.ask(1, method, **params)
        assert reply["result"] == {
            "slots": [{"slot": "food", "answer": "generic", "fresh_left": 0}]
        }
        assert_tells_nothing([reply])


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"query": "q", "slots": ["finance"]}, "denied"),
        ({"query": "q", "slots": ["secrets"]}, "denied"),
        ({"query": ""}, "invalid_params"),
        ({}, "invalid_params"),
        ({"query": "q", "attribute": "zebra"}, "invalid_params"),
    ],
)
async def test_refused_quote_tells_nothing(profile_dir: Path, params: Message, code: str) -> None:
    async with site(profile_dir, promises=hidden_promises()) as at, app(at) as raw:
        reply = await raw.ask(1, "quote", **params)
        assert reply["error"]["data"] == {"code": code}
        assert_tells_nothing([reply])


async def test_cancelled_turn_tells_nothing(profile_dir: Path) -> None:
    engine = RecordingEngine(gate=asyncio.Event())
    async with (
        site(profile_dir, promises=hidden_promises(), engine=engine) as at,
        app(at) as raw,
    ):
        await raw.say(id=1, method="ask", params={"query": "q", "slots": ["food"]})
        while not engine.prompts:  # noqa: ASYNC110 - the stores answer from threads
            await asyncio.sleep(0)
        await raw.say(method="notifications/cancelled", params={"request": 1})
        reply = await raw.hear()
        assert reply["error"]["data"] == {"code": "cancelled"}
        assert_tells_nothing([reply])
        assert all(at.spent().values())  # and it stays charged


@pytest.mark.parametrize("method", [m for m in OwnerMethod if m != OwnerMethod.AUTHENTICATE])
async def test_methods_of_the_owner_do_not_exist_for_an_app(profile_dir: Path, method: str) -> None:
    async with site(profile_dir, promises=hidden_promises()) as at, app(at) as raw:
        reply = await raw.ask(1, method)
        assert reply["error"]["data"] == {"code": "unknown_method"}
        methods = "ask, budget, notify, propose, quote, send, vocabulary"
        assert f"has: {methods}." in reply["error"]["message"]
        assert_tells_nothing([reply])


async def test_scan_would_have_found_it(profile_dir: Path) -> None:
    """The control: what the owner may see fails the same scan."""
    async with (
        site(profile_dir, promises=hidden_promises()) as at,
        hosting_apps(at) as host,
        listening(at, host),
        dialled(at.profile.owner_socket) as raw,
    ):
        secret = at.profile.owner_secret_file.read_text()
        await raw.ask("in", "authenticate", token=secret)
        for method in ("ledger", "memory.list", "status"):
            reply = await raw.ask(1, method)
            with pytest.raises(AssertionError):
                assert_tells_nothing([reply])


async def test_two_apps_see_the_same_version_and_nothing_of_each_other(profile_dir: Path) -> None:
    async with site(profile_dir) as at:
        tokens = [await asyncio.to_thread(at.tokens.issue, name) for name in (GUEST, MEALS)]
        seen = []
        async with listening(at):
            for token in tokens:
                async with dialled(at.profile.app_socket) as raw:
                    await raw.ask("in", "authenticate", token=token)
                    seen.append((await heard(raw, slots=[]))[-1]["result"])
    assert seen[0] == seen[1]
