"""Changes of memory that are killed at any moment: before or after, and nothing else is touched."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fakes.daemon_process import make_profile
from tests.fakes.killable import IN_DIET, IN_GROCERIES, killed, opened
from tests.tactfuld.test_killed_rotation import fill, kept_keys

from tactful.profile import Profile
from tactful_core.ledger import Ledger
from tactful_core.sealing import Memory
from tactful_core.values import Position, ShelfName

LONGEST = 0.1
"""Seconds that a process changes memory before it is killed, at most: some rounds of its verbs."""

STATES: tuple[dict[Position, Memory], ...] = (
    {},
    {IN_DIET: Memory("It is new.", 1)},
    {IN_DIET: Memory("It is edited.", 2)},
    {IN_GROCERIES: Memory("It is edited.", 2)},
)
"""What a process has written after each of its steps, beside what it does not touch."""


async def prepare(profile: Profile) -> None:
    """A ledger with a charge, a turn, and two memories that nobody touches."""
    async with opened(profile):
        """It makes the history, which says so once."""
    await fill(profile)
    async with opened(profile) as stores:
        await stores.memory.forget((IN_DIET,))
        await stores.memory.remember("I sleep badly.", ShelfName("health.condition"), None, 1)
        await stores.memory.remember("Rent is due.", ShelfName("finance.bills"), None, 1)


async def found(profile: Profile) -> tuple[dict[Position, Memory], object]:
    """Memory, and all that changes of memory must leave alone."""
    async with opened(profile) as stores:
        assert stores.notices == []
        ledger, entries = await stores.ledger.witnessed()
        assert isinstance(ledger, Ledger)
        assert not ledger.exhausted
        turns = await stores.history.listing(None, None, 10)
        return dict(await stores.memory.listing()), (ledger.settled, entries, turns)


async def begin_anew(profile: Profile) -> None:
    """Empties what the next process expects to be empty."""
    async with opened(profile) as stores:
        await stores.memory.forget((IN_DIET, IN_GROCERIES))


def survives(profile: Profile, kills: int) -> set[int]:
    """Kills changes and looks what is left; which of the states were found."""
    asyncio.run(prepare(profile))
    kept, others = asyncio.run(found(profile))
    seen = set()
    for steps in killed(profile, "change", kills, LONGEST):
        memory, beside = asyncio.run(found(profile))
        assert beside == others
        reported, next_one = (STATES[(steps + ahead) % len(STATES)] for ahead in (0, 1))
        assert memory in ({**kept, **reported}, {**kept, **next_one}), "lost, or come back"
        assert set(kept_keys(profile).values()) == {1}
        seen.add(steps % len(STATES))
        asyncio.run(begin_anew(profile))
    return seen


def test_changes_killed_at_twenty_moments_lose_nothing(tmp_path: Path) -> None:
    survives(make_profile(tmp_path / "profile"), 20)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_changes_killed_at_two_hundred_moments_lose_nothing(tmp_path: Path) -> None:
    seen = survives(make_profile(tmp_path / "profile"), 200)
    assert seen == set(range(len(STATES))), "each verb was killed"
