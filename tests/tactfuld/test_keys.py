"""Keys come from a trusted keyring or a passphrase, and every way to fail has a name."""

from __future__ import annotations

import base64
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail, null
from keyring.backends.chainer import ChainerBackend
from tests.vectors import reference

from tactful.errors import (
    AlreadyExists,
    IoFailed,
    KeyUnavailable,
    NoPermission,
    PassphraseNeeded,
    TactfulError,
    Unusable,
)
from tactful_core.sealing import PassphraseParameters
from tactful_core.values import Secret
from tactfuld import keyrings
from tactfuld.keys.key_file import KEY_FILE
from tactfuld.keys.ring import KeyRing, create_keys
from tactfuld.keys.sources import (
    Asked,
    CredentialSource,
    KeyringSource,
    PassphraseSource,
    choose_source,
)
from tactfuld.keys.values import Purpose, StoreKeys

VECTORS = Path(__file__).parents[1] / "vectors" / "key_files.json"
PASSPHRASE = "correct horse battery staple"
CHEAP = PassphraseParameters(salt=b"0123456789abcdef", iterations=1, lanes=1, memory_kib=8)


class DictKeyring(KeyringBackend):
    """A keyring that keeps what it is given, in this process; nobody else can construct it."""

    priority: ClassVar[float] = 5  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, entries: dict[tuple[str, str], str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries = entries

    def get_password(self, service: str, username: str) -> str | None:
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.entries[service, username]


class ForgetfulKeyring(DictKeyring):
    def set_password(self, service: str, username: str, password: str) -> None:
        pass


class BrokenKeyring(DictKeyring):
    """Fails as backends do: with whatever their libraries raise."""

    def get_password(self, service: str, username: str) -> str | None:
        raise OSError("the bus is gone")

    def set_password(self, service: str, username: str, password: str) -> None:
        raise OSError("the bus is gone")


class PlaintextKeyring(DictKeyring):
    """What `keyrings.alt` offers under this name."""


class DiscouragedKeyring(DictKeyring):
    priority: ClassVar[float] = 0.5


class Chain(ChainerBackend):
    """A chain of given keyrings."""

    backends: ClassVar[list[KeyringBackend]] = []  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, backends: list[KeyringBackend]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        type(self).backends = backends


@pytest.fixture(autouse=True)
def no_chain() -> Iterator[None]:
    yield
    Chain.backends = []


def open_keys(
    folder: Path, passphrase: Secret[str] | None, *, backend: KeyringBackend | None = None
) -> StoreKeys:
    return KeyRing.open(folder, Asked(passphrase, backend)).store_keys()


def dict_keyring() -> DictKeyring:
    return DictKeyring({})


def passphrase_source(passphrase: str = PASSPHRASE) -> PassphraseSource:
    return PassphraseSource(Secret(passphrase), CHEAP)


def revealed(keys: StoreKeys) -> tuple[bytes, ...]:
    return (
        keys.store_id,
        keys.memory.reveal(),
        keys.memory_key_id,
        keys.ledger.reveal(),
        keys.ledger_key_id,
        keys.history.reveal(),
        keys.history_key_id,
    )


# --- making and opening -------------------------------------------------------------------------


def test_passphrase_opens_what_it_made(tmp_path: Path) -> None:
    made = create_keys(tmp_path, passphrase_source())
    opened = open_keys(tmp_path, Secret(PASSPHRASE))
    assert revealed(opened) == revealed(made)
    assert opened.source_description == made.source_description == "passphrase"


def test_keyring_opens_what_it_made_and_is_named(tmp_path: Path) -> None:
    backend = dict_keyring()
    made = create_keys(tmp_path, KeyringSource(backend))
    opened = open_keys(tmp_path, None, backend=backend)
    assert revealed(opened) == revealed(made)
    assert keyrings.backend_name(backend) in opened.source_description
    ((service, name),) = backend.entries
    assert service == "tactful"
    assert name.startswith(f"{made.store_id.hex()} ")


def test_memory_ledger_and_history_have_keys_of_their_own(tmp_path: Path) -> None:
    keys = create_keys(tmp_path, passphrase_source())
    assert len(set(revealed(keys))) == 7


def test_key_file_is_private_and_holds_no_key(tmp_path: Path) -> None:
    backend = dict_keyring()
    keys = create_keys(tmp_path, KeyringSource(backend))
    (kek,) = backend.entries.values()
    content = (tmp_path / KEY_FILE).read_bytes()
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600
    data_keys = (keys.memory, keys.ledger, keys.history)
    for secret in (*(key.reveal() for key in data_keys), bytes.fromhex(kek)):
        assert secret not in content
        assert secret.hex().encode() not in content
        assert base64.b64encode(secret) not in content
    assert keys.store_id.hex().encode() in content, "the scan would have found a key"
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


@pytest.mark.parametrize("existing", [KEY_FILE, "memory.db", "ledger.db"])
def test_keys_are_never_made_over_a_store(tmp_path: Path, existing: str) -> None:
    (tmp_path / existing).write_bytes(b"kept")
    with pytest.raises(AlreadyExists):
        create_keys(tmp_path, passphrase_source())
    assert (tmp_path / existing).read_bytes() == b"kept"


def test_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoPermission, match="absent"):
        create_keys(tmp_path / "absent", passphrase_source())


def test_profile_without_store_says_init(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="tactful init"):
        open_keys(tmp_path, Secret(PASSPHRASE))


def test_databases_without_keys_are_another_state_than_no_store(tmp_path: Path) -> None:
    (tmp_path / "memory.db").touch()
    with pytest.raises(Unusable, match=r"holds databases but no keys\.json"):
        open_keys(tmp_path, Secret(PASSPHRASE))


def test_key_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).mkdir()
    with pytest.raises(NoPermission, match=r"keys\.json"):
        open_keys(tmp_path, Secret(PASSPHRASE))


# --- vectors and damage -------------------------------------------------------------------------

_VECTORS: dict[str, list[dict[str, Any]]] = json.loads(VECTORS.read_text(encoding="utf-8"))


def placed(folder: Path, text: str) -> None:
    (folder / KEY_FILE).write_text(text)


def rebuilt(vector: dict[str, Any]) -> bytes:
    """The vector's file, from its keys and nonces alone."""
    store_id, master = bytes.fromhex(vector["store_id"]), bytes.fromhex(vector["master_key"])
    fields = json.loads(vector["text"])
    seal_nonce = bytes.fromhex(vector["nonces"]["seal"])
    master_nonce = bytes.fromhex(vector["nonces"]["master"])
    kek = bytes.fromhex(vector["kek"])
    del fields["seal"]
    fields["master"] = reference.wrap(kek, master, b"master", store_id, b"", master_nonce).hex()
    for purpose in Purpose:
        fields[purpose] = [
            {
                "id": each["id"],
                "since": each["since"],
                "wrapped": reference.wrap(
                    master,
                    bytes.fromhex(each["key"]),
                    purpose.encode(),
                    store_id,
                    bytes.fromhex(each["id"]),
                    bytes.fromhex(each["nonce"]),
                ).hex(),
            }
            for each in vector[purpose]
        ]
    return reference.key_file(master, seal_nonce, fields)


@pytest.mark.parametrize("vector", _VECTORS["open"], ids=lambda vector: str(vector["name"]))
def test_key_file_vector_opens_and_is_what_the_specification_says(
    tmp_path: Path, vector: dict[str, Any]
) -> None:
    placed(tmp_path, vector["text"])
    assert rebuilt(vector) == vector["text"].encode()
    ring = KeyRing.open(tmp_path, Asked(Secret(vector["passphrase"])))
    assert ring.store_id.hex() == vector["store_id"]
    for purpose in Purpose:
        expected = [(each["id"], each["key"]) for each in vector[purpose]]
        assert [(key.id.hex(), key.key.reveal().hex()) for key in ring.keys(purpose)] == expected


@pytest.mark.parametrize("vector", _VECTORS["fail"], ids=lambda vector: str(vector["name"]))
def test_key_file_vector_fails_with_its_error(tmp_path: Path, vector: dict[str, Any]) -> None:
    placed(tmp_path, vector["text"])
    passphrase = vector["passphrase"]
    with pytest.raises(TactfulError) as error:
        open_keys(tmp_path, None if passphrase is None else Secret(passphrase))
    assert error.value.code == vector["error"]
    assert PASSPHRASE not in str(error.value)


@pytest.mark.parametrize(("version", "told"), [(3, "newer version"), (1, "first release")])
def test_key_file_of_another_version_says_what_to_do(
    tmp_path: Path, version: int, told: str
) -> None:
    placed(tmp_path, json.dumps({"format": version}))
    with pytest.raises(Unusable, match=told):
        open_keys(tmp_path, None)


@pytest.mark.parametrize("source", ["passphrase", "keyring"])
def test_no_byte_of_the_key_file_can_be_flipped(tmp_path: Path, source: str) -> None:
    backend = dict_keyring()
    create_keys(tmp_path, passphrase_source() if source == "passphrase" else KeyringSource(backend))
    good = (tmp_path / KEY_FILE).read_bytes()
    for index in range(len(good)):
        flipped = bytearray(good)
        flipped[index] ^= 1
        (tmp_path / KEY_FILE).write_bytes(flipped)
        with pytest.raises((KeyUnavailable, Unusable)):
            open_keys(tmp_path, Secret(PASSPHRASE), backend=backend)


# --- replacing a data key -----------------------------------------------------------------------


def ring_in(folder: Path) -> KeyRing:
    return KeyRing.open(folder, Asked(Secret(PASSPHRASE)))


def wraps(folder: Path, purpose: Purpose) -> list[str]:
    written = json.loads((folder / KEY_FILE).read_bytes())
    return [each["wrapped"] for each in written[purpose]]


@pytest.mark.parametrize("purpose", Purpose)
def test_key_that_takes_anothers_place_is_durable_beside_it_first(
    tmp_path: Path, purpose: Purpose
) -> None:
    ring = KeyRing.create(tmp_path, passphrase_source())
    (before,) = ring.keys(purpose)
    fresh = ring.begin(purpose, before.id)
    assert [key.id for key in ring_in(tmp_path).keys(purpose)] == [before.id, fresh.id]
    ring.finish(purpose, fresh.id)
    (after,) = ring_in(tmp_path).keys(purpose)
    assert (after.id, after.key.reveal()) == (fresh.id, fresh.key.reveal())


def test_key_that_was_begun_in_vain_is_destroyed_by_the_next(tmp_path: Path) -> None:
    ring = KeyRing.create(tmp_path, passphrase_source())
    (before,) = ring.keys(Purpose.MEMORY)
    ring.begin(Purpose.MEMORY, before.id)
    fresh = ring.begin(Purpose.MEMORY, before.id)
    assert [key.id for key in ring.keys(Purpose.MEMORY)] == [before.id, fresh.id]


def test_a_key_that_the_file_does_not_have_replaces_nothing(tmp_path: Path) -> None:
    ring = KeyRing.create(tmp_path, passphrase_source())
    before = (tmp_path / KEY_FILE).read_bytes()
    with pytest.raises(Unusable, match=r"memory\.db .* under another key"):
        ring.begin(Purpose.MEMORY, bytes(16))
    with pytest.raises(Unusable, match=r"memory\.db .* under another key"):
        ring.finish(Purpose.MEMORY, bytes(16))
    assert (tmp_path / KEY_FILE).read_bytes() == before


def test_old_wrap_is_overwritten_where_it_lay(tmp_path: Path) -> None:
    """A second name of the old file's bytes shows what became of them."""
    ring = KeyRing.create(tmp_path, passphrase_source())
    (before,) = ring.keys(Purpose.MEMORY)
    fresh = ring.begin(Purpose.MEMORY, before.id)
    (old, _) = wraps(tmp_path, Purpose.MEMORY)
    (tmp_path / "old bytes").hardlink_to(tmp_path / KEY_FILE)
    assert old.encode() in (tmp_path / "old bytes").read_bytes(), "the scan would have found it"
    ring.finish(Purpose.MEMORY, fresh.id)
    assert not any((tmp_path / "old bytes").read_bytes())
    assert old.encode() not in (tmp_path / KEY_FILE).read_bytes()


def test_what_a_killed_write_left_is_overwritten_and_removed(tmp_path: Path) -> None:
    create_keys(tmp_path, passphrase_source())
    leftover = tmp_path / "keys.json.new"
    leftover.write_bytes(b"half a file")
    (tmp_path / "old bytes").hardlink_to(leftover)
    ring_in(tmp_path)
    assert not leftover.exists()
    assert (tmp_path / "old bytes").read_bytes() == bytes(len(b"half a file"))


def test_key_file_that_cannot_be_replaced_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = KeyRing.create(tmp_path, passphrase_source())
    (before,) = ring.keys(Purpose.MEMORY)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(IoFailed, match="No space left"):
            ring.begin(Purpose.MEMORY, before.id)
    assert [key.id for key in ring.keys(Purpose.MEMORY)] == [before.id]
    assert [key.id for key in ring_in(tmp_path).keys(Purpose.MEMORY)] == [before.id]
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


# --- changing the key-encryption key -------------------------------------------------------------


def test_new_passphrase_opens_what_the_old_one_did(tmp_path: Path) -> None:
    ring = KeyRing.create(tmp_path, passphrase_source())
    expected = revealed(ring.store_keys())
    ring.change_source(passphrase_source("another"))
    assert revealed(open_keys(tmp_path, Secret("another"))) == expected
    with pytest.raises(KeyUnavailable):
        open_keys(tmp_path, Secret(PASSPHRASE))


def test_key_goes_into_a_keyring_and_out_again_and_leaves_nothing_there(tmp_path: Path) -> None:
    backend = dict_keyring()
    ring = KeyRing.create(tmp_path, passphrase_source())
    expected = revealed(ring.store_keys())
    ring.change_source(KeyringSource(backend))
    assert revealed(open_keys(tmp_path, None, backend=backend)) == expected
    (first,) = backend.entries
    ring.change_source(KeyringSource(backend))
    assert revealed(open_keys(tmp_path, None, backend=backend)) == expected
    assert [*backend.entries] != [first]
    assert len(backend.entries) == 1
    ring.change_source(passphrase_source())
    assert backend.entries == {}
    assert revealed(open_keys(tmp_path, Secret(PASSPHRASE))) == expected


def test_change_that_cannot_be_written_takes_the_new_entry_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = dict_keyring()
    ring = KeyRing.create(tmp_path, KeyringSource(backend))
    before = dict(backend.entries)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(IoFailed):
            ring.change_source(KeyringSource(backend))
    assert backend.entries == before
    assert revealed(open_keys(tmp_path, None, backend=backend)) == revealed(ring.store_keys())


def test_creation_that_fails_leaves_no_entry_in_the_keyring(tmp_path: Path) -> None:
    backend = dict_keyring()
    with pytest.raises(NoPermission):
        KeyRing.create(tmp_path / "absent", KeyringSource(backend))
    assert backend.entries == {}


# --- systemd's credential ------------------------------------------------------------------------


def credential(folder: Path, content: bytes) -> Asked:
    (folder / "tactful-kek").write_bytes(content)
    return Asked(None, fail.Keyring(), {"CREDENTIALS_DIRECTORY": str(folder)})  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("content", [b"k" * 32, b"0f" * 32, b"0f" * 32 + b"\n"])
def test_credential_opens_what_it_made(tmp_path: Path, content: bytes) -> None:
    asked = credential(tmp_path, content)
    for wanted in ("credential", None):
        source = choose_source(wanted, asked)
        assert isinstance(source, CredentialSource)
    made = create_keys(tmp_path, source)
    opened = KeyRing.open(tmp_path, asked).store_keys()
    assert revealed(opened) == revealed(made)
    assert opened.source_description == "systemd credential"


@pytest.mark.parametrize("content", [b"", b"k" * 31, b"k" * 33, b"0F" * 32, b"0f" * 32 + b"\n\n"])
def test_credential_of_another_form_is_no_key(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(KeyUnavailable, match="tactful-kek is no key"):
        choose_source("credential", credential(tmp_path, content))


def test_credential_that_is_not_there_is_named(tmp_path: Path) -> None:
    asked = credential(tmp_path, b"k" * 32)
    create_keys(tmp_path, choose_source("credential", asked))
    with pytest.raises(KeyUnavailable, match="LoadCredential=tactful-kek:FILE"):
        KeyRing.open(tmp_path, Asked(environ={}))
    (tmp_path / "tactful-kek").unlink()
    with pytest.raises(KeyUnavailable, match="LoadCredential=tactful-kek:FILE"):
        KeyRing.open(tmp_path, asked)


def test_another_credential_does_not_open(tmp_path: Path) -> None:
    create_keys(tmp_path, choose_source("credential", credential(tmp_path, b"k" * 32)))
    with pytest.raises(KeyUnavailable, match="credential tactful-kek does not open"):
        KeyRing.open(tmp_path, credential(tmp_path, b"l" * 32))


def test_keyring_goes_before_a_credential_and_a_passphrase_that_was_given_before_both(
    tmp_path: Path,
) -> None:
    environ = credential(tmp_path, b"k" * 32).environ
    backend = dict_keyring()
    assert choose_source(None, Asked(None, backend, environ)) == KeyringSource(backend)
    chosen = choose_source(None, Asked(Secret(PASSPHRASE), backend, environ))
    assert isinstance(chosen, PassphraseSource)


# --- keyrings -----------------------------------------------------------------------------------


def test_keyring_without_the_key_is_named_with_the_one_that_had_it(tmp_path: Path) -> None:
    create_keys(tmp_path, KeyringSource(dict_keyring()))
    with pytest.raises(KeyUnavailable, match=r"ForgetfulKeyring.* put into .*DictKeyring"):
        open_keys(tmp_path, None, backend=ForgetfulKeyring({}))


def test_keyring_with_another_key_is_named(tmp_path: Path) -> None:
    backend = dict_keyring()
    create_keys(tmp_path, KeyringSource(backend))
    backend.entries[next(iter(backend.entries))] = "00" * 32
    with pytest.raises(KeyUnavailable, match=r"DictKeyring does not open this store"):
        open_keys(tmp_path, None, backend=backend)


@pytest.mark.parametrize("entry", ["", "hello", "00" * 31, "0g" * 32, "AA" * 32])
def test_keyring_with_something_else_is_named(tmp_path: Path, entry: str) -> None:
    backend = dict_keyring()
    create_keys(tmp_path, KeyringSource(backend))
    backend.entries[next(iter(backend.entries))] = entry
    with pytest.raises(KeyUnavailable, match=r"DictKeyring .* is not a key"):
        open_keys(tmp_path, None, backend=backend)


def test_keyring_that_fails_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(KeyUnavailable, match=r"BrokenKeyring did not take the key \(OSError\)"):
        create_keys(tmp_path, KeyringSource(BrokenKeyring({})))
    assert not list(tmp_path.iterdir())


def test_keyring_that_fails_later_is_named(tmp_path: Path) -> None:
    backend = dict_keyring()
    create_keys(tmp_path, KeyringSource(backend))
    with pytest.raises(KeyUnavailable, match="BrokenKeyring could not be asked"):
        open_keys(tmp_path, None, backend=BrokenKeyring(backend.entries))


def test_keyring_that_does_not_keep_the_key_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(KeyUnavailable, match="ForgetfulKeyring did not keep the key"):
        create_keys(tmp_path, KeyringSource(ForgetfulKeyring({})))
    assert not list(tmp_path.iterdir())


def test_key_is_looked_for_in_the_recorded_keyring_of_a_chain(tmp_path: Path) -> None:
    first, recorded = ForgetfulKeyring({}), dict_keyring()
    made = create_keys(tmp_path, KeyringSource(recorded))
    opened = open_keys(tmp_path, None, backend=Chain([first, recorded]))
    assert revealed(opened) == revealed(made)


def test_store_in_a_keyring_is_not_opened_through_one_that_is_refused(tmp_path: Path) -> None:
    backend = dict_keyring()
    create_keys(tmp_path, KeyringSource(backend))
    with pytest.raises(KeyUnavailable, match=r"DictKeyring, but .*PlaintextKeyring"):
        open_keys(tmp_path, None, backend=PlaintextKeyring(backend.entries))


REFUSED = [
    null.Keyring(),  # type: ignore[no-untyped-call]
    fail.Keyring(),  # type: ignore[no-untyped-call]
    PlaintextKeyring({}),
    DiscouragedKeyring({}),
]


@pytest.mark.parametrize("backend", REFUSED, ids=keyrings.backend_name)
def test_keyring_that_is_not_safe_is_refused_by_name(backend: KeyringBackend) -> None:
    with pytest.raises(KeyUnavailable, match=type(backend).__name__):
        choose_source("keyring", Asked(None, backend))
    with pytest.raises(PassphraseNeeded, match=type(backend).__name__):
        choose_source(None, Asked(None, backend))
    with pytest.raises(KeyUnavailable, match="Chain"):
        choose_source("keyring", Asked(None, Chain([backend])))


def test_chain_of_nothing_is_refused() -> None:
    with pytest.raises(KeyUnavailable, match="Chain"):
        choose_source("keyring", Asked(None, Chain([])))


def test_first_safe_keyring_of_a_chain_is_chosen() -> None:
    safe = dict_keyring()
    source = choose_source("keyring", Asked(None, Chain([PlaintextKeyring({}), safe])))
    assert source == KeyringSource(safe)


def test_keyring_that_cannot_be_loaded_is_an_error_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken() -> KeyringBackend:
        raise ImportError("no such module")

    monkeypatch.setattr(keyring, "get_keyring", broken)
    with pytest.raises(KeyUnavailable, match="--key passphrase"):
        choose_source("keyring", Asked())


# --- choosing -----------------------------------------------------------------------------------


def test_without_a_wish_a_passphrase_that_was_given_is_used() -> None:
    source = choose_source(None, Asked(Secret(PASSPHRASE), dict_keyring()))
    assert isinstance(source, PassphraseSource)
    assert source.passphrase.reveal() == PASSPHRASE


def test_without_a_wish_and_a_passphrase_the_keyring_is_used() -> None:
    backend = dict_keyring()
    assert choose_source(None, Asked(None, backend)) == KeyringSource(backend)


def test_a_wanted_keyring_is_used_even_if_a_passphrase_was_given() -> None:
    backend = dict_keyring()
    source = choose_source("keyring", Asked(Secret(PASSPHRASE), backend))
    assert source == KeyringSource(backend)


def test_a_wanted_passphrase_is_asked_for() -> None:
    with pytest.raises(PassphraseNeeded, match="TACTFUL_PASSPHRASE"):
        choose_source("passphrase", Asked(None, dict_keyring()))


def test_every_passphrase_gets_a_salt_of_its_own_and_the_full_cost() -> None:
    first, second = (PassphraseSource(Secret(PASSPHRASE)).parameters for _ in range(2))
    assert first.salt != second.salt
    assert len(first.salt) == 16
    assert (first.iterations, first.lanes, first.memory_kib) == (3, 4, 64 * 1024)
