"""Purging destroys keys, then what is ours, and touches nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backends.fail import Keyring as NoKeyring
from tests.fakes.daemon_process import PASSPHRASE, make_profile
from tests.tactfuld.test_keys import DictKeyring

from tactful.errors import AlreadyRunning, NotFound, Unusable
from tactful.profile import Profile
from tactful_core.values import Secret
from tactfuld import purging
from tactfuld.keys.key_file import KEY_FILE
from tactfuld.keys.ring import KeyRing
from tactfuld.keys.sources import KeyringSource
from tactfuld.locking import hold
from tactfuld.policy_versions import keep_version, versions
from tactfuld.purging import purge
from tactfuld.unlocking import unlock


@pytest.fixture(autouse=True)
def no_keyring() -> Iterator[None]:
    before = keyring.get_keyring()
    keyring.set_keyring(NoKeyring())  # type: ignore[no-untyped-call]
    yield
    keyring.set_keyring(before)


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    return make_profile(tmp_path / "p")


def below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_nothing_of_ours_is_left_but_policy_and_settings(profile: Profile) -> None:
    (profile.state / "apps" / "meals").mkdir(parents=True)
    (profile.state / "apps" / "meals" / "notes").write_text("x")
    keep_version(profile)
    assert versions(profile)
    profile.log_file.write_text("x")
    told = purge(profile, with_config=False)
    assert told["kept"] == []
    assert below(profile.config.parent) == ["config", "config/policy.yaml", "config/settings.yaml"]


def test_with_config_the_rest_goes_too(profile: Profile) -> None:
    assert purge(profile, with_config=True)["config_kept"] is False
    assert below(profile.config.parent) == []


def test_what_is_not_ours_stays_and_is_named(profile: Profile, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "photo").write_text("mine")
    (profile.state / "apps").symlink_to(outside)
    (profile.data / "diary.txt").write_text("mine")
    told = purge(profile, with_config=True)
    assert told["kept"] == [str(profile.data / "diary.txt"), str(profile.state / "apps")]
    assert (profile.data / "diary.txt").read_text() == "mine"
    assert (outside / "photo").read_text() == "mine"


def test_the_keys_go_first(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is interrupted afterwards has left nothing that opens."""

    def interrupted(_folder: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(purging, "_empty", interrupted)
    with pytest.raises(KeyboardInterrupt):
        purge(profile, with_config=False)
    assert not (profile.data / KEY_FILE).exists()
    assert (profile.data / "memory.db").exists()
    with pytest.raises(Unusable, match=r"no keys\.json"):
        unlock(profile, Secret(PASSPHRASE))


def test_the_key_file_is_overwritten_where_it_lies(profile: Profile) -> None:
    copy = profile.config.parent / "link"
    os.link(profile.data / KEY_FILE, copy)
    size = copy.stat().st_size
    purge(profile, with_config=True)
    assert copy.read_bytes() == bytes(size)


def test_the_entries_in_a_keyring_go(profile: Profile) -> None:
    backend = DictKeyring({})
    keyring.set_keyring(backend)
    unlock(profile, Secret(PASSPHRASE)).change_source(KeyringSource(backend))
    store_id = unlock(profile, None).store_id
    backend.entries["tactful", f"{store_id.hex()} mark"] = "x"
    backend.entries["tactful", "another profile's"] = "y"
    left = str(purge(profile, with_config=False)["out_of_reach"])
    assert list(backend.entries) == [("tactful", "another profile's")]
    assert "did not give up" not in left


def test_a_keyring_that_is_away_is_said(profile: Profile) -> None:
    unlock(profile, Secret(PASSPHRASE)).change_source(KeyringSource(DictKeyring({})))
    assert "did not give up" in str(purge(profile, with_config=False)["out_of_reach"])


def test_what_it_cannot_reach_is_said(profile: Profile) -> None:
    left = " ".join(map(str, [purge(profile, with_config=False)["out_of_reach"]]))
    for word in ("Backups", "Snapshots", "SSD", "Models"):
        assert word in left


def test_a_running_daemon_is_left_alone(profile: Profile) -> None:
    before = below(profile.config.parent)
    with hold(profile.data), pytest.raises(AlreadyRunning):
        purge(profile, with_config=False)
    assert [name for name in below(profile.config.parent) if name != "data/lock"] == before


def test_a_damaged_profile_can_be_purged(profile: Profile) -> None:
    (profile.data / KEY_FILE).write_text("damaged")
    purge(profile, with_config=True)
    assert below(profile.config.parent) == []


def test_where_there_is_none_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no profile"):
        purge(Profile.at(tmp_path / "none"), with_config=True)
    assert below(tmp_path) == []


def test_a_ring_that_is_open_can_still_be_purged_later(profile: Profile) -> None:
    assert isinstance(unlock(profile, Secret(PASSPHRASE)), KeyRing)
    purge(profile, with_config=True)
    assert below(profile.config.parent) == []
