"""A backup holds a whole profile, opens only with its secret, and takes the place of nothing."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.daemon_process import PASSPHRASE, make_profile
from tests.fakes.killable import opened
from tests.tactfuld.test_killed_rotation import fill

from tactful.errors import AlreadyExists, KeyUnavailable, NotFound, PassphraseNeeded, Unusable
from tactful.profile import Profile
from tactful_core.sealing import PassphraseParameters
from tactful_core.values import Secret
from tactfuld.backup import making
from tactfuld.backup.contents import packed, unpacked
from tactfuld.backup.making import Wishes, make_backup, opened_backup, typed_secret, verify_backup
from tactfuld.keys.ring import KeyRing
from tactfuld.keys.sources import Asked
from tactfuld.locking import hold
from tactfuld.store.connection import snapshot
from tactfuld.unlocking import unlock

OPEN = Secret(PASSPHRASE)
OWN = Secret("the backup's own")
CHEAP = PassphraseParameters(salt=b"0123456789abcdef", iterations=1, lanes=1, memory_kib=8)


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "fresh_parameters", lambda: CHEAP)


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """One memory, one charge, one turn."""
    made = make_profile(tmp_path / "p")
    asyncio.run(fill(made))
    return made


def unheard(_what: str, _done: int, _total: int) -> None:
    pass


def backed_up(
    profile: Profile,
    file: Path,
    own: Secret[str] | None = OWN,
    *,
    history: bool = True,
    force: bool = False,
) -> dict[str, Any]:
    return make_backup(profile, OPEN, own, Wishes(file, history=history, force=force), unheard)


def test_it_holds_everything(profile: Profile, tmp_path: Path) -> None:
    file = tmp_path / "b"
    told = backed_up(profile, file)
    assert {name: told[name] for name in ("memories", "entries", "turns", "lock")} == {
        "memories": 1,
        "entries": 2,
        "turns": 1,
        "lock": "passphrase",
    }
    assert told["size"] == file.stat().st_size
    store_id, contents, found = opened_backup(file, OWN, unheard)
    assert store_id == unlock(profile, OPEN).store_id
    assert [memory.text for _, memory in found.memories] == ["I eat no nuts."]
    assert contents.files["policy.yaml"] == profile.policy_file.read_bytes()
    assert contents.files["settings.yaml"] == profile.settings_file.read_bytes()
    assert verify_backup(file, OWN, unheard)["memories"] == 1


def test_history_can_be_left_out(profile: Profile, tmp_path: Path) -> None:
    assert backed_up(profile, tmp_path / "b", history=False)["turns"] is None
    _, contents, _ = opened_backup(tmp_path / "b", OWN, unheard)
    assert "history.db" not in contents.files


def test_the_recovery_phrase_locks_it_without_being_typed(profile: Profile, tmp_path: Path) -> None:
    """And it opens with the phrase of its time, also after a newer one was made."""
    file = tmp_path / "b"
    phrase = unlock(profile, OPEN).renew_recovery()
    assert backed_up(profile, file, None)["lock"] == "recovery"
    newer = unlock(profile, OPEN).renew_recovery()
    assert verify_backup(file, phrase, unheard)["memories"] == 1
    with pytest.raises(KeyUnavailable, match="phrase"):
        verify_backup(file, newer, unheard)
    short = " ".join(word[:4].upper() for word in phrase.reveal().split())
    assert typed_secret(file, Secret(short)).reveal() == phrase.reveal()


def test_without_a_phrase_it_needs_a_passphrase(profile: Profile, tmp_path: Path) -> None:
    with pytest.raises(PassphraseNeeded, match="recovery phrase"):
        backed_up(profile, tmp_path / "b", None)
    assert not (tmp_path / "b").exists()


def test_memory_takes_the_same_room_in_it_whether_full_or_empty(tmp_path: Path) -> None:
    sizes = set()
    for name in ("empty", "full"):
        made = make_profile(tmp_path / name)
        if name == "full":
            asyncio.run(fill(made))
        backed_up(made, tmp_path / f"{name}.backup")
        _, contents, _ = opened_backup(tmp_path / f"{name}.backup", OWN, unheard)
        sizes.add(len(contents.files["memory.db"]))
    assert len(sizes) == 1


def test_a_file_that_is_there_is_kept(profile: Profile, tmp_path: Path) -> None:
    file = tmp_path / "b"
    file.write_text("mine")
    with pytest.raises(AlreadyExists, match="--force"):
        backed_up(profile, file)
    assert file.read_text() == "mine"
    backed_up(profile, file, force=True)
    assert verify_backup(file, OWN, unheard)["memories"] == 1


def test_a_folder_is_never_replaced(profile: Profile, tmp_path: Path) -> None:
    with pytest.raises(AlreadyExists):
        backed_up(profile, tmp_path, force=True)


def test_breaking_off_leaves_what_was_there(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    (folder / "b").write_text("mine")

    def interrupted(what: str, _done: int, _total: int) -> None:
        if what == "writing the backup":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_backup(profile, OPEN, OWN, Wishes(folder / "b", True, True), interrupted)
    assert [each.name for each in folder.iterdir()] == ["b"]
    assert (folder / "b").read_text() == "mine"


def test_only_the_owner_may_read_it(profile: Profile, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        backed_up(profile, tmp_path / "b")
    finally:
        os.umask(before)
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600


def test_it_works_while_another_process_holds_the_profile(profile: Profile, tmp_path: Path) -> None:
    leftover = profile.data / "keys.json.new"
    leftover.write_text("what the other process is writing")
    with hold(profile.data):
        backed_up(profile, tmp_path / "b")
    assert leftover.exists()


def test_a_key_that_is_replaced_meanwhile_is_read_again(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rotations = iter([True])

    def rotating(path: Path) -> tuple[bytes, bytes]:
        if path.name == "memory.db" and next(rotations, False):
            asyncio.run(_rotate(profile))
        return snapshot(path)

    monkeypatch.setattr(making, "snapshot", rotating)
    assert backed_up(profile, tmp_path / "b")["memories"] == 1
    assert verify_backup(tmp_path / "b", OWN, unheard)["entries"] == 2


async def _rotate(profile: Profile) -> None:
    async with opened(profile) as stores:
        await stores.memory.rotate()
        await stores.ledger.rotate()


@pytest.mark.parametrize("name", ["memory.db", "ledger.db", "history.db"])
def test_a_damaged_profile_gives_no_backup(profile: Profile, tmp_path: Path, name: str) -> None:
    data = bytearray((profile.data / name).read_bytes())
    at = data.rindex(beginning_of_a_row(profile, name))
    data[at + 20] ^= 1
    (profile.data / name).write_bytes(bytes(data))
    with pytest.raises(Unusable):
        backed_up(profile, tmp_path / "b")
    assert not (tmp_path / "b").exists()


_FIRST = {
    "memory.db": "SELECT sealed FROM rows LIMIT 1",
    "ledger.db": "SELECT sealed FROM entries LIMIT 1",
    "history.db": "SELECT sealed FROM turns LIMIT 1",
}


def beginning_of_a_row(profile: Profile, name: str) -> bytes:
    with closing(sqlite3.connect(profile.data / name)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (sealed,) = connection.execute(_FIRST[name]).fetchone()
    return bytes(sealed[:64])


def test_a_wrong_passphrase_of_the_profile_is_refused(profile: Profile, tmp_path: Path) -> None:
    wishes = Wishes(tmp_path / "b", history=True, force=False)
    with pytest.raises(KeyUnavailable):
        make_backup(profile, Secret("wrong"), OWN, wishes, unheard)


def test_a_missing_profile_is_named(tmp_path: Path) -> None:
    profile = Profile.at(tmp_path / "none")
    with pytest.raises((NotFound, Unusable), match="tactful init"):
        make_backup(profile, OPEN, OWN, Wishes(tmp_path / "b", True, False), unheard)


@pytest.mark.parametrize("cut", [0, 3, 20, -1])
def test_contents_in_another_form_are_refused(profile: Profile, tmp_path: Path, cut: int) -> None:
    backed_up(profile, tmp_path / "b")
    _, contents, _ = opened_backup(tmp_path / "b", OWN, unheard)
    whole = b"".join(packed(contents)[1])
    assert unpacked(tmp_path / "b", [whole]).files == contents.files
    with pytest.raises(Unusable, match="not in the form") as told:
        unpacked(tmp_path / "b", [whole[:cut]])
    assert told.value.__cause__ is None


def test_neither_contents_nor_rings_show_keys(profile: Profile, tmp_path: Path) -> None:
    backed_up(profile, tmp_path / "b")
    _, contents, found = opened_backup(tmp_path / "b", OWN, unheard)
    shown = repr(contents) + repr(found) + repr(KeyRing.read(profile.data, Asked(OPEN)).recovery())
    for key in contents.keys.values():
        assert key.key.reveal().hex() not in shown
    assert "nuts" not in shown


def refuses_flips(file: Path, positions: Iterable[int]) -> None:
    whole, damaged = file.read_bytes(), file.with_name("damaged")
    for at in positions:
        changed = bytearray(whole)
        changed[at] ^= 1 << random.randrange(8)
        damaged.write_bytes(bytes(changed))
        with pytest.raises(Unusable):
            verify_backup(damaged, OWN, unheard)


def test_a_bit_flipped_anywhere_in_a_real_backup_is_found(profile: Profile, tmp_path: Path) -> None:
    size = backed_up(profile, tmp_path / "b")["size"]
    refuses_flips(tmp_path / "b", random.sample(range(size), 200))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_byte_of_a_real_backup_is_needed_as_it_is(profile: Profile, tmp_path: Path) -> None:
    size = backed_up(profile, tmp_path / "b")["size"]
    refuses_flips(tmp_path / "b", range(size))
