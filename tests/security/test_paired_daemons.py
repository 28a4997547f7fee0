"""Two daemons with different memories, the same requests: no app gets a byte that differs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.security.paired_daemons import (
    EMPTY,
    FULL,
    GUEST,
    HOSTED,
    MEALS,
    ONE_WORD,
    Home,
    Step,
    World,
    day,
    inject_views,
    lived,
    time_passes,
)

from tactful.errors import Busy
from tactful.wire import Vocabulary
from tactful_core import interface
from tactful_core.layout import Slot
from tactful_core.scoring import Scores, scores_from
from tactfuld.budget import slot_budget
from tactfuld.events.bus import EventBus
from tactfuld.gate import Gate
from tactfuld.inference.prompt import build_prompt
from tactfuld.server.outlet_methods import Outlets, outlet_methods
from tactfuld.store.memory import MemoryStore

FEW, MANY = 20, 500


@pytest.fixture(autouse=True)
def injected(monkeypatch: pytest.MonkeyPatch) -> None:
    inject_views(monkeypatch)


async def compared(folder: Path, requests: int, others: tuple[World, ...]) -> Counter[str]:
    """Compares a day with an empty memory with the same day in other worlds; what was heard."""
    steps = day(requests)
    empty = await lived(folder / "empty", EMPTY, steps)
    for number, world in enumerate(others):
        other = await lived(folder / f"other{number}", world, steps)
        assert other.keys() == empty.keys()
        for app in empty:
            assert other[app] == empty[app], app
    return Counter(_kind(json.loads(line)) for lines in empty.values() for line in lines)


def _kind(message: dict[str, dict[str, dict[str, str]]]) -> str:
    if "error" in message:
        return message["error"]["data"]["code"]
    if "method" in message:
        return str(message["params"].get("kind", "progress"))
    return "result"


async def test_no_app_can_tell_an_empty_memory_from_a_full_one(tmp_path: Path) -> None:
    heard = await compared(tmp_path, FEW, (FULL,))
    assert heard["result"] > 5
    assert heard["timer"] >= 2


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_no_app_can_tell_memories_apart_in_a_long_day(tmp_path: Path) -> None:
    heard = await compared(tmp_path, MANY, (FULL, ONE_WORD))
    wanted = {"result", "progress", "denied", "invalid_params", "model_failed", "cancelled"}
    wanted |= {"unknown_method", "invalid_request"}
    wanted |= {"timer", "app", "file", "budget", "policy"}
    assert not wanted - heard.keys()


# --- what the comparison would see ----------------------------------------------------------------

Mutant = Callable[[pytest.MonkeyPatch], None]


class Leak:
    """What a mutant knows of the world that runs: its bus, and whether memory spoke."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bus: EventBus | None = None
        self.full = False
        made, scored = EventBus.__init__, interface._scores

        def begun(bus: EventBus, *arguments: Any, **options: Any) -> None:
            made(bus, *arguments, **options)
            self.bus, self.full = bus, False

        async def noted(relevance: Any, slot: Slot, ports: interface.Ports) -> Scores:
            rows = await ports.memory.open_rows(slot.positions)
            self.full |= any(rows.reveal())
            return await scored(relevance, slot, ports)

        monkeypatch.setattr(EventBus, "__init__", begun)
        monkeypatch.setattr(interface, "_scores", noted)

    def tell(self) -> None:
        if self.bus is not None:
            self.bus.send(MEALS, HOSTED, "memory changed")


def _event_of(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the owner does by this method of the store, an app is told."""
    leak, does = Leak(monkeypatch), getattr(MemoryStore, name)

    async def told(store: MemoryStore, *arguments: Any, **options: Any) -> Any:
        leak.tell()
        return await does(store, *arguments, **options)

    monkeypatch.setattr(MemoryStore, name, told)


def event_of_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    _event_of("remember", monkeypatch)


def event_of_an_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    _event_of("edit", monkeypatch)


def event_of_forgetting(monkeypatch: pytest.MonkeyPatch) -> None:
    _event_of("forget", monkeypatch)


def event_of_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """An app hears at a look that some memory is there."""
    leak, looked = Leak(monkeypatch), EventBus.look

    def counted(bus: EventBus) -> None:
        looked(bus)
        if leak.full:
            leak.tell()

    monkeypatch.setattr(EventBus, "look", counted)


def policy_event_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version that apps are told of changes with memory."""
    leak, found = Leak(monkeypatch), Gate.policy

    def named(gate: Gate) -> str:
        name: str = found.fget(gate)  # type: ignore[attr-defined]
        return f"{name}f" if leak.full else name

    monkeypatch.setattr(Gate, "policy", property(named))


def event_of_a_score(monkeypatch: pytest.MonkeyPatch) -> None:
    leak = Leak(monkeypatch)
    scored = interface._scores

    async def told(relevance: Any, slot: Slot, ports: interface.Ports) -> Scores:
        scores = await scored(relevance, slot, ports)
        if any(scores.private.reveal()):
            leak.tell()
        return scores

    monkeypatch.setattr(interface, "_scores", told)


def error_of_contents(monkeypatch: pytest.MonkeyPatch) -> None:
    async def loud(relevance: Any, slot: Slot, ports: interface.Ports) -> Scores:
        rows = await ports.memory.open_rows(slot.positions)
        return scores_from(relevance, await ports.scorer.evidence(slot, rows))

    monkeypatch.setattr(interface, "_scores", loud)


def nothing_filed_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    charged = interface._release_charged

    async def refunded(
        charge: Any, draw: Any, relevance: Any, slot: Slot, promises: Any, ports: interface.Ports
    ) -> Any:
        rows = await ports.memory.open_rows(slot.positions)
        if not any(rows.reveal()):
            return interface._generic(slot, None)
        return await charged(charge, draw, relevance, slot, promises, ports)

    monkeypatch.setattr(interface, "_release_charged", refunded)


def budget_that_counts_memories(monkeypatch: pytest.MonkeyPatch) -> None:
    leak, counted = Leak(monkeypatch), slot_budget

    def less(*arguments: Any, **options: Any) -> Any:
        found = counted(*arguments, **options)
        return found.model_copy(update={"fresh_left": 99}) if leak.full else found

    monkeypatch.setattr("tactfuld.gate.slot_budget", less)


def views_that_memory_supports(monkeypatch: pytest.MonkeyPatch) -> None:
    leak, offered = Leak(monkeypatch), Gate.vocabulary

    def fewer(gate: Gate, app: Any) -> Vocabulary:
        found = offered(gate, app)
        return found if leak.full else found.model_copy(update={"slots": found.slots[:1]})

    monkeypatch.setattr(Gate, "vocabulary", fewer)


def prompt_with_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    leak, built = Leak(monkeypatch), build_prompt

    def more(*arguments: Any) -> Any:
        prompt = built(*arguments)
        return replace(prompt, system=f"{prompt.system} Mind the owner.") if leak.full else prompt

    monkeypatch.setattr("tactfuld.gate.build_prompt", more)


def reply_that_tells_a_proposals_fate(monkeypatch: pytest.MonkeyPatch) -> None:
    methods = outlet_methods

    def telling(outlets: Outlets) -> Any:
        table = dict(methods(outlets))
        propose = table["propose"]

        async def told(caller: Any, request: Any) -> Any:
            if any(item.text == request.text for item in outlets.inbox.items):
                raise Busy("The owner has not looked at this proposal yet.")
            return await propose.run(caller, request)

        table["propose"] = replace(propose, run=told)
        return table

    monkeypatch.setattr("tests.fakes.daemon_site.outlet_methods", telling)


MUTANTS: tuple[Mutant, ...] = (
    event_of_a_write,
    event_of_an_edit,
    event_of_forgetting,
    event_of_a_count,
    event_of_a_score,
    policy_event_of_memory,
    error_of_contents,
    nothing_filed_costs_nothing,
    budget_that_counts_memories,
    views_that_memory_supports,
    prompt_with_memory,
    reply_that_tells_a_proposals_fate,
)


def asks(app: Any, method: str, **params: object) -> Step:
    return partial(_asks, app=app, method=method, params=params)


async def _asks(home: Home, *, app: Any, method: str, params: dict[str, Any]) -> None:
    await home.ask(app, method, params, cancel=False)


MORNING: tuple[Step, ...] = (
    asks(MEALS, "ask", query="What is for dinner?"),
    Home.write_memory,
    asks(GUEST, "propose", text="I like soup.", slot="food"),
    Home.sort_inbox,
    asks(GUEST, "propose", text="I like soup.", slot="food"),
    Home.write_memory,
    time_passes,
    asks(MEALS, "ask", query="How do I pay my bills?"),
    asks(MEALS, "budget"),
    asks(MEALS, "vocabulary"),
)


async def one_morning(folder: Path) -> bool:
    """Whether all apps heard the same with an empty and with a full memory."""
    empty = await lived(folder / "empty", EMPTY, MORNING)
    return empty == await lived(folder / "full", FULL, MORNING)


async def test_a_morning_is_the_same(tmp_path: Path) -> None:
    assert await one_morning(tmp_path)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
async def test_each_leak_would_have_been_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    mutant(monkeypatch)
    assert not await one_morning(tmp_path)
