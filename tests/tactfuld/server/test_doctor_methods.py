"""A running daemon looks itself over, and goes on serving."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.fakes.daemon_site import hosting_apps, listening, site

from tactful.owner_client import OwnerClient
from tactful.owner_wire import DoctorReply
from tactful_core.values import ShelfName
from tactfuld.clock import SystemClock
from tactfuld.store.ledger import ledger_place
from tactfuld.store.memory import MEMORY_FILE, memory_place


async def looked_over(folder: Path, *, damaged: bool = False, marked: bool = True) -> DoctorReply:
    async with (
        site(folder, clock=SystemClock()) as at,
        hosting_apps(at) as host,
        listening(at, host),
        OwnerClient.connect(at.profile) as owner,
    ):
        now = at.clock.now()
        await at.memory.remember("I eat no nuts.", ShelfName("food.diet"), None, now)
        if damaged:
            with closing(sqlite3.connect(at.profile.data / MEMORY_FILE)) as connection:
                connection.execute("UPDATE rows SET sealed = zeroblob(9) WHERE position = 2")
                connection.commit()
            memory_place(at.profile).witness.unlink()
        if not marked:
            ledger_place(at.profile).mark.unlink()
        return await owner.doctor()


def states(found: DoctorReply) -> dict[str, str]:
    return {check.name: check.state for check in found.checks}


async def test_a_sound_daemon_is_well(profile_dir: Path) -> None:
    found = states(await looked_over(profile_dir))
    assert found.pop("gpu") in {"ok", "not_applicable"}
    assert found == {"integrity": "ok", "ledger": "ok", "clock": "ok", "model": "ok"}


async def test_what_was_damaged_under_it_is_told(profile_dir: Path) -> None:
    found = await looked_over(profile_dir, damaged=True)
    assert states(found)["integrity"] == "problem"
    (integrity,) = [check for check in found.checks if check.name == "integrity"]
    assert "Rows of memory.db do not open as they were written: 2." in integrity.detail
    assert "nuts" not in str(found)


async def test_a_mark_that_was_taken_away_is_told(profile_dir: Path) -> None:
    assert states(await looked_over(profile_dir, marked=False))["ledger"] == "problem"


async def test_it_is_asked_by_several_at_once(profile_dir: Path) -> None:
    async with (
        site(profile_dir) as at,
        hosting_apps(at) as host,
        listening(at, host),
        OwnerClient.connect(at.profile) as owner,
        asyncio.TaskGroup() as group,
    ):
        asked = [group.create_task(owner.doctor(), name=str(number)) for number in range(3)]
        found = [states(await each) for each in asked]
        assert found[0] == found[1] == found[2]
