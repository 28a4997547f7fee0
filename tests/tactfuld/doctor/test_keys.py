"""What is told about keys, without ever showing one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from keyring.backends import fail
from tests.tactfuld.test_keys import DictKeyring

from tactful.profile import Profile
from tactful_core.sealing import PassphraseParameters
from tactful_core.values import Secret
from tactfuld import keyrings
from tactfuld.doctor.check import State
from tactfuld.doctor.keys import (
    KeyFacts,
    KeyringFacts,
    Opening,
    check_keyring,
    check_keys,
    key_facts,
    keyring_facts,
)
from tactfuld.keys.key_file import KEY_FILE
from tactfuld.keys.ring import KeyRing
from tactfuld.keys.sources import KeyringSource, PassphraseSource
from tactfuld.keys.values import Purpose

SOUND = KeyFacts(source="passphrase", recovery=True)
OPENED = Opening(done=True)
CHEAP = PassphraseParameters(salt=b"0123456789abcdef", iterations=1, lanes=1, memory_kib=8)


@pytest.fixture
def profile(profile_dir: Path) -> Profile:
    found = Profile.at(profile_dir)
    found.data.mkdir(mode=0o700)
    return found


def made(profile: Profile) -> KeyRing:
    return KeyRing.create(profile.data, PassphraseSource(Secret("open sesame"), CHEAP))


def test_keys_that_open_are_well_with_a_word_about_recovery() -> None:
    assert check_keys(SOUND, OPENED, ()).advice == ""
    without = check_keys(replace(SOUND, recovery=False), OPENED, ())
    assert (without.state, "tactful key recovery" in without.advice) == (State.OK, True)


def test_keys_that_nobody_could_open_are_unknown_and_a_wrong_key_is_a_problem() -> None:
    assert check_keys(SOUND, Opening(wanting="none was given."), ()).state is State.UNKNOWN
    wrong = check_keys(SOUND, Opening(refusal="The passphrase does not open this store."), ())
    assert (wrong.state, wrong.detail) == (
        State.PROBLEM,
        "The passphrase does not open this store.",
    )


def test_an_interrupted_replacement_is_told_and_is_a_problem_only_if_it_stays() -> None:
    halfway = replace(SOUND, changing=(Purpose.MEMORY,))
    ended = check_keys(halfway, OPENED, ())
    assert (ended.state, "replacement of the key of memory was ended" in ended.detail) == (
        State.OK,
        True,
    )
    stays = check_keys(halfway, OPENED, (Purpose.MEMORY,))
    assert (stays.state, "The key of memory is being replaced" in stays.detail) == (
        State.PROBLEM,
        True,
    )


def test_the_key_file_is_read_as_it_is(profile: Profile) -> None:
    ring = made(profile)
    found = key_facts(profile)
    assert (found.source, found.changing, found.recovery) == ("passphrase", (), False)
    assert {moment.what for moment in found.moments} == {KEY_FILE}
    ring.begin(Purpose.HISTORY, ring.keys(Purpose.HISTORY)[0].id)
    assert key_facts(profile).changing == (Purpose.HISTORY,)


def test_a_key_file_that_cannot_be_read_is_a_problem(profile: Profile) -> None:
    for content in (None, b"{}"):
        if content is not None:
            (profile.data / KEY_FILE).write_bytes(content)
        check = check_keys(key_facts(profile), Opening(wanting="nothing."), ())
        assert check.state is State.PROBLEM


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (KeyringFacts(current="a.Keyring"), State.NOT_APPLICABLE),
        (KeyringFacts("a.Keyring", "a.Keyring", ("a.Keyring",), entry=True), State.OK),
        (KeyringFacts("a.Keyring", "a.Keyring", ("a.Keyring",)), State.PROBLEM),
        (KeyringFacts("a.Keyring", "fail.Keyring"), State.PROBLEM),
        (KeyringFacts("a.Keyring", complaint="It is locked."), State.PROBLEM),
    ],
)
def test_a_keyring_matters_where_the_key_is_in_one(found: KeyringFacts, state: State) -> None:
    assert check_keyring(found).state is state


def test_the_keyring_is_really_asked(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = DictKeyring({})
    KeyRing.create(profile.data, KeyringSource(kept))
    monkeypatch.setattr(keyrings, "configured_backend", lambda: kept)
    assert check_keyring(keyring_facts(profile)).state is State.OK
    kept.entries.clear()
    assert not keyring_facts(profile).entry
    monkeypatch.setattr(keyrings, "configured_backend", fail.Keyring)
    lost = check_keyring(keyring_facts(profile))
    assert (lost.state, "does not keep secrets safely" in lost.detail) == (State.PROBLEM, True)


def test_a_passphrase_needs_no_keyring(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    made(profile)
    monkeypatch.setattr(keyrings, "configured_backend", fail.Keyring)
    check = check_keyring(keyring_facts(profile))
    assert (check.state, "keyring.backends.fail.Keyring" in check.detail) == (
        State.NOT_APPLICABLE,
        True,
    )
