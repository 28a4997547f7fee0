"""Restoring takes the union of two copies, never less than is known, and nothing but copies."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tactful.errors import AlreadyRunning, KeyUnavailable, NotFound, TactfulError, Unusable
from tactful.profile import Profile
from tactful_core.entries import Charge, Mechanism, new_entry_id
from tactful_core.ledger import Admitted, Ledger
from tactful_core.sealing import PassphraseParameters
from tactful_core.values import AppId, Secret, SlotName, Units
from tactful_policies import starter_text
from tactfuld import main as program
from tactfuld.keys.ring import create_keys
from tactfuld.keys.sources import PassphraseSource
from tactfuld.ledger_restore import restore_ledger
from tactfuld.locking import hold
from tactfuld.policy.loading import parse_policy
from tactfuld.store.ledger import LEDGER_FILE, LedgerStore, ledger_place
from tactfuld.unlocking import unlock

OPEN = Secret("open sesame")
CHEAP = PassphraseParameters(salt=b"saltsalt", iterations=1, lanes=1, memory_kib=8)
PROMISES = parse_policy(starter_text("demo"), source="demo.yaml")
THIRD = Units(PROMISES.layout.attributes[0].cap // 3)
SPENT = {0: 0.0, 1: 2 / 3, 2: 4 / 3, 3: 2.0}


def made(folder: Path) -> Profile:
    """A profile with an empty ledger."""
    profile = Profile.at(folder)
    for each in (profile.config, profile.data, profile.state):
        each.mkdir(mode=0o700, parents=True)
    profile.policy_file.write_text(starter_text("demo"))
    keys = create_keys(profile.data, PassphraseSource(OPEN, CHEAP))
    asyncio.run(LedgerStore.create(ledger_place(profile), keys))
    return profile


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    return made(tmp_path / "p")


def charge(slot: str, epoch: int) -> Charge:
    found = PROMISES.layout.slot(SlotName(slot))
    return Charge(
        id=new_entry_id(),
        epoch=epoch,
        app=AppId("meals"),
        slot=found.name,
        mechanism=Mechanism.EXPONENTIAL,
        positions=frozenset(found.positions),
        charged=PROMISES.charge_set(found),
        units=THIRD,
        policy=PROMISES.digest,
    )


def spend(profile: Profile, *acts: str) -> None:
    """Charges these slots, or opens an epoch, in the profile's ledger."""

    keys = unlock(profile, OPEN).store_keys()

    async def run() -> None:
        attributes = PROMISES.layout.attributes
        async with LedgerStore.open(ledger_place(profile), keys, attributes, _unheard) as store:
            for act in acts:
                ledger = store.snapshot()
                assert isinstance(ledger, Ledger)
                if act == "epoch":
                    assert await store.open_next_epoch(0)
                else:
                    entry = charge(act, ledger.epoch)
                    assert isinstance(await store.admit(entry, PROMISES), Admitted)

    asyncio.run(run())


def _unheard(_notice: str) -> None:
    pass


def entries(profile: Profile) -> list[tuple[int, bytes]]:
    with closing(sqlite3.connect(profile.data / LEDGER_FILE)) as connection:
        return connection.execute("SELECT sequence, sealed FROM entries").fetchall()


def copied(profile: Profile, to: Path) -> Path:
    """A copy of the profile's ledger."""
    return Path(shutil.copy(profile.data / LEDGER_FILE, to))


def put_back(copy: Path, profile: Profile) -> None:
    shutil.copy(copy, profile.data / LEDGER_FILE)


def restored(profile: Profile, file: Path) -> dict[str, Any]:
    return restore_ledger(profile, OPEN, file)


def sums(data: dict[str, Any]) -> dict[str, tuple[float, float]]:
    return {line["attribute"]: (line["spent"], line["lifetime"]) for line in data["lines"]}


def test_an_older_copy_adds_nothing(profile: Profile, tmp_path: Path) -> None:
    spend(profile, "food")
    older = copied(profile, tmp_path / "old.db")
    spend(profile, "health")
    data = restored(profile, older)
    assert (data["appended"], data["entries"], data["epoch"]) == (0, 3, 1)
    assert sums(data) == {"diabetes": (SPENT[2], SPENT[2]), "debt": (SPENT[1], SPENT[1])}
    assert (data["exhausted"], data["notices"]) == (False, [])


def test_what_an_old_ledger_put_back_has_lost_comes_home_and_counts_once(
    profile: Profile, tmp_path: Path
) -> None:
    """The high-water mark counts the lost charges already; with their entries they are not more."""
    spend(profile, "food")
    older = copied(profile, tmp_path / "old.db")
    spend(profile, "health", "finance")
    newer = copied(profile, tmp_path / "new.db")
    put_back(older, profile)
    data = restored(profile, newer)
    assert data["appended"] == 2
    assert sums(data) == {"diabetes": (SPENT[2], SPENT[2]), "debt": (SPENT[2], SPENT[2])}
    assert (data["exhausted"], data["notices"]) == (False, [])
    assert restored(profile, newer)["appended"] == 0


def test_an_epoch_that_an_old_ledger_has_lost_comes_home(profile: Profile, tmp_path: Path) -> None:
    spend(profile, "food")
    older = copied(profile, tmp_path / "old.db")
    spend(profile, "epoch", "health")
    newer = copied(profile, tmp_path / "new.db")
    put_back(older, profile)
    data = restored(profile, newer)
    assert (data["appended"], data["epoch"], data["exhausted"]) == (2, 2, False)
    assert sums(data) == {"diabetes": (SPENT[1], SPENT[2]), "debt": (SPENT[0], SPENT[1])}
    spend(profile, "health")


def test_what_both_copies_spent_by_themselves_counts_together(
    profile: Profile, tmp_path: Path
) -> None:
    older = copied(profile, tmp_path / "old.db")
    spend(profile, "food")
    one_way = copied(profile, tmp_path / "one.db")
    put_back(older, profile)
    ledger_place(profile).mark.unlink()
    spend(profile, "epoch", "health")
    data = restored(profile, one_way)
    assert (data["appended"], data["epoch"]) == (1, 2)
    assert sums(data) == {"diabetes": (SPENT[1], SPENT[2]), "debt": (SPENT[0], SPENT[1])}


def test_a_copy_on_another_machine_stays_exhausted_when_the_sources_epoch_arrives(
    profile: Profile, tmp_path: Path
) -> None:
    """The source may still spend in that epoch; both together would pass the cap."""
    replica = Profile.at(tmp_path / "replica")
    shutil.copytree(tmp_path / "p", tmp_path / "replica")
    ledger_place(replica).mark.unlink()
    spend(profile, "epoch", "food")
    data = restored(replica, profile.data / LEDGER_FILE)
    assert (data["appended"], data["epoch"], data["exhausted"]) == (2, 2, True)
    assert any("epoch new" in notice for notice in data["notices"])
    spend(replica, "epoch", "food")


def test_an_epoch_that_was_opened_elsewhere_is_exhausted_here(
    profile: Profile, tmp_path: Path
) -> None:
    replica = Profile.at(tmp_path / "replica")
    shutil.copytree(tmp_path / "p", tmp_path / "replica")
    spend(replica, "epoch", "food")
    data = restored(profile, replica.data / LEDGER_FILE)
    assert (data["epoch"], data["exhausted"]) == (2, True)
    assert sums(data) == {"diabetes": (SPENT[1], SPENT[1]), "debt": (SPENT[1], SPENT[1])}
    spend(profile, "epoch", "food")
    assert sums(restored(profile, replica.data / LEDGER_FILE)) == {
        "diabetes": (SPENT[1], SPENT[2]), "debt": (SPENT[1], SPENT[2])
    }  # fmt: skip


def damaged(file: Path, to: Path) -> Path:
    """The file with one byte of its newest entry turned over."""
    content = bytearray(file.read_bytes())
    with closing(sqlite3.connect(file)) as connection:
        (sealed,) = connection.execute(
            "SELECT sealed FROM entries ORDER BY sequence DESC LIMIT 1"
        ).fetchone()
    at = bytes(content).index(sealed[:64])
    content[at + 20] ^= 1
    to.write_bytes(content)
    return to


def of_another_store(folder: Path) -> Path:
    other = made(folder / "other")
    spend(other, "food")
    return other.data / LEDGER_FILE


def shortened(file: Path, to: Path) -> Path:
    to.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    return to


def another_database(to: Path) -> Path:
    with closing(sqlite3.connect(to)) as connection:
        connection.execute("CREATE TABLE entries (sequence, sealed)")
    return to


def newer_version(file: Path, to: Path) -> Path:
    shutil.copy(file, to)
    with closing(sqlite3.connect(to)) as connection:
        connection.execute("PRAGMA user_version=99")
    return to


def written(to: Path, text: str) -> Path:
    to.write_text(text)
    return to


@pytest.mark.parametrize(
    ("error", "make"),
    [
        (Unusable, lambda file, folder: damaged(file, folder / "x")),
        (Unusable, lambda file, folder: shortened(file, folder / "x")),
        (Unusable, lambda _, folder: of_another_store(folder)),
        (Unusable, lambda _, folder: another_database(folder / "x")),
        (Unusable, lambda _, folder: written(folder / "x", "not a database at all")),
        (Unusable, lambda _, folder: written(folder / "x", "")),
        (Unusable, lambda _, folder: folder),
        (Unusable, lambda file, folder: newer_version(file, folder / "x")),
        (NotFound, lambda _, folder: folder / "nothing"),
    ],
    ids=[
        "damaged", "shortened", "another store", "another database", "text", "empty", "folder",
        "newer version", "missing",
    ],
)  # fmt: skip
def test_what_is_no_copy_is_refused_and_nothing_is_changed(
    profile: Profile,
    tmp_path: Path,
    error: type[TactfulError],
    make: Callable[[Path, Path], Path],
) -> None:
    spend(profile, "food")
    file = make(profile.data / LEDGER_FILE, tmp_path)
    before, mark = entries(profile), ledger_place(profile).mark.read_bytes()
    with pytest.raises(error) as refused:
        restored(profile, file)
    assert str(file) in str(refused.value)
    assert entries(profile) == before
    assert ledger_place(profile).mark.read_bytes() == mark


def test_copies_that_went_separate_ways_are_refused(profile: Profile, tmp_path: Path) -> None:
    replica = Profile.at(tmp_path / "replica")
    shutil.copytree(tmp_path / "p", tmp_path / "replica")
    spend(replica, "epoch", "food")
    spend(profile, "epoch", "health")
    before = entries(profile)
    with pytest.raises(Unusable, match="separate ways"):
        restored(profile, replica.data / LEDGER_FILE)
    assert entries(profile) == before


def test_the_file_is_only_read_and_its_write_ahead_log_counts(
    profile: Profile, tmp_path: Path
) -> None:
    """A folder that was copied while a daemon ran has its newest entries in the log."""
    older = copied(profile, tmp_path / "old.db")
    folder = tmp_path / "copy"
    with closing(sqlite3.connect(profile.data / LEDGER_FILE)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entries").fetchone()
        spend(profile, "food")
        shutil.copytree(profile.data, folder)
    put_back(older, profile)
    for end in ("-wal", "-shm"):
        (profile.data / f"{LEDGER_FILE}{end}").unlink(missing_ok=True)
        if end == "-shm":
            (folder / f"{LEDGER_FILE}{end}").unlink(missing_ok=True)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert before[f"{LEDGER_FILE}-wal"]
    folder.chmod(0o500)
    try:
        assert restored(profile, folder / LEDGER_FILE)["appended"] == 1
    finally:
        folder.chmod(0o700)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_nothing_is_added_to_a_ledger_that_cannot_be_read(profile: Profile, tmp_path: Path) -> None:
    spend(profile, "food")
    copy = copied(profile, tmp_path / "copy.db")
    put_back(damaged(copy, tmp_path / "damaged.db"), profile)
    with pytest.raises(Unusable, match="cannot be read"):
        restored(profile, copy)


def test_a_profile_in_use_is_left_alone(profile: Profile, tmp_path: Path) -> None:
    with hold(profile.data), pytest.raises(AlreadyRunning):
        restored(profile, copied(profile, tmp_path / "copy.db"))


def test_the_key_is_needed(profile: Profile, tmp_path: Path) -> None:
    copy = copied(profile, tmp_path / "copy.db")
    with pytest.raises(KeyUnavailable):
        restore_ledger(profile, Secret("open salami"), copy)


def test_the_command_writes_one_line(
    profile: Profile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    copy = copied(profile, tmp_path / "copy.db")
    command = ["tactfuld", "one-shot", "ledger-restore", str(copy), "--profile"]
    monkeypatch.setattr("sys.argv", [*command, str(tmp_path / "p")])
    monkeypatch.setenv("TACTFUL_PASSPHRASE", OPEN.reveal())
    program.main()
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["data"]["file"] == str(copy)


def test_the_operating_systems_refusal_is_an_error_of_its_own(
    profile: Profile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "/x/ledger.db")

    copy = copied(profile, tmp_path / "copy.db")
    monkeypatch.setattr(shutil, "copyfile", full)
    command = ["tactfuld", "one-shot", "ledger-restore", str(copy), "--profile"]
    monkeypatch.setattr("sys.argv", [*command, str(tmp_path / "p")])
    monkeypatch.setenv("TACTFUL_PASSPHRASE", OPEN.reveal())
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == 74
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "io_failed"
