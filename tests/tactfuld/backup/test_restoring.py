"""Restoring never lowers a ledger, gives back what a backup holds, and is done or not done."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.daemon_process import PASSPHRASE, make_profile
from tests.fakes.killable import opened
from tests.tactfuld.test_killed_rotation import fill

from tactful.errors import (
    AlreadyExists,
    AlreadyRunning,
    KeyUnavailable,
    PassphraseNeeded,
    TactfulError,
    Unusable,
)
from tactful.profile import Profile
from tactful_core.entries import Charge, Entry, Mechanism, new_entry_id
from tactful_core.ledger import Admitted, Ledger, Refusal, Refused
from tactful_core.sealing import PassphraseParameters
from tactful_core.values import AppId, Secret, ShelfName, SlotName, Units
from tactfuld.backup import making, restoring
from tactfuld.backup.making import make_backup
from tactfuld.backup.restoring import Wishes, place_of, restore_backup
from tactfuld.keys.key_file import UNFINISHED, read_key_file
from tactfuld.keys.sources import PassphraseSource
from tactfuld.locking import hold
from tactfuld.policy.loading import load_policy
from tactfuld.unlocking import unlock

REPOSITORY = Path(__file__).parents[3]
OPEN, OWN = Secret(PASSPHRASE), Secret("the backup's own")
CHEAP = PassphraseParameters(salt=b"0123456789abcdef", iterations=1, lanes=1, memory_kib=8)


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "fresh_parameters", lambda: CHEAP)

    def source(_wanted: object, asked: Any) -> PassphraseSource:
        if asked.passphrase is None:
            raise PassphraseNeeded("None was given.")
        return PassphraseSource(asked.passphrase, CHEAP)

    monkeypatch.setattr(restoring, "choose_source", source)


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """One memory, one charge, one turn."""
    made = make_profile(tmp_path / "p")
    asyncio.run(fill(made))
    return made


@pytest.fixture
def backup(profile: Profile, tmp_path: Path) -> Path:
    file = tmp_path / "backup"
    make_backup(profile, OPEN, OWN, making.Wishes(file, history=True, force=False), unheard)
    return file


def unheard(_what: str, _done: int, _total: int) -> None:
    pass


def restored(
    profile: Profile,
    file: Path,
    *,
    ledger_only: bool = False,
    with_policy: bool = False,
    recovery: bool = False,
) -> dict[str, Any]:
    wishes = Wishes(file, ledger_only, with_policy, None, recovery)
    return restore_backup(profile, OPEN, OWN, wishes, unheard)


def charge(profile: Profile, epoch: int = 1) -> Charge:
    promises = load_policy(profile.policy_file)
    slot = promises.layout.slot(SlotName("food"))
    return Charge(
        id=new_entry_id(),
        epoch=epoch,
        app=AppId("meals"),
        slot=slot.name,
        mechanism=Mechanism.EXPONENTIAL,
        positions=frozenset(slot.positions),
        charged=promises.charge_set(slot),
        units=Units(1000),
        policy=promises.digest,
    )


def spend(profile: Profile, epoch: int = 1) -> Admitted | Refused:
    promises, wanted = load_policy(profile.policy_file), charge(profile, epoch)

    async def run() -> Admitted | Refused:
        async with opened(profile) as stores:
            return await stores.ledger.admit(wanted, promises)

    return asyncio.run(run())


def remember(profile: Profile, text: str) -> None:
    async def run() -> None:
        async with opened(profile) as stores:
            await stores.memory.remember(text, ShelfName("food.groceries"), None, 1)

    asyncio.run(run())


def texts(profile: Profile) -> list[str]:
    async def run() -> list[str]:
        async with opened(profile) as stores:
            return [memory.text for _, memory in await stores.memory.listing()]

    return asyncio.run(run())


def entries(profile: Profile) -> tuple[Entry, ...]:
    async def run() -> tuple[Entry, ...]:
        async with opened(profile) as stores:
            return await stores.ledger.entries()

    return asyncio.run(run())


def turns(profile: Profile) -> int:
    async def run() -> int:
        async with opened(profile) as stores:
            return len(await stores.history.listing(None, None, 10))

    return asyncio.run(run())


def files(profile: Profile) -> dict[str, bytes]:
    folder = profile.config.parent
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


# --- into the profile that it was made of ---------------------------------------------------------


def test_memory_becomes_the_backups_and_the_ledger_keeps_what_is_newer(
    profile: Profile, backup: Path
) -> None:
    remember(profile, "I like soup.")
    assert isinstance(spend(profile), Admitted)
    before = entries(profile)
    told = restored(profile, backup)
    assert (told["place"], told["memories"], told["appended"]) == ("same", 1, 0)
    assert not told["exhausted"]
    assert texts(profile) == ["I eat no nuts."]
    assert entries(profile) == before
    assert turns(profile) == 1


def test_what_the_ledger_lacks_is_added(profile: Profile, backup: Path, tmp_path: Path) -> None:
    """Also after the ledger's key was replaced: a backup brings the key of its own."""
    older = tmp_path / "older"
    shutil.copytree(profile.config.parent, older)
    assert isinstance(spend(profile), Admitted)
    newer = tmp_path / "newer"
    make_backup(profile, OPEN, OWN, making.Wishes(newer, history=True, force=False), unheard)

    async def rotate() -> None:
        async with opened(Profile.at(older)) as stores:
            await stores.ledger.rotate()

    asyncio.run(rotate())
    assert restored(Profile.at(older), newer)["appended"] == 1
    assert entries(Profile.at(older)) == entries(profile)


def test_memory_can_be_left_as_it_is(profile: Profile, backup: Path) -> None:
    remember(profile, "I like soup.")
    assert restored(profile, backup, ledger_only=True)["memories"] is None
    assert texts(profile) == ["I eat no nuts.", "I like soup."]


def test_policy_and_settings_stay_unless_they_are_wanted(profile: Profile, backup: Path) -> None:
    original = profile.policy_file.read_bytes(), profile.settings_file.read_bytes()
    profile.policy_file.write_bytes(original[0] + b"# mine\n")
    profile.settings_file.write_bytes(original[1] + b"# mine\n")
    restored(profile, backup)
    assert profile.policy_file.read_bytes().endswith(b"# mine\n")
    restored(profile, backup, with_policy=True)
    assert (profile.policy_file.read_bytes(), profile.settings_file.read_bytes()) == original


def test_a_backup_of_another_profile_is_refused(backup: Path, tmp_path: Path) -> None:
    other = make_profile(tmp_path / "other")
    before = files(other)
    assert place_of(other, b"x" * 16) == "other"
    with pytest.raises(Unusable, match="another profile"):
        restored(other, backup)
    assert files(other) == before


def test_a_policy_with_other_shelves_keeps_memory_as_it_is(profile: Profile, backup: Path) -> None:
    text = profile.policy_file.read_text()
    profile.policy_file.write_text(text.replace("tokens: 48", "tokens: 47"))
    assert profile.policy_file.read_text() != text
    with pytest.raises(Unusable, match="--ledger-only"):
        restored(profile, backup)
    assert restored(profile, backup, ledger_only=True)["appended"] == 0


def test_a_wrong_secret_changes_nothing(profile: Profile, backup: Path) -> None:
    before = files(profile)
    wishes = Wishes(backup, False, False, None, False)
    with pytest.raises(KeyUnavailable):
        restore_backup(profile, OPEN, Secret("wrong"), wishes, unheard)
    assert files(profile) == before


def test_a_running_daemon_is_left_alone(profile: Profile, backup: Path) -> None:
    with hold(profile.data), pytest.raises(AlreadyRunning):
        restored(profile, backup)


# --- into an empty place --------------------------------------------------------------------------


def test_a_copy_is_whole_and_exhausted_until_a_new_epoch(
    profile: Profile, backup: Path, tmp_path: Path
) -> None:
    """GUARANTEE §3: on the same machine too, whose name the mark has."""
    copy = Profile.at(tmp_path / "copy")
    told = restored(copy, backup)
    assert (told["place"], told["memories"], told["exhausted"]) == ("empty", 1, True)
    assert texts(copy) == ["I eat no nuts."]
    assert entries(copy) == entries(profile)
    assert turns(copy) == 1
    assert spend(copy) == Refused(Refusal.CAP)

    async def renew() -> int | None:
        async with opened(copy) as stores:
            return await stores.ledger.open_next_epoch(0)

    assert asyncio.run(renew()) == 2
    assert isinstance(spend(copy, epoch=2), Admitted)
    assert copy.policy_file.read_bytes() == profile.policy_file.read_bytes()
    assert copy.settings_file.read_bytes() == profile.settings_file.read_bytes()


def test_a_copy_has_a_key_and_a_phrase_of_its_own(
    profile: Profile, backup: Path, tmp_path: Path
) -> None:
    copy = Profile.at(tmp_path / "copy")
    phrase = restored(copy, backup, recovery=True)["recovery_phrase"]
    assert len(phrase.split()) == 12
    there, here = read_key_file(profile.data), read_key_file(copy.data)
    assert here.store_id == there.store_id
    assert here.master != there.master
    assert unlock(copy, OPEN).store_id == unlock(profile, OPEN).store_id


def test_what_this_machine_knows_of_a_lifetime_stays(profile: Profile, backup: Path) -> None:
    """The data folder was lost, the state folder with its mark was not."""

    attributes = load_policy(profile.policy_file).layout.attributes

    async def lifetime() -> int:
        async with opened(profile) as stores:
            ledger = stores.ledger.snapshot()
            assert isinstance(ledger, Ledger)
            return sum(ledger.lifetime_spent(attribute) for attribute in attributes)

    assert isinstance(spend(profile), Admitted)
    before = asyncio.run(lifetime())
    assert before > 0
    shutil.rmtree(profile.data)
    assert restored(profile, backup)["exhausted"]
    assert asyncio.run(lifetime()) == before


def test_a_policy_of_other_shelves_that_is_there_is_kept(backup: Path, tmp_path: Path) -> None:
    place = make_profile(tmp_path / "place")
    shutil.rmtree(place.data)
    text = place.policy_file.read_text().replace("tokens: 48", "tokens: 47")
    place.policy_file.write_text(text)
    with pytest.raises(AlreadyExists, match="Move it away"):
        restored(place, backup)
    assert place.policy_file.read_text() == text
    assert not (place.data / "keys.json").exists()


def test_what_could_not_be_done_leaves_nothing(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: Path, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(restoring, "put_file", full)
    copy = Profile.at(tmp_path / "copy")
    with pytest.raises(OSError, match="No space"):
        restored(copy, backup)
    assert files(copy) == {}


# --- being killed ---------------------------------------------------------------------------------


def killed(folder: Path, backup: Path, kills: int, longest: float) -> Iterator[None]:
    """Kills restores at random moments; yields after each."""
    command = [sys.executable, "-m", "tests.fakes.restoring", str(folder), str(backup)]
    with subprocess.Popen(
        [*command, OWN.reveal()],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as zygote:
        assert zygote.stdin is not None
        assert zygote.stdout is not None
        for _ in range(kills):
            zygote.stdin.write("again\n")
            pid = int(zygote.stdout.readline())
            time.sleep(random.uniform(0, longest))
            os.kill(pid, signal.SIGKILL)
            assert zygote.stdout.readline() == "dead\n"
            yield
        zygote.stdin.close()


def survives(profile: Profile, backup: Path, kills: int) -> None:
    remember(profile, "I like soup.")
    assert isinstance(spend(profile), Admitted)
    before, sets = entries(profile), (["I eat no nuts.", "I like soup."], ["I eat no nuts."])
    for _ in killed(profile.config.parent, backup, kills, 0.3):
        assert entries(profile) == before
        assert texts(profile) in sets


def begins_anew(backup: Path, folder: Path, kills: int) -> None:
    place = Profile.at(folder)
    whole = 0
    for _ in killed(folder, backup, kills, 0.8):
        if (place.data / UNFINISHED).exists():
            with pytest.raises(TactfulError, match="interrupted"):
                unlock(place, OPEN)
        elif (place.data / "keys.json").exists():
            assert texts(place) == ["I eat no nuts."]
            whole += 1
            shutil.rmtree(folder)
    restored(place, backup)
    assert texts(place) == ["I eat no nuts."]
    assert whole <= kills


def test_killed_restores_leave_a_profile_that_opens(profile: Profile, backup: Path) -> None:
    survives(profile, backup, 20)


def test_killed_restores_into_an_empty_place_begin_anew(backup: Path, tmp_path: Path) -> None:
    begins_anew(backup, tmp_path / "copy", 20)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_200_killed_restores_leave_a_profile_that_opens(profile: Profile, backup: Path) -> None:
    survives(profile, backup, 200)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_200_killed_restores_into_an_empty_place_begin_anew(backup: Path, tmp_path: Path) -> None:
    begins_anew(backup, tmp_path / "copy", 200)
