"""The keys of a profile: `keyring`, `keys`.

Decides what of the key file is worth a word. What is *not* here: opening it (`tactfuld.unlocking`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keyring.backend import KeyringBackend

from tactful.errors import KeyUnavailable, NoPermission, Unusable
from tactful.profile import Profile
from tactfuld import keyrings
from tactfuld.doctor.check import Check, Name, not_applicable, ok, problem, unknown
from tactfuld.doctor.machine import Moment
from tactfuld.keys.key_file import KEY_FILE, KeyringRecord, SealedContents, read_key_file
from tactfuld.keys.values import Purpose


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """What the key file says.

    Attributes:
        refusal: why it cannot be read; then nothing else is known.
        source: where the key that opens it comes from.
        changing: the databases whose key is being replaced.
        recovery: whether there is a recovery phrase.
    """

    refusal: str = ""
    source: str = ""
    changing: tuple[Purpose, ...] = ()
    recovery: bool = False
    moments: tuple[Moment, ...] = ()


@dataclass(frozen=True, slots=True)
class Opening:
    """What came of opening the keys.

    Attributes:
        done: whether they were opened.
        wanting: why nobody could try, such as that no passphrase was given.
        refusal: why they did not open.
    """

    done: bool = False
    wanting: str = ""
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class KeyringFacts:
    """The keyring of this user.

    Attributes:
        recorded: the one that has this profile's key; empty where none does.
        current: the one in use.
        usable: those that may hold a key.
        entry: whether the profile's key is there.
        complaint: why it could not be asked.
    """

    recorded: str = ""
    current: str = ""
    usable: tuple[str, ...] = ()
    entry: bool = False
    complaint: str = ""


def key_facts(profile: Profile) -> KeyFacts:
    """Reads the key file, which nothing has authenticated yet."""
    file = _file(profile)
    if isinstance(file, str):
        return KeyFacts(refusal=file)
    listed = {
        Purpose.MEMORY: file.memory,
        Purpose.LEDGER: file.ledger,
        Purpose.HISTORY: file.history,
    }
    moments = [Moment(KEY_FILE, key.since) for keys in listed.values() for key in keys]
    return KeyFacts(
        source=file.kek.description,
        changing=tuple(purpose for purpose, keys in listed.items() if len(keys) > 1),
        recovery=file.recovery is not None,
        moments=(*moments, Moment(KEY_FILE, file.kek_since)),
    )


def check_keys(found: KeyFacts, opening: Opening, changing_still: Sequence[Purpose]) -> Check:
    """The keys open, and no replacement of one is left half done.

    Args:
        changing_still: the databases whose key is still being replaced after the keys were opened,
            which finishes what was interrupted.
    """
    if found.refusal:
        return problem(
            Name.KEYS, found.refusal, "Without it nothing can be opened; look for a backup."
        )
    if opening.refusal:
        return problem(Name.KEYS, opening.refusal, "See `tactful key show` and `tactful recover`.")
    if opening.wanting:
        return unknown(
            Name.KEYS,
            f"{KEY_FILE} can be read, but was not opened: {opening.wanting}",
            "Start the daemon, or give the passphrase, and look again.",
        )
    if changing_still:
        return problem(
            Name.KEYS,
            f"The key of {_listed(changing_still)} is being replaced, and it is not certain which "
            "of the two the database is sealed under.",
            "Put the data folder's files that belong together back from a copy.",
        )
    return _opened(found)


def _opened(found: KeyFacts) -> Check:
    told = [f"The keys open (from: {found.source})."]
    if found.changing:
        told.append(
            f"An interrupted replacement of the key of {_listed(found.changing)} was ended."
        )
    if found.recovery:
        return ok(Name.KEYS, " ".join([*told, "There is a recovery phrase."]))
    return ok(
        Name.KEYS,
        " ".join([*told, "There is no recovery phrase."]),
        "`tactful key recovery` makes one, for when the key is lost.",
    )


def keyring_facts(profile: Profile) -> KeyringFacts:
    """Asks the keyring; may wait for it."""
    file = _file(profile)
    record = None if isinstance(file, str) else file.kek
    recorded = record.backend if isinstance(record, KeyringRecord) else ""
    try:
        backend = keyrings.configured_backend()
        usable = keyrings.usable_backends(backend)
        entry = isinstance(file, SealedContents) and any(_has(each, file) for each in usable)
        return KeyringFacts(
            recorded=recorded,
            current=keyrings.backend_name(backend),
            usable=tuple(keyrings.backend_name(each) for each in usable),
            entry=entry,
        )
    except KeyUnavailable as refused:
        return KeyringFacts(recorded=recorded, complaint=str(refused))


def check_keyring(found: KeyringFacts) -> Check:
    """Where the key is in a keyring, the keyring has it and is one to be trusted."""
    if not found.recorded:
        name = found.current or "none that can be loaded"
        return not_applicable(
            Name.KEYRING, f"The key is not in a keyring (the one in use here: {name})."
        )
    if found.complaint:
        return problem(Name.KEYRING, found.complaint, "Unlock the keyring and look again.")
    if not found.usable:
        return problem(
            Name.KEYRING,
            f"The key is in {found.recorded}, but the keyring in use is {found.current}, which "
            "does not keep secrets safely.",
            f"Unlock or install {found.recorded}.",
        )
    if not found.entry:
        return problem(
            Name.KEYRING,
            f"The key was put into {found.recorded}; {_listed(found.usable)} does not have it.",
            "Unlock or restore that keyring; or use the recovery phrase: `tactful recover`.",
        )
    return ok(Name.KEYRING, f"{_listed(found.usable)} has the key.")


def _file(profile: Profile) -> SealedContents | str:
    try:
        return read_key_file(profile.data)
    except (Unusable, NoPermission) as refused:
        return str(refused)


def _has(backend: KeyringBackend, file: SealedContents) -> bool:
    if not isinstance(file.kek, KeyringRecord):
        return False
    name = keyrings.entry_name(bytes.fromhex(file.store_id), bytes.fromhex(file.kek.entry))
    return keyrings.get(backend, name) is not None


def _listed(things: Sequence[object]) -> str:
    return " and ".join(map(str, things))
