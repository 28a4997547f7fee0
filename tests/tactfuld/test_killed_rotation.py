"""Rotations that are killed at any moment leave a store that opens, with everything in it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest
from tests.fakes.daemon_process import make_profile
from tests.fakes.killable import killed, opened

from tactful.profile import Profile
from tactful_core.entries import Charge, Mechanism, new_entry_id
from tactful_core.ledger import Admitted, Ledger
from tactful_core.values import AppId, ShelfName, SlotName, Units
from tactfuld.keys.key_file import KEY_FILE
from tactfuld.keys.values import Purpose
from tactfuld.policy.loading import load_policy
from tactfuld.store.released_turn import ReleasedTurn

LONGEST = 0.1
"""Seconds that a process rotates before it is killed, at most: some rotations of each key."""
MEALS = AppId("meals")


async def fill(profile: Profile) -> None:
    """A memory, a charge and a turn."""
    promises = await asyncio.to_thread(load_policy, profile.policy_file)
    slot = promises.layout.slot(SlotName("food"))
    charge = Charge(
        id=new_entry_id(),
        epoch=1,
        app=MEALS,
        slot=slot.name,
        mechanism=Mechanism.EXPONENTIAL,
        positions=frozenset(slot.positions),
        charged=promises.charge_set(slot),
        units=Units(1000),
        policy=promises.digest,
    )
    async with opened(profile) as stores:
        await stores.memory.remember("I eat no nuts.", ShelfName("food.diet"), None, 1)
        assert isinstance(await stores.ledger.admit(charge, promises), Admitted)
        await stores.history.record(ReleasedTurn(MEALS, None, 0, "Dinner?", "Soup.", True, ()))


async def everything(profile: Profile) -> object:
    """All that a store holds."""
    async with opened(profile) as stores:
        assert stores.notices == []
        ledger, entries = await stores.ledger.witnessed()
        assert isinstance(ledger, Ledger)
        assert not ledger.exhausted
        turns = await stores.history.listing(None, None, 10)
        return await stores.memory.listing(), ledger.settled, entries, turns


def kept_keys(profile: Profile) -> dict[str, int]:
    written = json.loads((profile.data / KEY_FILE).read_bytes())
    return {purpose: len(written[purpose]) for purpose in Purpose}


def survives(profile: Profile, kills: int) -> Counter[str]:
    """Kills rotations and looks what is left; how often each kind was found half done."""
    asyncio.run(opening_once(profile))
    asyncio.run(fill(profile))
    expected, half_done = asyncio.run(everything(profile)), Counter[str]()
    for _steps in killed(profile, "rotate", kills, LONGEST):
        half_done.update(name for name, number in kept_keys(profile).items() if number > 1)
        assert asyncio.run(everything(profile)) == expected
        assert set(kept_keys(profile).values()) == {1}
    return half_done


async def opening_once(profile: Profile) -> None:
    """Makes the history, which says so once."""
    async with opened(profile):
        pass


def test_rotations_killed_at_twenty_moments_lose_nothing(tmp_path: Path) -> None:
    survives(make_profile(tmp_path / "profile"), 20)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_rotations_killed_at_two_hundred_moments_lose_nothing(tmp_path: Path) -> None:
    half_done = survives(make_profile(tmp_path / "profile"), 200)
    assert set(half_done) == set(Purpose), "each was killed between its first step and its last"
