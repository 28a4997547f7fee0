"""A rotation that stopped after any of its steps is put in order when the profile is unlocked."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.fakes.daemon_process import PASSPHRASE, make_profile
from tests.fakes.killable import opened
from tests.tactfuld.test_killed_rotation import everything, fill, kept_keys, opening_once

from tactful.errors import NoPermission
from tactful.profile import Profile
from tactful_core.values import Secret
from tactfuld.keys.ring import KeyRing
from tactfuld.keys.values import Purpose
from tactfuld.store.mark import HighWater
from tactfuld.store.witness import WitnessFile
from tactfuld.unlocking import unlock


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """A profile with something in each store."""
    made = make_profile(tmp_path / "profile")
    asyncio.run(opening_once(made))
    asyncio.run(fill(made))
    return made


def ring_of(profile: Profile) -> KeyRing:
    return unlock(profile, Secret(PASSPHRASE))


def ids(ring: KeyRing, purpose: Purpose) -> list[bytes]:
    return [key.id for key in ring.keys(purpose)]


async def rotate(profile: Profile, purpose: Purpose) -> None:
    async with opened(profile) as stores:
        match purpose:
            case Purpose.MEMORY:
                await stores.memory.rotate()
            case Purpose.LEDGER:
                await stores.ledger.rotate()
            case Purpose.HISTORY:
                await stores.history.rotate()


def stopped_before_the_end(
    profile: Profile, purpose: Purpose, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise NoPermission("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(KeyRing, "finish", fail)
        with pytest.raises(NoPermission):
            asyncio.run(rotate(profile, purpose))
    assert kept_keys(profile)[purpose] == 2


@pytest.mark.parametrize("purpose", Purpose)
def test_key_that_no_database_is_sealed_under_is_destroyed(
    profile: Profile, purpose: Purpose
) -> None:
    expected, ring = asyncio.run(everything(profile)), ring_of(profile)
    (old,) = ids(ring, purpose)
    ring.begin(purpose, old)
    assert ids(ring_of(profile), purpose) == [old]
    assert asyncio.run(everything(profile)) == expected


@pytest.mark.parametrize("purpose", Purpose)
def test_old_key_is_destroyed_where_the_database_has_the_new_one(
    profile: Profile, purpose: Purpose, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = asyncio.run(everything(profile))
    (old,) = ids(ring_of(profile), purpose)
    stopped_before_the_end(profile, purpose, monkeypatch)
    (new,) = ids(ring_of(profile), purpose)
    assert new != old
    assert asyncio.run(everything(profile)) == expected


def test_mark_follows_a_ledger_whose_rotation_stopped_in_between(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = asyncio.run(everything(profile))
    with monkeypatch.context() as patch:
        patch.setattr(HighWater, "reseal", lambda *_: None)
        stopped_before_the_end(profile, Purpose.LEDGER, monkeypatch)
    assert asyncio.run(everything(profile)) == expected


def test_witness_follows_a_memory_whose_rotation_stopped_in_between(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = asyncio.run(everything(profile))
    with monkeypatch.context() as patch:
        patch.setattr(WitnessFile, "write", lambda *_: None)
        stopped_before_the_end(profile, Purpose.MEMORY, monkeypatch)
    assert asyncio.run(everything(profile)) == expected


@pytest.mark.parametrize("purpose", Purpose)
def test_database_that_names_neither_key_leaves_both(
    profile: Profile, purpose: Purpose, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped_before_the_end(profile, purpose, monkeypatch)
    with closing(sqlite3.connect(profile.data / f"{purpose}.db")) as connection:
        connection.execute("UPDATE header SET key = zeroblob(16)")
        connection.commit()
    before = (profile.data / "keys.json").read_bytes()
    assert len(ids(ring_of(profile), purpose)) == 2
    assert (profile.data / "keys.json").read_bytes() == before


@pytest.mark.parametrize("purpose", Purpose)
def test_database_that_is_missing_leaves_both(
    profile: Profile, purpose: Purpose, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped_before_the_end(profile, purpose, monkeypatch)
    (profile.data / f"{purpose}.db").unlink()
    assert len(ids(ring_of(profile), purpose)) == 2
