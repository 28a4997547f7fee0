"""`restore`: a profile out of a backup, or what a backup knows into a profile that is there.

Decides what is put where, in which order. What is *not* here: reading a backup (`making`), and what
a ledger makes of entries that it lacks (`tactfuld.ledger_restore`).

Into the profile that the backup was made of:

- the ledger becomes the union of both by id, never less than its high-water mark;
- memory becomes the backup's, in one transaction and under a new key, unless only the ledger is
  wanted; policy and settings stay, unless the owner wants the backup's;
- released history stays: it is newer.

Into an empty place, the whole profile is made anew from the backup, with a key of its own. It is a
copy, which cannot know what its source has spent since: it has no high-water mark, so it starts
exhausted until a new epoch (GUARANTEE §3), on another machine and on the same one.

Invariants:

- nothing is changed before the backup was read to its end and everything in it opened;
- each step is one transaction or one rename, the ledger's first; whoever is killed leaves the state
  before or after a step, and restoring again does the rest;
- a half-made profile is marked as `init` marks one: nothing opens it.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tactful.errors import AlreadyExists, Unusable
from tactful.profile import Profile
from tactful_core.layout import Layout
from tactful_core.sealing import ChainSealer
from tactful_core.values import Secret
from tactful_policies import SCHEMA_FILE, schema_text
from tactfuld.backup.contents import Contents
from tactfuld.backup.examining import Examined, put_file
from tactfuld.backup.making import Report, opened_backup
from tactfuld.initialising import (
    DATABASES,
    clear_unfinished,
    mark_unfinished,
    refuse_existing,
    store_files,
    unmark,
    write_new,
)
from tactfuld.keys.key_file import KEY_FILE, UNFINISHED, read_key_file
from tactfuld.keys.ring import KeyRing
from tactfuld.keys.sources import Asked, Wish, choose_source
from tactfuld.keys.values import StoreKeys
from tactfuld.ledger_restore import Ours, added, sums
from tactfuld.locking import hold
from tactfuld.policy.loading import load_policy
from tactfuld.settings import load_settings
from tactfuld.store.ledger import ledger_place
from tactfuld.store.mark import forbid_until_new_epoch
from tactfuld.store.memory import MemoryStore, layout_fingerprint, memory_place
from tactfuld.store.whole_file import replace_file
from tactfuld.unlocking import unlock


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the owner wants of a restore.

    Attributes:
        key: where the key of a new profile shall be.
        recovery: whether a new profile shall have a recovery phrase.
    """

    file: Path
    ledger_only: bool
    with_policy: bool
    key: Wish | None
    recovery: bool


@dataclass(frozen=True, slots=True)
class _Backup:
    """A backup that was read to its end."""

    store_id: bytes
    contents: Contents
    found: Examined


def is_empty(profile: Profile) -> bool:
    """Whether there is no profile here, or a half-made one that nothing opens."""
    if (profile.data / UNFINISHED).exists():
        return True
    return not any((profile.data / name).exists() for name in (KEY_FILE, *DATABASES))


def place_of(profile: Profile, store_id: bytes) -> str:
    """What a backup of this store would be restored into: `empty`, `same`, `other` or `damaged`."""
    if is_empty(profile):
        return "empty"
    try:
        return "same" if read_key_file(profile.data).store_id == store_id.hex() else "other"
    except Unusable:
        return "damaged"


def restore_backup(
    profile: Profile,
    passphrase: Secret[str] | None,
    secret: Secret[str],
    wishes: Wishes,
    report: Report,
) -> dict[str, object]:
    """Restores a backup; what the owner is told, with a new recovery phrase, this once.

    Args:
        passphrase: opens the profile, or shall open the new one.
        secret: opens the backup.

    Raises:
        AlreadyRunning: a daemon uses the profile.
        Unusable: the backup cannot be used, or is not of this profile; nothing was changed.
        TactfulError: the profile could not be opened or written.
    """
    backup = _Backup(*opened_backup(wishes.file, secret, report))
    if is_empty(profile):
        return _made(profile, passphrase, backup, wishes)
    return _merged(profile, passphrase, backup, wishes)


# --- into the profile that it was made of ---------------------------------------------------------


def _merged(
    profile: Profile, passphrase: Secret[str] | None, backup: _Backup, wishes: Wishes
) -> dict[str, object]:
    with hold(profile.data):
        layout = load_policy(profile.policy_file).layout
        keys = unlock(profile, passphrase).store_keys()
        _refuse_other(profile, keys, layout, backup, wishes)
        ours = Ours(ledger_place(profile), keys, layout.attributes)
        appended = asyncio.run(added(ours, backup.found.entries, wishes.file))
        if not wishes.ledger_only:
            asyncio.run(_replace_memory(profile, layout, keys, backup.found))
        if wishes.with_policy:
            _replace_policy(profile, backup.contents)
        return {
            "place": "same",
            "made": backup.contents.made,
            "memories": None if wishes.ledger_only else len(backup.found.memories),
            "appended": appended,
            "recovery_phrase": None,
            **asyncio.run(sums(ours)),
        }


def _refuse_other(
    profile: Profile, keys: StoreKeys, layout: Layout, backup: _Backup, wishes: Wishes
) -> None:
    if keys.store_id != backup.store_id:
        raise Unusable(
            f"{wishes.file} is a backup of another profile than the one in {profile.data}. Restore "
            "it into an empty place: choose one with --profile. Nothing was changed."
        )
    same = layout_fingerprint(layout) == layout_fingerprint(backup.found.promises.layout)
    if not same and (wishes.with_policy or not wishes.ledger_only):
        raise Unusable(
            f"{wishes.file} was made when the policy had other shelves, so its memory does not fit "
            "this profile. Restore its ledger alone with --ledger-only, or all of it into an empty "
            "place with --profile. Nothing was changed."
        )


async def _replace_memory(
    profile: Profile, layout: Layout, keys: StoreKeys, found: Examined
) -> None:
    """An older copy of memory counts as what it is: it is replaced anyway."""
    place = memory_place(profile)
    async with MemoryStore.open(place, layout, keys, _unheard, accept=True) as store:
        await store.restore(found.memories)


def _replace_policy(profile: Profile, contents: Contents) -> None:
    replace_file(profile.policy_file, contents.files["policy.yaml"], durably=True)
    if (settings := contents.files.get("settings.yaml")) is not None:
        replace_file(profile.settings_file, settings, durably=True)


# --- into an empty place --------------------------------------------------------------------------


def _made(
    profile: Profile, passphrase: Secret[str] | None, backup: _Backup, wishes: Wishes
) -> dict[str, object]:
    if wishes.ledger_only or wishes.with_policy:
        raise Unusable(
            f"There is no profile in {profile.data}, so the whole backup would be restored there; "
            "leave out --ledger-only and --with-policy. Nothing was changed."
        )
    for folder in (profile.config, profile.data, profile.state):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with hold(profile.data), ExitStack() as undo:
        clear_unfinished(profile)
        refuse_existing(profile.data)
        mark_unfinished(profile, undo)
        _put_owners_files(profile, backup, undo)
        for path in store_files(profile):
            if path.parent == profile.data:
                undo.callback(path.unlink, missing_ok=True)
        source = choose_source(wishes.key, Asked(passphrase))
        ring = KeyRing.create(profile.data, source, (backup.store_id, backup.contents.keys))
        undo.callback(ring.destroy)
        phrase = ring.renew_recovery() if wishes.recovery else None
        keys = ring.store_keys()
        asyncio.run(_put_stores(profile, keys, backup))
        unmark(profile)
        undo.pop_all()
    layout = backup.found.promises.layout
    return {
        "place": "empty",
        "made": backup.contents.made,
        "memories": len(backup.found.memories),
        "appended": len(backup.found.entries),
        "recovery_phrase": None if phrase is None else phrase.reveal(),
        **asyncio.run(sums(Ours(ledger_place(profile), keys, layout.attributes))),
    }


def _put_owners_files(profile: Profile, backup: _Backup, undo: ExitStack) -> None:
    """Policy and settings; those that are there stay, where memory fits them."""
    files = backup.contents.files
    write_new(profile.policy_file, files["policy.yaml"].decode(), undo)
    write_new(profile.policy_file.with_name(SCHEMA_FILE), schema_text(), undo)
    if (settings := files.get("settings.yaml")) is not None:
        write_new(profile.settings_file, settings.decode(), undo)
    load_settings(profile.settings_file)
    here, there = load_policy(profile.policy_file).layout, backup.found.promises.layout
    if layout_fingerprint(here) != layout_fingerprint(there):
        raise AlreadyExists(
            f"{profile.policy_file} has other shelves than the backup's policy. Move it away, and "
            "the backup's takes its place. Nothing was changed."
        )


async def _put_stores(profile: Profile, keys: StoreKeys, backup: _Backup) -> None:
    for name, data in backup.contents.files.items():
        if name.endswith(".db"):
            await asyncio.to_thread(put_file, profile.data / name, data)
    epoch = max((entry.epoch for entry in backup.found.entries), default=0)
    sealer = ChainSealer(keys.ledger, keys.ledger_key_id, keys.store_id)
    mark = ledger_place(profile).mark
    await asyncio.to_thread(forbid_until_new_epoch, mark, sealer, keys.store_id, epoch)
    layout, place = backup.found.promises.layout, memory_place(profile)
    async with MemoryStore.open(place, layout, keys, _unheard, accept=True):
        """Accepted, memory is sealed anew and gets its witness on this machine."""


def _unheard(_notice: str) -> None:
    """What restoring does about it, its owner is told at the end."""
