"""What is open only while the profile is unlocked, and how it closes under whoever uses it."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from tactful.errors import KeyUnavailable, Locked, Unusable
from tactful.wire import Empty, Message
from tactful_core.sealing import PassphraseParameters
from tactful_core.values import Secret
from tactfuld.keys.ring import KeyRing
from tactfuld.keys.sources import PassphraseSource
from tactfuld.server.session import Caller, Method, MethodTable
from tactfuld.vault import LOCKED, Opened, Vault

CHEAP = PassphraseParameters(salt=b"0123456789abcdef", iterations=1, lanes=1, memory_kib=8)
NAMES = frozenset({"work", "wait", "fail"})
NOBODY = cast("Caller", None)


class Words(Message):
    text: str


@dataclass
class Building:
    """Parts that remember when they were opened and closed, and who worked in them."""

    ring: KeyRing
    log: list[str] = field(default_factory=list)
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    problem: Exception | None = None
    rings: weakref.WeakSet[KeyRing] = field(default_factory=weakref.WeakSet)

    def keys(self, passphrase: Secret[str] | None) -> KeyRing:
        if passphrase is None or passphrase.reveal() != "right":
            raise KeyUnavailable("That is not it.")
        return self.ring

    @asynccontextmanager
    async def opening(self, ring: KeyRing) -> AsyncIterator[Opened]:
        if self.problem is not None:
            raise self.problem
        assert ring is self.ring
        self.log.append("opened")
        table: MethodTable = {
            "work": Method(Words, self.work),
            "wait": Method(Empty, self.wait),
            "fail": Method(Empty, self.fail),
        }
        yield Opened(owner=table, apps={"wait": table["wait"]})
        self.log.append("closed")

    async def work(self, _caller: Caller, request: Words) -> Message:
        return request

    async def wait(self, _caller: Caller, _request: Empty) -> Message:
        self.waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.log.append("stopped waiting")
        return Empty()

    async def fail(self, _caller: Caller, _request: Empty) -> Message:
        raise TimeoutError


@pytest.fixture
async def building(tmp_path: Path) -> Building:
    source = PassphraseSource(Secret("right"), CHEAP)
    return Building(await asyncio.to_thread(KeyRing.create, tmp_path, source))


@asynccontextmanager
async def vault_of(building: Building) -> AsyncIterator[Vault]:
    async with asyncio.TaskGroup() as tasks:
        vault = Vault(tasks, building.keys, building.opening)
        yield vault
        await vault.lock()


def opened(vault: Vault) -> AbstractAsyncContextManager[None]:
    @asynccontextmanager
    async def unlocked() -> AsyncIterator[None]:
        await vault.open(Secret("right"))
        yield
        await vault.lock()

    return unlocked()


async def called(table: MethodTable, name: str, **parameters: object) -> Message:
    """What a session does with a request."""
    method = table[name]
    reply: Message = await method.run(NOBODY, method.request.model_validate(parameters))
    return reply


async def test_methods_run_while_it_is_open_and_are_refused_before_and_after(
    building: Building,
) -> None:
    async with vault_of(building) as vault:
        table = vault.owner_table({}, NAMES)
        for _ in range(2):
            with pytest.raises(Locked):
                await called(table, "work", text="sweets")
            async with opened(vault):
                assert await called(table, "work", text="sweets") == Words(text="sweets")
        with pytest.raises(Locked):
            await called(table, "work", text="sweets")
    assert building.log == ["opened", "closed"] * 2


async def test_refusal_of_a_locked_profile_is_the_same_for_every_request(
    building: Building,
) -> None:
    """Even parameters that no method would take get it: nothing is looked at."""
    async with vault_of(building) as vault:
        table = vault.app_table(NAMES)
        told = set[str]()
        for name in NAMES:
            for parameters in ({}, {"text": "sweets"}, {"text": 7, "more": []}):
                with pytest.raises(Locked) as refusal:
                    await called(table, name, **parameters)
                told.add(str(refusal.value))
    assert told == {LOCKED}


async def test_names_of_methods_are_the_same_in_every_state(building: Building) -> None:
    async with vault_of(building) as vault:
        table = vault.app_table(NAMES)
        locked = (sorted(table), len(table), "wait" in table, "other" in table)
        async with opened(vault):
            assert (sorted(table), len(table), "wait" in table, "other" in table) == locked
    assert locked == (sorted(NAMES), len(NAMES), True, False)


async def test_what_is_always_there_runs_in_every_state(building: Building) -> None:
    async def say(_caller: Caller, _request: Empty) -> Message:
        return Words(text="always")

    async with vault_of(building) as vault:
        table = vault.owner_table({"say": Method(Empty, say)}, NAMES)
        assert await called(table, "say") == Words(text="always")
        async with opened(vault):
            assert await called(table, "say") == Words(text="always")


async def test_locking_ends_what_runs_before_anything_is_closed(building: Building) -> None:
    async with vault_of(building) as vault, asyncio.TaskGroup() as tasks:
        await vault.open(Secret("right"))
        running = tasks.create_task(refused_at_the_end(vault, building), name="running")
        await building.waiting.wait()
        await vault.lock()
        assert building.log == ["opened", "stopped waiting", "closed"]
        await running


async def refused_at_the_end(vault: Vault, building: Building) -> None:
    with pytest.raises(Locked):
        await called(vault.app_table(NAMES), "wait")
    assert "stopped waiting" in building.log


async def test_method_that_was_found_before_locking_does_not_run_after_it(
    building: Building,
) -> None:
    async with vault_of(building) as vault:
        await vault.open(Secret("right"))
        late = vault.owner_table({}, NAMES)["work"]
        await vault.lock()
        await vault.open(Secret("right"))
        with pytest.raises(Locked):
            await late.run(NOBODY, Words(text="sweets"))


async def test_failure_of_a_method_stays_its_own(building: Building) -> None:
    async with vault_of(building) as vault, opened(vault):
        with pytest.raises(TimeoutError):
            await called(vault.owner_table({}, NAMES), "fail")


async def test_wrong_passphrase_opens_nothing(building: Building) -> None:
    async with vault_of(building) as vault:
        for wrong in (None, Secret("wrong")):
            with pytest.raises(KeyUnavailable):
                await vault.open(wrong)
        assert vault.opened is None
    assert building.log == []


async def test_part_that_cannot_be_opened_leaves_it_locked_and_can_be_tried_again(
    building: Building,
) -> None:
    async with vault_of(building) as vault:
        building.problem = Unusable("It is damaged.")
        with pytest.raises(Unusable):
            await vault.open(Secret("right"))
        assert vault.opened is None
        building.problem = None
        async with opened(vault):
            assert vault.opened is not None


async def test_opening_and_locking_twice_is_as_good_as_once(building: Building) -> None:
    async with vault_of(building) as vault:
        await asyncio.gather(*(vault.open(Secret("right")) for _ in range(3)))  # noqa: TID251
        await vault.open(None)
        await asyncio.gather(vault.lock(), vault.lock())  # noqa: TID251
    assert building.log == ["opened", "closed"]


async def test_locked_vault_refers_to_no_key(building: Building) -> None:
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    seen = weakref.ref(building.ring, lambda _: loop.call_soon_threadsafe(gone.set))
    async with vault_of(building) as vault:
        await vault.open(Secret("right"))
        del building.ring
        assert seen() is not None
        await vault.lock()
        # The thread that obtained the keys lets go of them when it next runs.
        async with asyncio.timeout(30):
            await gone.wait()
