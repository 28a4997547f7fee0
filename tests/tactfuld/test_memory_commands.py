"""An older copy of memory is taken for the newest when its owner says so, and not before."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fakes.daemon_process import PASSPHRASE, make_profile

from tactful.errors import AlreadyRunning, KeyUnavailable, Unusable
from tactful.profile import Profile
from tactful_core.values import Secret, ShelfName
from tactfuld.locking import hold
from tactfuld.memory_commands import accept_memory
from tactfuld.policy.loading import load_policy
from tactfuld.store.memory import MEMORY_FILE, MemoryStore, memory_place
from tactfuld.unlocking import unlock


async def opened(profile: Profile, shelf: str | None = None) -> int:
    """How many memories there are; remembers one first, on a shelf."""
    keys = (await asyncio.to_thread(unlock, profile, Secret(PASSPHRASE))).store_keys()
    layout = (await asyncio.to_thread(load_policy, profile.policy_file)).layout
    async with MemoryStore.open(memory_place(profile), layout, keys, print) as store:
        if shelf is not None:
            await store.remember("something", ShelfName(shelf), None, 1)
        return len(await store.listing())


@pytest.fixture
def replayed(tmp_path: Path) -> Profile:
    """A profile in which an older copy of memory, with one memory, was put back."""
    profile = make_profile(tmp_path / "profile")
    asyncio.run(opened(profile, "food.diet"))
    before = (profile.data / MEMORY_FILE).read_bytes()
    asyncio.run(opened(profile, "food.groceries"))
    (profile.data / MEMORY_FILE).write_bytes(before)
    return profile


def test_what_is_accepted_opens_from_then_on(replayed: Profile) -> None:
    with pytest.raises(Unusable, match="is older than it was"):
        asyncio.run(opened(replayed))
    assert accept_memory(replayed, Secret(PASSPHRASE)) == {"memories": 1}
    assert asyncio.run(opened(replayed)) == 1


def test_what_is_not_older_stays_as_it_is(tmp_path: Path) -> None:
    profile = make_profile(tmp_path / "profile")
    before = (profile.data / MEMORY_FILE).read_bytes()
    assert accept_memory(profile, Secret(PASSPHRASE)) == {"memories": 0}
    assert (profile.data / MEMORY_FILE).read_bytes() == before


def test_a_running_daemon_or_a_wrong_passphrase_is_an_error(replayed: Profile) -> None:
    with hold(replayed.data), pytest.raises(AlreadyRunning):
        accept_memory(replayed, Secret(PASSPHRASE))
    with pytest.raises(KeyUnavailable):
        accept_memory(replayed, Secret("wrong"))
    with pytest.raises(Unusable):
        asyncio.run(opened(replayed))
