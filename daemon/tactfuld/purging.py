"""`purge`: a profile's keys are destroyed, then its files.

Decides which files are ours, and the order. What is *not* here: asking the owner (`tactful.cli`).

Invariants:

- the keys go first: the entry in a keyring, then the key file, whose bytes are overwritten; whoever
  is killed after that has left nothing that opens;
- only files that this program makes are removed, by name; whatever else lies in the folders stays
  and is named, and so does the folder it is in; no link is followed;
- it works without any key, and on a profile that is damaged or half-made.

What is out of reach: backups, copies, snapshots of the file system, spare blocks of an SSD, a
credential of systemd's, and the models, which all profiles share.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tactful.errors import KeyUnavailable, NotFound, from_system
from tactful.profile import Profile
from tactful_policies import SCHEMA_FILE
from tactfuld import keyrings
from tactfuld.apps.environments import FOLDER as VENVS_FOLDER
from tactfuld.apps.tokens import FILE_NAME as TOKENS_FILE
from tactfuld.epochs import AGE_FILE
from tactfuld.events.inbox import INBOX_FILE
from tactfuld.events.kept import EVENTS_FILE
from tactfuld.initialising import store_files
from tactfuld.keys import attempts
from tactfuld.keys.key_file import (
    KEY_FILE,
    UNFINISHED,
    CredentialRecord,
    KekRecord,
    KeyringRecord,
    destroy_key_file,
    left_kek,
)
from tactfuld.locking import LOCK_FILE, hold
from tactfuld.memory_migration import ASIDE_FILE
from tactfuld.policy.record import RECORD_FILE
from tactfuld.policy_versions import VERSIONS_FOLDER

_REPLACED = ".new"
"""What a file is called while it is written."""
_STATE_FOLDERS = ("apps", "logs", VENVS_FOLDER, VERSIONS_FOLDER)
"""What apps have kept, what they have said, their environments, and earlier policies."""

_ALWAYS_LEFT = (
    "Backups and other copies still hold what they held, under their own keys.",
    "Snapshots of the file system and spare blocks of an SSD may hold what was deleted.",
    "Models stay: all profiles share them (`tactful model remove`).",
)
_CREDENTIAL_LEFT = (
    "The systemd credential tactful-kek stays; delete its file and its line in the service."
)
_KEYRING_LEFT = (
    "The keyring {} did not give up the key of this profile; delete its entries of the service "
    "tactful by hand."
)


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder of the profile, and the names in it that are ours."""

    path: Path
    files: tuple[str, ...]
    folders: tuple[str, ...] = ()


def purge(profile: Profile, *, with_config: bool) -> dict[str, object]:
    """Destroys the profile; what the owner is told.

    Raises:
        NotFound: there is no profile.
        AlreadyRunning: a daemon uses it; nothing was changed.
        NoPermission, IoFailed: something could not be removed; the keys may be gone already.
    """
    folders = tuple(_folders(profile, with_config=with_config))
    if not any((folder.path / name).exists() for folder in folders for name in folder.files):
        raise NotFound(f"There is no profile in {profile.data}, so nothing was removed.")
    profile.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with hold(profile.data):
            left = [*_destroy_keys(profile), *_ALWAYS_LEFT]
            for folder in folders:
                _empty(folder)
            (profile.data / LOCK_FILE).unlink(missing_ok=True)
            strangers = [str(path) for folder in folders for path in _closed(folder.path)]
    except OSError as problem:
        raise from_system(problem) from problem
    return {"kept": strangers, "config_kept": not with_config, "out_of_reach": left}


def _folders(profile: Profile, *, with_config: bool) -> Iterator[_Folder]:
    stores = [path.name for path in store_files(profile)]
    yield _Folder(profile.data, (KEY_FILE, UNFINISHED, RECORD_FILE, *stores))
    state = (
        profile.owner_secret_file.name,
        profile.log_file.name,
        TOKENS_FILE,
        AGE_FILE,
        INBOX_FILE,
        EVENTS_FILE,
        RECORD_FILE,
        ASIDE_FILE,
        attempts.FILE_NAME,
        *stores,
    )
    yield _Folder(profile.state, state, _STATE_FOLDERS)
    yield _Folder(profile.runtime, (profile.owner_socket.name, profile.app_socket.name))
    if with_config:
        owners = (profile.policy_file.name, profile.settings_file.name, SCHEMA_FILE)
        yield _Folder(profile.config, owners)


def _destroy_keys(profile: Profile) -> list[str]:
    """Destroys what opens the profile; what is left of it, in sentences."""
    found, left = left_kek(profile.data), []
    if found is not None:
        left = _discard_kek(*found)
    destroy_key_file(profile.data)
    return left


def _discard_kek(record: KekRecord, store_id: bytes) -> list[str]:
    match record:
        case CredentialRecord():
            return [_CREDENTIAL_LEFT]
        case KeyringRecord():
            name = keyrings.entry_name(store_id, bytes.fromhex(record.entry))
            if not _discarded(name, store_id):
                return [_KEYRING_LEFT.format(record.backend)]
    return []


def _discarded(name: str, store_id: bytes) -> bool:
    """Whether a usable keyring had the key and has it no more; the mark beside it goes too."""
    with suppress(KeyUnavailable):
        for backend in keyrings.usable_backends(keyrings.configured_backend()):
            if keyrings.discard(backend, name):
                keyrings.discard_mark(backend, store_id)
                return True
    return False


def _empty(folder: _Folder) -> None:
    for name in folder.files:
        for path in (folder.path / name, folder.path / f"{name}{_REPLACED}"):
            path.unlink(missing_ok=True)
    for name in folder.folders:
        path = folder.path / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)


def _closed(folder: Path) -> list[Path]:
    """Removes a folder that is empty; else what is in it."""
    if not folder.is_dir():
        return []
    strangers = sorted(folder.iterdir())
    if not strangers and not folder.is_symlink():
        folder.rmdir()
    return strangers
