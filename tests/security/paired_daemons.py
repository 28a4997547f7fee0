"""A daemon with one memory or another, and a long day of requests: all that every app hears.

What a memory decides by chance is injected: views are drawn by tickets that do not look at scores,
answers follow from their prompts. All the rest is the product: sockets, gate, ledger, inbox, event
bus. Two worlds, each with a memory and an owner of its own, that live the same day, must not differ
in a byte that an app gets.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.daemon_site import VERSION, Site, dialled, listening, site, until
from tests.fakes.raw_connection import RawConnection, raw_side
from tests.fakes.recording_engine import RecordingEngine
from tests.fakes.two_clocks import TwoClocks

from tactful.peer import Limits, Peer, open_streams
from tactful.wire import Empty, Event, FileChange, HostedMethod
from tactful_core import selection
from tactful_core.layout import Slot
from tactful_core.sampling import Randomness
from tactful_core.scoring import Evidence, Scores
from tactful_core.sealing import capacity_bytes
from tactful_core.values import AppId, Position, Secret
from tactful_policies import starter_text
from tactfuld.events.bus import EventBus, Public
from tactfuld.events.grants import event_grants
from tactfuld.events.kept import BusState
from tactfuld.inference.errors import ModelError
from tactfuld.inference.fake_embedder import HashEmbedder
from tactfuld.inference.places import Place
from tactfuld.inference.prompt import Prompt
from tactfuld.policy.loading import parse_document
from tactfuld.policy.promises import promises_of
from tactfuld.policy_version import PolicyVersion
from tactfuld.scorer import EmbeddingScorer

MEALS, GUEST, NOBODY, HOSTED = map(AppId, ("meals", "guest", "nobody", "briefing"))
OUTSIDE = (MEALS, GUEST, NOBODY)
START = 1_793_620_800

_HEAD = starter_text("demo").partition("\napps:\n")[0]
_APPS = """
apps:
  meals: {{slots: [health, food, finance], quota: {{diabetes: 1.0}}}}
  guest: {{slots: [{guest}]}}
  nobody: {{slots: []}}
  briefing:
    slots: [food, finance]
    events: [timer, app, budget, policy, file]
    timers: {{hourly: "0 * * * *"}}
    hears: [meals]
    folders: {{/srv/recipes: read}}
    budget_below: {{food: 1, finance: 1}}
"""
POLICIES = tuple(
    parse_document(_HEAD + _APPS.format(guest=guest), source="policy.yaml")
    for guest in ("food, finance", "food")
)


@dataclass(frozen=True, slots=True)
class World:
    """What differs between two worlds.

    Attributes:
        text: what stands at the nth position, given the position's capacity in bytes.
        busy: whether the owner changes memory and empties the inbox while apps ask.
    """

    text: Callable[[int, int], str]
    busy: bool


def _full(number: int, capacity: int) -> str:
    words = ("sugar", "debt", "unscorable", "pregnant", "é")
    return (
        (f"{words[number % len(words)]} " * capacity)
        .encode()[: capacity - 1]
        .decode(errors="ignore")
    )


EMPTY = World(lambda _number, _capacity: "", busy=False)
FULL = World(_full, busy=True)
ONE_WORD = World(lambda number, _capacity: "sugar" if number == 0 else "", busy=True)


class BlindTickets:
    """Draws among the views whatever their scores are: the injected outcome."""

    def __init__(self) -> None:
        self._chance = random.Random(7)

    def below(self, limit: int) -> int:
        return self._chance.randrange(limit)


def inject_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, a view is drawn by a ticket alone."""

    def select(_mechanism: object, scores: Scores, randomness: Randomness) -> int:
        return randomness.below(len(scores.public))

    for mechanism in vars(selection).values():
        if isinstance(mechanism, type) and "select" in vars(mechanism):
            monkeypatch.setattr(mechanism, "select", select)


class FussyScorer(EmbeddingScorer):
    """Fails on some contents, with a message that shows them."""

    async def evidence(self, slot: Slot, rows: Secret[tuple[str, ...]]) -> Evidence:
        if any("unscorable" in text for text in rows.reveal()):
            raise RuntimeError(f"cannot score {rows.reveal()}")
        return await super().evidence(slot, rows)


class MoodyEngine(RecordingEngine):
    """Answers from its prompt alone: fails if it says `broken`, stops after a word if `wait`."""

    def __init__(self) -> None:
        super().__init__(_answer)

    async def generate(
        self, prompt: Prompt, *, max_tokens: int, place: Place | None = None
    ) -> AsyncGenerator[str, None]:
        words = super().generate(prompt, max_tokens=max_tokens, place=place)
        async with aclosing(words) as stream:
            async for word in stream:
                yield word
                if "wait" in prompt.user:
                    await asyncio.Event().wait()


def _answer(prompt: Prompt) -> str:
    if "broken" in prompt.user:
        raise ModelError("it broke")
    return f"Answer {len(prompt.system)} {len(prompt.user)} {len(prompt.earlier)}"


@dataclass
class Home:
    """One world's daemon while it runs.

    Attributes:
        heard: all lines that each app got, in order.
    """

    at: Site
    world: World
    bus: EventBus
    clock: TwoClocks
    heard: dict[AppId, list[bytes]] = field(default_factory=dict)
    outside: dict[AppId, RawConnection] = field(default_factory=dict)
    version: int = 0
    written: int = 0

    async def write_memory(self) -> None:
        """The owner changes something, in a world where they do."""
        if not self.world.busy:
            return
        self.written += 1
        shelf = self.at.promises.layout.shelves[self.written % len(self.at.promises.layout.shelves)]
        position = shelf.positions[0]
        full = {filled for filled, _ in await self.at.memory.listing()}
        if position in full:
            await self.at.memory.forget((position,))
        await self.at.memory.remember(f"note {self.written}", shelf.name, position, START)
        await self.at.memory.edit(position, f"note {self.written}, edited", START)

    async def sort_inbox(self) -> None:
        """The owner takes over or throws away what is proposed, in a world where they do."""
        if self.world.busy:
            self.at.inbox.remove({item.id for item in self.at.inbox.items})

    async def exchange(self) -> None:
        """Another version of the policy comes into force."""
        self.version = 1 - self.version
        document = POLICIES[self.version]
        before = self.at.gate._version
        version = PolicyVersion(
            promises_of(document), before.router, before.scorer, f"{VERSION}{self.version}"
        )

        async def agreed() -> bool:
            return True

        await self.at.gate.exchange(version, agreed)
        self.bus.grant(await asyncio.to_thread(event_grants, document))

    async def next_epoch(self) -> None:
        """The owner opens an epoch."""
        await self.at.ledger.open_next_epoch(0, None)

    async def ask(self, app: AppId, method: str, params: dict[str, Any], *, cancel: bool) -> None:
        """One request of an outside app, until its reply; cancelled after the first piece."""
        raw, lines = self.outside[app], self.heard[app]
        number = len(lines)
        await raw.say(id=number, method=method, params=params)
        while True:
            line = await raw.hear_line()
            lines.append(line)
            message = json.loads(line)
            if message.get("id") == number:
                return
            if cancel and "method" in message:
                cancel = False
                await raw.say(method="notifications/cancelled", params={"request": number})

    async def settled(self) -> None:
        """Every event that waits was told."""
        self.bus._news.set()
        await until(lambda: not any(queue.waiting for queue in self.bus._state.queues.values()))


class _Hosted:
    """The bus's view of one hosted app."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def runs(self, app: AppId) -> bool:
        return app == HOSTED

    async def deliver(self, _app: AppId, event: Event) -> None:
        await self._peer.call(HostedMethod.EVENT, event, Empty)


Step = Callable[[Home], Any]


def day(requests: int, seed: int = 11) -> Sequence[Step]:
    """The steps of a day: requests of all kinds, and what happens in between."""
    chance = random.Random(seed)
    steps: list[Step] = []
    for number in range(requests):
        steps.append(_request(chance, number))
        if number % 3 == 0:
            steps.append(Home.write_memory)
        if number % 5 == 0:
            steps.append(time_passes)
        if number % 7 == 0:
            steps.append(_file)
            steps.append(Home.sort_inbox)
        if number % 17 == 16:
            steps.append(Home.exchange)
        if number % 40 == 39:
            steps.append(Home.next_epoch)
    return steps


async def time_passes(home: Home) -> None:
    """Half an hour, at the end of which the bus has looked."""
    await home.clock.asleep()
    home.clock.advance(1800)
    await home.clock.asleep()


async def _file(home: Home) -> None:
    home.bus.file_changed(HOSTED, "/srv/recipes/soup.md", FileChange.MODIFIED)


QUERIES = ("What is for dinner?", "How do I pay my bills?", "Should I see a doctor?", "And then?")
SLOTS: tuple[list[str] | None, ...] = (
    None,
    ["food"],
    ["finance"],
    ["health"],
    [],
    ["nowhere"],
    ["food", "finance"],
)


def _request(chance: random.Random, number: int) -> Step:
    app = chance.choice((*OUTSIDE, MEALS, MEALS))
    slots, thread = chance.choice(SLOTS), chance.choice((None, "t1", "T?"))
    query = chance.choice(QUERIES)
    asked = {"query": query, "slots": slots, "thread": thread}
    kinds: tuple[tuple[str, dict[str, Any], bool], ...] = (
        ("ask", asked, False),
        ("ask", {"query": f"{query} {number}", "slots": slots}, False),
        ("ask", {"query": f"wait, {query}"}, True),
        ("ask", {"query": "broken"}, False),
        ("ask", {"query": "", "seed": 1}, False),
        ("ask", {"query": "x" * 2001}, False),
        ("quote", asked, False),
        ("budget", {}, False),
        ("vocabulary", {}, False),
        ("notify", {"text": f"note {number % 3}"}, False),
        ("propose", {"text": f"I like soup {number % 4}.", "slot": "food"}, False),
        ("propose", {"text": "I owe money.", "slot": "finance"}, False),
        ("send", {"app": "briefing", "text": f"hello {number}"}, False),
        ("send", {"app": "guest", "text": "hello"}, False),
        ("memory.list", {}, False),
        ("authenticate", {"token": "again"}, False),
    )
    method, params, cancel = chance.choice(kinds)

    async def step(home: Home) -> None:
        await home.ask(app, method, params, cancel=cancel)

    return step


@asynccontextmanager
async def living(folder: Path, world: World) -> AsyncIterator[Home]:
    """A world's daemon, its apps connected."""
    folder.mkdir()
    promises = promises_of(POLICIES[0])
    async with AsyncExitStack() as stack:
        at = await stack.enter_async_context(
            site(
                folder,
                promises=promises,
                engine=MoodyEngine(),
                randomness=BlindTickets(),
                scorer=await _scorer(promises.layout.slots),
            )
        )
        await _fill(at, world)
        ours, theirs = socket.socketpair()
        peer = at.doors.hosted(HOSTED, *await open_streams(theirs, Limits()))
        clock = TwoClocks(START)
        bus = EventBus(
            BusState(),
            apps=_Hosted(peer),
            public=lambda: Public(ready=True, policy=at.gate.policy, budget=at.gate.budget),
            keep=lambda _content: None,
            clock=clock,
            local=UTC,
            notices=at.notices,
            journal=at.journal,
        )
        at.switchboard.onward = bus
        home = Home(at, world, bus, clock)
        bus.grant(await asyncio.to_thread(event_grants, POLICIES[0]))
        await stack.enter_async_context(peer.running())
        hosted = await stack.enter_async_context(raw_side(ours))
        await stack.enter_async_context(listening(at))
        for app in OUTSIDE:
            raw = await stack.enter_async_context(dialled(at.profile.app_socket))
            token = await asyncio.to_thread(at.tokens.issue, app)
            assert (await raw.ask("in", "authenticate", token=token))["result"] == {}
            home.outside[app], home.heard[app] = raw, []
        home.heard[HOSTED] = []
        async with asyncio.TaskGroup() as group:
            tasks = (
                group.create_task(_answer_events(hosted, home.heard[HOSTED])),
                group.create_task(bus.run()),
            )
            yield home
            for task in tasks:
                task.cancel()


async def _scorer(slots: tuple[Slot, ...]) -> FussyScorer:
    scorer = FussyScorer(HashEmbedder())
    await asyncio.to_thread(scorer.prepare, slots)
    return scorer


async def _fill(at: Site, world: World) -> None:
    number = 0
    for shelf in at.promises.layout.shelves:
        for position in shelf.positions:
            text = world.text(number, capacity_bytes(shelf.tokens))
            if text:
                await at.memory.remember(text, shelf.name, Position(position), START)
            number += 1


async def _answer_events(raw: RawConnection, heard: list[bytes]) -> None:
    while True:
        line = await raw.hear_line()
        heard.append(line)
        await raw.say(id=json.loads(line)["id"], result={})


async def lived(folder: Path, world: World, steps: Sequence[Step]) -> dict[AppId, list[bytes]]:
    """All that every app got on a day in this world."""
    async with living(folder, world) as home:
        for step in steps:
            await step(home)
            await home.settled()
        return {app: list(lines) for app, lines in home.heard.items()}
