"""A profile that is broken in one thing has that thing, and no other, in its report."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.daemon_process import PASSPHRASE, make_profile
from tests.fakes.daemon_site import POLICY
from tests.tactfuld.inference.gpus import PROCESSOR_ONLY
from tests.tactfuld.inference.tiny_gguf import TinyGguf

from tactful.profile import Profile
from tactful_core.entries import Charge, Mechanism, new_entry_id
from tactful_core.values import AppId, Secret, ShelfName, SlotName, Units
from tactfuld.doctor import models, places, stores
from tactfuld.doctor.check import Check, Name, State
from tactfuld.doctor.examination import examine
from tactfuld.doctor.models import GpuFacts
from tactfuld.inference.gpu_wait import Asked
from tactfuld.keys.key_file import KEY_FILE
from tactfuld.keys.values import Purpose
from tactfuld.locking import hold
from tactfuld.policy.loading import load_policy
from tactfuld.store.history import HISTORY_FILE, HistoryStore
from tactfuld.store.ledger import LEDGER_FILE, LedgerStore, ledger_place
from tactfuld.store.memory import MEMORY_FILE, MemoryStore, memory_place
from tactfuld.store.released_turn import ReleasedTurn, Retention
from tactfuld.unlocking import unlock

KEY = Secret(PASSPHRASE)
NOW = 1_767_300_000
"""Seconds since 1970 of what is filed; later than the clock may be wrong by."""
WELL = (State.OK, State.NOT_APPLICABLE)


@pytest.fixture(autouse=True)
def no_llama(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking llama.cpp takes seconds; `test_models` asks it."""
    monkeypatch.setattr(models, "gpu_facts", lambda use: GpuFacts(use, Asked(PROCESSOR_ONLY)))


@pytest.fixture
def profile(profile_dir: Path) -> Profile:
    """All is well: a memory, a charge, a turn, a model file."""
    model = profile_dir / "tiny.gguf"
    model.write_bytes(TinyGguf().build())
    settings = f"sandbox: off\nmodel: {{use: {model}}}\n"
    profile = make_profile(profile_dir / "p", settings=settings)
    for file in (profile.policy_file, profile.settings_file):
        file.chmod(0o600)
    asyncio.run(_fill(profile))
    return profile


async def _fill(profile: Profile) -> None:
    ring = await asyncio.to_thread(unlock, profile, KEY)
    promises = await asyncio.to_thread(load_policy, profile.policy_file)
    keys, layout = ring.store_keys(), promises.layout
    slot = layout.slot(SlotName("food"))
    charge = Charge(
        id=new_entry_id(),
        epoch=1,
        app=AppId("meals"),
        slot=slot.name,
        mechanism=Mechanism.EXPONENTIAL,
        positions=frozenset(slot.positions),
        charged=promises.charge_set(slot),
        units=Units(1000),
        policy=promises.digest,
    )
    kept = Retention(turns=50, days=90)
    async with (
        MemoryStore.open(memory_place(profile), layout, keys, print) as memory,
        LedgerStore.open(ledger_place(profile), keys, layout.attributes, print) as ledger,
        HistoryStore.open(profile.data / HISTORY_FILE, keys, kept, NOW, print) as history,
    ):
        await memory.remember("I eat no nuts.", ShelfName("food.diet"), None, NOW)
        await ledger.admit(charge, promises)
        await history.record(ReleasedTurn(AppId("meals"), None, NOW, "Dinner?", "Soup.", True, ()))


def report(profile: Profile, key: Secret[str] | None = KEY) -> dict[Name, Check]:
    found = {check.name: check for check in examine(profile, key)}
    assert list(found) == list(Name)
    assert all(check.advice for check in found.values() if check.state not in WELL)
    return found


def not_well(profile: Profile, key: Secret[str] | None = KEY) -> dict[Name, State]:
    return {name: c.state for name, c in report(profile, key).items() if c.state not in WELL}


def sql(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_a_sound_profile_is_well(profile: Profile) -> None:
    assert not_well(profile) == {}


def test_a_profile_whose_key_is_not_at_hand_is_not_known_to_be_well(profile: Profile) -> None:
    unknown = (Name.KEYS, Name.INTEGRITY, Name.LEDGER)
    assert not_well(profile, None) == dict.fromkeys(unknown, State.UNKNOWN)


def test_looking_changes_nothing_that_is_kept(profile: Profile) -> None:
    kept = [*profile.data.glob("*"), *profile.config.glob("*"), memory_place(profile).witness]
    before = {path: path.read_bytes() for path in kept}
    report(profile)
    assert {path: path.read_bytes() for path in kept} == before


# --- one thing broken ---------------------------------------------------------------------------

Break = Callable[[Profile], object]


def flip_row(profile: Profile) -> None:
    sql(
        profile.data / MEMORY_FILE,
        "UPDATE rows SET sealed = zeroblob(length(sealed)) WHERE position = 2",
    )


def lie_about_free_pages(profile: Profile) -> None:
    """Every row still opens; only SQLite's own bookkeeping is wrong (file format, section 1.3)."""
    file = profile.data / MEMORY_FILE
    content = bytearray(file.read_bytes())
    content[36:40] = (5).to_bytes(4, "big")
    file.write_bytes(content)


def break_turn(profile: Profile) -> None:
    sql(profile.data / HISTORY_FILE, "UPDATE turns SET sealed = zeroblob(length(sealed))")


def break_entry(profile: Profile) -> None:
    sql(
        profile.data / LEDGER_FILE,
        "DROP TRIGGER entries_never_change",
        "UPDATE entries SET sealed = zeroblob(length(sealed)) WHERE sequence = 2",
    )


def older_ledger(profile: Profile) -> None:
    sql(
        profile.data / LEDGER_FILE,
        "DROP TRIGGER entries_never_vanish",
        "DELETE FROM entries WHERE sequence = 2",
    )


def older_memory(profile: Profile) -> None:
    before = (profile.data / MEMORY_FILE).read_bytes()

    async def remember() -> None:
        keys = (await asyncio.to_thread(unlock, profile, KEY)).store_keys()
        layout = (await asyncio.to_thread(load_policy, profile.policy_file)).layout
        async with MemoryStore.open(memory_place(profile), layout, keys, print) as memory:
            await memory.remember("I like rice.", ShelfName("food.groceries"), None, NOW)

    asyncio.run(remember())
    (profile.data / MEMORY_FILE).write_bytes(before)


def ahead(file: Path) -> None:
    later = 2**33
    os.utime(file, (later, later))


def block_socket(profile: Profile) -> None:
    profile.runtime.mkdir(mode=0o700)
    profile.owner_socket.touch(mode=0o600)


def two_keys(profile: Profile) -> None:
    """Memory is named to be under a key that the key file does not have, beside two it has."""
    ring = unlock(profile, KEY)
    ring.begin(Purpose.HISTORY, ring.keys(Purpose.HISTORY)[0].id)
    sql(profile.data / HISTORY_FILE, "UPDATE header SET key = zeroblob(16)")


BROKEN: dict[str, tuple[Break, dict[Name, str]]] = {
    "a file open to others": (
        lambda p: p.policy_file.chmod(0o644),
        {Name.PERMISSIONS: "policy.yaml"},
    ),
    "a mistake in the settings": (
        lambda p: p.settings_file.write_text("sandbox: of\n"),
        {Name.SETTINGS: "settings.yaml:1"},
    ),
    "a mistake in the policy": (
        lambda p: p.policy_file.write_text(POLICY.replace("version: 1", "version: 7")),
        {Name.POLICY: "version"},
    ),
    "no model": (
        lambda p: (p.config.parents[1] / "tiny.gguf").unlink(),
        {Name.MODEL: "There is no model file"},
    ),
    "a damaged model": (
        lambda p: (p.config.parents[1] / "tiny.gguf").write_bytes(b"nothing"),
        {Name.MODEL: "tiny.gguf"},
    ),
    "a row of memory changed": (flip_row, {Name.INTEGRITY: "not as it was written last"}),
    "memory gone": (
        lambda p: (p.data / MEMORY_FILE).unlink(),
        {Name.INTEGRITY: "memory.db is missing"},
    ),
    "memory that is no database": (
        lambda p: (p.data / MEMORY_FILE).write_bytes(b"x" * 5000),
        {Name.INTEGRITY: "memory.db"},
    ),
    "a page that is told to be free": (
        lie_about_free_pages,
        {Name.INTEGRITY: "SQLite finds memory.db damaged"},
    ),
    "an older memory": (older_memory, {Name.INTEGRITY: "older than it was"}),
    "no witness of memory": (
        lambda p: memory_place(p).witness.unlink(),
        {Name.INTEGRITY: "witness of memory.db is missing"},
    ),
    "a turn changed": (break_turn, {Name.INTEGRITY: "Rows of history.db do not open"}),
    "history gone": (
        lambda p: (p.data / HISTORY_FILE).unlink(),
        {Name.INTEGRITY: "history.db is missing"},
    ),
    "an entry changed": (
        break_entry,
        {Name.INTEGRITY: "ledger.db", Name.LEDGER: "counts as exhausted"},
    ),
    "the newest entry gone": (older_ledger, {Name.LEDGER: "knows more"}),
    "no mark": (
        lambda p: ledger_place(p).mark.unlink(),
        {Name.LEDGER: "mark is missing"},
    ),
    "a clock that went back": (
        lambda p: ahead(ledger_place(p).mark),
        {Name.CLOCK: "ledger.mark is of"},
    ),
    "a daemon's socket that is no socket": (
        block_socket,
        {Name.SOCKET: "not a socket"},
    ),
    "a key that cannot be told": (
        two_keys,
        {Name.KEYS: "The key of history is being replaced", Name.INTEGRITY: "history.db is"},
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_one_thing_broken_is_told_and_nothing_else(profile: Profile, name: str) -> None:
    broken, expected = BROKEN[name]
    broken(profile)
    found = report(profile)
    told = {each: c.detail for each, c in found.items() if c.state is State.PROBLEM}
    assert set(told) == set(expected)
    for each, words in expected.items():
        assert words in told[each]


def test_a_key_file_that_is_damaged_leaves_the_rest_to_be_looked_at(profile: Profile) -> None:
    (profile.data / KEY_FILE).write_bytes(b"{}")
    assert not_well(profile) == {
        Name.KEYS: State.PROBLEM,
        Name.INTEGRITY: State.UNKNOWN,
        Name.LEDGER: State.UNKNOWN,
    }


def test_a_wrong_passphrase_is_a_problem_of_the_keys(profile: Profile) -> None:
    found = report(profile, Secret("wrong"))
    assert found[Name.KEYS].state is State.PROBLEM
    assert "wrong" not in str(found)


def test_a_disk_that_is_full_is_told(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(profile.data)._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    assert not_well(profile) == {Name.DISK: State.PROBLEM}


def test_a_sandbox_that_does_not_work_is_told(
    profile: Profile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = profile.settings_file.read_text().replace("sandbox: off", "sandbox: required")
    profile.settings_file.write_text(text)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not_well(profile) == {Name.SANDBOX: State.PROBLEM}


def test_where_there_is_no_profile_that_is_all_that_is_told(profile_dir: Path) -> None:
    found = not_well(Profile.at(profile_dir / "absent"))
    assert found == {
        Name.PERMISSIONS: State.PROBLEM,
        Name.DISK: State.PROBLEM,
        Name.LOCK: State.PROBLEM,
        Name.POLICY: State.PROBLEM,
        Name.KEYS: State.PROBLEM,
        Name.INTEGRITY: State.PROBLEM,
        Name.LEDGER: State.UNKNOWN,
        **({} if found.get(Name.MODEL) is None else {Name.MODEL: State.PROBLEM}),
        **({} if found.get(Name.SANDBOX) is None else {Name.SANDBOX: State.PROBLEM}),
    }


def test_a_folder_that_is_held_by_something_that_does_not_answer(profile: Profile) -> None:
    with hold(profile.data):
        found = not_well(profile)
    assert found.pop(Name.SOCKET) is State.PROBLEM
    assert set(found.values()) == {State.UNKNOWN}
    assert set(found) == {Name.KEYS, Name.INTEGRITY, Name.LEDGER, Name.MODEL, Name.GPU}


def test_a_defect_of_a_check_is_a_line_and_shows_no_message(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object) -> Any:
        raise ValueError("I eat no nuts.")

    monkeypatch.setattr(stores, "check_ledger", broken)
    monkeypatch.setattr(places, "places_of", broken)
    found = report(profile)
    for name in (Name.PERMISSIONS, Name.INTEGRITY, Name.LEDGER, Name.CLOCK):
        assert "ValueError:test_examination.py" in found[name].detail
    assert "nuts" not in str(found)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_folders_that_cannot_be_read_are_told(profile: Profile) -> None:
    for folder in (profile.config, profile.data, profile.state):
        folder.chmod(0)
    try:
        found = not_well(profile)
    finally:
        for folder in (profile.config, profile.data, profile.state):
            folder.chmod(0o700)
    assert found[Name.PERMISSIONS] is State.PROBLEM
    assert found[Name.LOCK] is State.PROBLEM


@pytest.mark.parametrize("name", BROKEN)
def test_no_memory_and_no_key_is_in_a_report(profile: Profile, name: str) -> None:
    BROKEN[name][0](profile)
    told = str(report(profile))
    assert "nuts" not in told
    assert PASSPHRASE not in told
    assert "Traceback" not in told


def test_the_program_writes_it_as_one_line(profile: Profile) -> None:
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("tactfuld")),
            *("one-shot", "doctor", "--profile", str(profile.config.parent)),
        ],
        env={"TACTFUL_PASSPHRASE": PASSPHRASE, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stderr, done.stdout.count("\n")) == ("", 1)
    assert '"name": "integrity", "state": "ok"' in done.stdout
