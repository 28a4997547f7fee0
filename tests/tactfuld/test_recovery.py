"""The recovery phrase opens the store; a new one shuts the old one out."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from tests.vectors import reference

from tactful.errors import KeyUnavailable, TryLater, Unusable
from tactful_core.sealing import PassphraseParameters
from tactful_core.values import Secret
from tactfuld.keys.attempts import FREE_ATTEMPTS, Attempts
from tactfuld.keys.key_file import KEY_FILE
from tactfuld.keys.recovery import new_phrase, phrase_of
from tactfuld.keys.ring import KeyRing
from tactfuld.keys.sources import Asked, PassphraseSource
from tactfuld.keys.values import Purpose

CHEAP = PassphraseParameters(salt=b"0123456789abcdef", iterations=1, lanes=1, memory_kib=8)
VECTORS = Path(__file__).parents[1] / "vectors" / "key_files.json"
PHRASE = "legal winner thank year wave sausage worth useful legal winner thank yellow"
"""A test vector of BIP-39, for the bytes 7f … 7f."""


def source(passphrase: str) -> PassphraseSource:
    return PassphraseSource(Secret(passphrase), CHEAP)


def opened(folder: Path, passphrase: str) -> KeyRing:
    return KeyRing.open(folder, Asked(Secret(passphrase)))


def recovered(folder: Path, phrase: Secret[str], passphrase: str = "new") -> KeyRing:
    return KeyRing.recover(folder, phrase, source(passphrase), Attempts(folder))


def revealed(ring: KeyRing) -> list[bytes]:
    return [key.key.reveal() for purpose in Purpose for key in ring.keys(purpose)]


# --- words ----------------------------------------------------------------------------------------


def test_phrase_has_twelve_words_of_which_no_two_phrases_are_alike() -> None:
    phrases = {new_phrase().reveal() for _ in range(50)}
    assert len(phrases) == 50
    assert all(phrase_of(Secret(phrase)).reveal() == phrase for phrase in phrases)
    assert {len(phrase.split()) for phrase in phrases} == {12}


@pytest.mark.parametrize(
    "typed",
    [
        PHRASE,
        f"  {PHRASE.upper()}\t",
        PHRASE.replace(" ", "   "),
        " ".join(word[:4] for word in PHRASE.split()),
    ],
)
def test_phrase_may_be_typed_in_many_ways(typed: str) -> None:
    assert phrase_of(Secret(typed)).reveal() == PHRASE


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("", "12 words; 0 were given"),
        (PHRASE + " year", "12 words; 13 were given"),
        (PHRASE.replace("winner", "wimmer", 1), r"Word 2 .* is not in its list"),
        (PHRASE.replace("wave", "wav"), r"Word 5 .* is not"),
        (PHRASE.replace("year wave", "yeer waev"), r"Words 4 and 5 .* are not"),
        (PHRASE.replace("wave", "year"), "must be another one"),
        (PHRASE.replace("year wave", "wave year"), "changed places"),
    ],
)
def test_slip_is_named_without_repeating_the_phrase(typed: str, told: str) -> None:
    with pytest.raises(KeyUnavailable, match=told) as refusal:
        phrase_of(Secret(typed))
    assert not set(str(refusal.value).split()) & {"winner", "wimmer", "yeer", "sausage"}


# --- what it opens --------------------------------------------------------------------------------


def test_phrase_opens_the_store_and_sets_a_new_passphrase(tmp_path: Path) -> None:
    ring = KeyRing.create(tmp_path, source("old"))
    phrase = ring.renew_recovery()
    expected = revealed(ring)
    assert revealed(recovered(tmp_path, phrase)) == expected
    assert revealed(opened(tmp_path, "new")) == expected
    with pytest.raises(KeyUnavailable):
        opened(tmp_path, "old")
    assert revealed(recovered(tmp_path, phrase, "newer")) == expected, "it is still in force"


def test_new_phrase_keeps_all_keys_and_shuts_the_old_one_out(tmp_path: Path) -> None:
    ring = KeyRing.create(tmp_path, source("old"))
    first, expected = ring.renew_recovery(), revealed(ring)
    second = ring.renew_recovery()
    assert revealed(opened(tmp_path, "old")) == expected
    with pytest.raises(KeyUnavailable, match="newer phrase"):
        recovered(tmp_path, first)
    assert revealed(recovered(tmp_path, second)) == expected


def test_copy_of_the_file_with_the_old_phrase_does_not_open_the_newer_file(tmp_path: Path) -> None:
    """The master key changes with the phrase: knowing the old one is worth nothing."""
    ring = KeyRing.create(tmp_path, source("old"))
    ring.renew_recovery()
    old_master = ring._master.reveal()
    ring.renew_recovery()
    assert ring._master.reveal() != old_master
    assert opened(tmp_path, "old")._master.reveal() == ring._master.reveal()


def test_ring_goes_on_after_a_new_phrase(tmp_path: Path) -> None:
    ring = KeyRing.create(tmp_path, source("old"))
    phrase = ring.renew_recovery()
    (before,) = ring.keys(Purpose.MEMORY)
    fresh = ring.begin(Purpose.MEMORY, before.id)
    ring.finish(Purpose.MEMORY, fresh.id)
    assert revealed(opened(tmp_path, "old")) == revealed(ring)
    assert revealed(recovered(tmp_path, phrase)) == revealed(ring)


def test_store_without_a_phrase_says_so(tmp_path: Path) -> None:
    KeyRing.create(tmp_path, source("old"))
    with pytest.raises(KeyUnavailable, match="without a recovery phrase"):
        recovered(tmp_path, new_phrase())


def test_wrong_phrases_slow_down(tmp_path: Path) -> None:
    phrase = KeyRing.create(tmp_path, source("old")).renew_recovery()
    for _ in range(FREE_ATTEMPTS):
        with pytest.raises(KeyUnavailable):
            recovered(tmp_path, new_phrase())
    with pytest.raises(TryLater):
        recovered(tmp_path, phrase)


def test_file_holds_nothing_of_the_phrase(tmp_path: Path) -> None:
    phrase = KeyRing.create(tmp_path, source("old")).renew_recovery().reveal()
    content = (tmp_path / KEY_FILE).read_bytes()
    for form in (phrase.encode(), phrase.encode().hex().encode()):
        assert form not in content
        assert base64.b64encode(form) not in content


def test_no_byte_of_the_file_can_be_flipped_for_who_has_the_phrase(tmp_path: Path) -> None:
    phrase = KeyRing.create(tmp_path, source("old")).renew_recovery()
    path = tmp_path / KEY_FILE
    good = path.read_bytes()
    for index in range(len(good)):
        flipped = bytearray(good)
        flipped[index] ^= 1
        path.write_bytes(flipped)
        Attempts(tmp_path)._clear()
        with pytest.raises((KeyUnavailable, Unusable)):
            recovered(tmp_path, phrase)
        assert path.read_bytes() == flipped


def test_phrase_of_the_vector_opens_its_file_and_wraps_as_the_specification_says(
    tmp_path: Path,
) -> None:
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))["open"]
    (vector,) = (each for each in vectors if "phrase" in each)
    (tmp_path / KEY_FILE).write_text(vector["text"])
    record = json.loads(vector["text"])["recovery"]
    key = reference.kek_from_passphrase(
        vector["phrase"],
        bytes.fromhex(record["salt"]),
        record["iterations"],
        record["lanes"],
        record["memory_kib"],
    )
    master, store_id = bytes.fromhex(vector["master_key"]), bytes.fromhex(vector["store_id"])
    nonce = bytes.fromhex(vector["recovery_nonce"])
    wrapped = reference.wrap(key, master, b"recovery", store_id, b"", nonce)
    assert record["wrapped"] == wrapped.hex()
    ring = recovered(tmp_path, phrase_of(Secret(vector["phrase"])))
    (memory,) = ring.keys(Purpose.MEMORY)
    assert memory.key.reveal().hex() == vector["memory"][0]["key"]
