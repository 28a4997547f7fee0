"""What is left of a memory that was forgotten: nothing that a scan of bytes finds.

A real daemon remembers a marker, lists, edits, searches and answers from it, and forgets it. Then
its files and its own memory are scanned. Controls show that each scan finds what it looks for: in
files before, and in the memory of a daemon that does not overwrite what it frees.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.end_to_end.processes import short_folder
from tests.fakes.daemon_process import (
    PROGRAM,
    make_profile,
    root_of,
    serving,
    spent,
    until_loaded,
)
from tests.fakes.planted import found_below
from tests.fakes.process_memory import found_in_memory
from tests.model_fixture import embedded_model

from tactful.owner_client import OwnerClient
from tactful.owner_wire import LedgerReply, MemoryList
from tactful.profile import Profile
from tactfuld.keys.key_file import KEY_FILE
from tactfuld.store.memory import MEMORY_FILE

__all__ = ["embedded_model"]

MARKER = "kumquat-marmalade-4711"
WITHOUT_SCRUBBING = """
from tactfuld import scrubbing
scrubbing.scrub_what_is_freed = lambda environ: None
from tactfuld.main import main
main()
"""
UNSCRUBBED = (sys.executable, "-c", WITHOUT_SCRUBBING)
"""The daemon without what is tested."""

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc/PID/mem")
pytestmark = pytest.mark.timeout(180)


@dataclass(slots=True)
class Remains:
    """What a scan found before and after forgetting.

    Attributes:
        sealed: the sealed row of the memory, and the wrap of the key that sealed it.
    """

    sealed: tuple[bytes, str]
    found_before: list[str]
    found_after: list[str]
    in_files: list[str]
    in_process: list[str]
    ledgers: list[LedgerReply] = field(default_factory=list)
    listed: MemoryList | None = None


async def use(owner: OwnerClient) -> None:
    """Lets the marker pass wherever a memory passes."""
    await until_loaded(owner)
    text = f"The word for my bicycle is {MARKER}."
    await owner.memory_propose(text)
    await owner.remember(text, "food.diet")
    await owner.memory_edit(2, f"The word for my bicycle is now {MARKER}.")
    await owner.memory_list()
    await owner.memory_show(2)
    await owner.memory_search("bicycle")
    await owner.memory_suggest()
    await owner.ask("What is the word for my bicycle?")
    await owner.ask_as("meals", "What is for dinner?", slots=("food",))


def sealed_row(profile: Profile) -> bytes:
    with closing(sqlite3.connect(profile.data / MEMORY_FILE)) as connection:
        (row,) = connection.execute("SELECT sealed FROM rows WHERE position = 2").fetchone()
    assert isinstance(row, bytes)
    return row


def wrapped_key(profile: Profile) -> str:
    (wrapped,) = json.loads((profile.data / KEY_FILE).read_bytes())["memory"]
    return str(wrapped["wrapped"])


def holding(folder: Path, sealed: tuple[bytes, str]) -> list[str]:
    """The files that hold the sealed row, or the wrap of its key."""
    row, wrap = sealed
    return [
        path.name
        for path in sorted(folder.rglob("*"))
        if path.is_file() and (row in (data := path.read_bytes()) or wrap.encode() in data)
    ]


async def _day(profile: Profile, pid: int) -> Remains:
    root = root_of(profile)
    async with OwnerClient.connect(profile) as owner:
        await use(owner)
    async with OwnerClient.connect(profile) as owner:
        sealed, before = (sealed_row(profile), wrapped_key(profile)), await owner.ledger()
        found_before = holding(root, sealed)
        assert await owner.memory_forget((2,)) == 1
        found_after, after = holding(root, sealed), await owner.ledger()
        listed = await owner.memory_list()
    return Remains(
        sealed=sealed,
        found_before=found_before,
        found_after=found_after,
        in_files=found_below(root, MARKER),
        in_process=found_in_memory(pid, MARKER) if sys.platform == "linux" else [],
        ledgers=[before, after],
        listed=listed,
    )


def day(*program: str) -> Iterator[Remains]:
    with short_folder() as folder:
        profile = make_profile(folder)
        with serving(profile, program=program) as daemon:
            yield asyncio.run(_day(profile, daemon.pid))


@pytest.fixture(scope="module")
def remains(embedded_model: Path) -> Iterator[Remains]:
    assert embedded_model.exists()
    yield from day(PROGRAM)


@pytest.fixture(scope="module")
def unscrubbed(embedded_model: Path) -> Iterator[Remains]:
    assert embedded_model.exists()
    yield from day(*UNSCRUBBED)


def test_the_sealed_row_and_the_key_that_opens_it_are_gone_from_every_file(
    remains: Remains,
) -> None:
    assert set(remains.found_before) == {KEY_FILE, MEMORY_FILE}, "the control"
    assert remains.found_after == []


def test_no_file_holds_the_text(remains: Remains) -> None:
    """Database, log, history, ledger, state and runtime folder; under any common encoding."""
    assert remains.in_files == []


def test_the_scan_of_files_finds_a_text_in_each_of_them(tmp_path: Path) -> None:
    for name in ("memory.db-wal", "daemon.log", "state"):
        (tmp_path / name).write_bytes(b"\0" * 100 + f"so {MARKER} it is".encode("utf-16-le"))
    assert len(found_below(tmp_path, MARKER)) >= 3


@linux_only
def test_the_process_does_not_hold_the_text_any_more(remains: Remains) -> None:
    assert remains.in_process == []


@linux_only
def test_the_scan_of_a_process_finds_what_was_only_freed(unscrubbed: Remains) -> None:
    """The control: the same day in a daemon that does not overwrite what it frees."""
    assert any("as utf-8" in each for each in unscrubbed.in_process)


def test_forgetting_refunds_nothing(remains: Remains) -> None:
    before, after = remains.ledgers
    assert any(spent(before).values())
    assert after == before


def test_what_was_forgotten_is_not_listed(remains: Remains) -> None:
    assert remains.listed is not None
    assert remains.listed.items == ()
