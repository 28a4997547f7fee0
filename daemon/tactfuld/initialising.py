"""Making a profile.

Decides what a new profile consists of, and that a half-made one is taken back. What is *not* here:
the conversation with the owner (`tactful.cli`).

Invariants:

- nothing is written over: a folder with a store in it is refused, a policy or settings file that is
  there already is kept;
- what could not be finished is taken back. Where even that was prevented (the process was killed),
  a marker says so: nothing opens such a folder, and the next `init` or `restore` clears it first.
  What a killed process may leave is an entry in a keyring that opens nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tactful.errors import AlreadyExists, KeyUnavailable, NotFound
from tactful.init_report import InitChoices, OfferedModel, Starter
from tactful.profile import Profile
from tactful_core.promises import Promises
from tactful_core.values import Secret
from tactful_policies import SCHEMA_FILE, STARTERS, schema_text, starter_text
from tactfuld.apps.sandbox import NoSandbox, choose_confinement
from tactfuld.keyrings import backend_name, configured_backend, usable_backends
from tactfuld.keys.key_file import KEY_FILE, UNFINISHED, left_kek
from tactfuld.keys.ring import KeyRing
from tactfuld.keys.sources import Asked, Wish, choose_source, discard_kek
from tactfuld.keys.values import StoreKeys
from tactfuld.locking import hold
from tactfuld.models.embedded import EMBEDDED, embedded_model_path
from tactfuld.policy.loading import load_policy
from tactfuld.settings import load_settings
from tactfuld.store.history import HISTORY_FILE, HistoryStore
from tactfuld.store.ledger import LEDGER_FILE, LedgerStore, ledger_place
from tactfuld.store.memory import MEMORY_FILE, MemoryStore, memory_place

SETTINGS_TEXT = """\
# Operational switches; none of them loosens a promise. docs/policy.md lists them all.
# sandbox: required means that an app which cannot be confined does not start.
sandbox: {sandbox}
"""

DATABASES = (MEMORY_FILE, LEDGER_FILE, HISTORY_FILE)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the owner wants of a new profile.

    Attributes:
        recovery: whether there shall be a recovery phrase.
    """

    starter: str
    sandbox: Literal["required", "off"]
    key: Wish | None
    recovery: bool


def initialise(
    profile: Profile, passphrase: Secret[str] | None, wishes: Wishes
) -> dict[str, object]:
    """Makes a profile; what the owner is told, with the recovery phrase, this once.

    Raises:
        TactfulError: it could not be done; nothing of it is left behind.
    """
    if wishes.starter not in STARTERS:
        known = ", ".join(STARTERS)
        raise NotFound(f"There is no starter policy named {wishes.starter}. There are: {known}.")
    for folder in (profile.config, profile.data, profile.state):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with hold(profile.data), ExitStack() as undo:
        clear_unfinished(profile)
        refuse_existing(profile.data)
        mark_unfinished(profile, undo)
        write_new(profile.policy_file, starter_text(wishes.starter), undo)
        write_new(profile.policy_file.with_name(SCHEMA_FILE), schema_text(), undo)
        write_new(profile.settings_file, SETTINGS_TEXT.format(sandbox=wishes.sandbox), undo)
        promises = load_policy(profile.policy_file)
        settings = load_settings(profile.settings_file)
        for path in store_files(profile):
            undo.callback(path.unlink, missing_ok=True)
        ring = KeyRing.create(profile.data, choose_source(wishes.key, Asked(passphrase)))
        undo.callback(ring.destroy)
        phrase = ring.renew_recovery() if wishes.recovery else None
        keys = ring.store_keys()
        asyncio.run(_create_stores(profile, promises, keys))
        unmark(profile)
        undo.pop_all()
    confinement = choose_confinement(settings.sandbox)
    return {
        "policy": promises.digest,
        "positions": promises.layout.size,
        "key_source": keys.source_description,
        "recovery_phrase": None if phrase is None else phrase.reveal(),
        "sandbox": settings.sandbox,
        "sandbox_problem": confinement.problem if isinstance(confinement, NoSandbox) else None,
    }


def choices(profile: Profile) -> InitChoices:
    """What a new profile can be like, here.

    Raises:
        AlreadyExists: there is a profile.
    """
    if not (profile.data / UNFINISHED).exists():
        refuse_existing(profile.data)
    return InitChoices(
        starters=tuple(Starter(name=name, about=about) for name, about in STARTERS.items()),
        keyring=_keyring_name(),
        model=OfferedModel(
            name=EMBEDDED.name,
            size=EMBEDDED.wheel_size,
            licence=EMBEDDED.licence,
            installed=embedded_model_path(profile.models).exists(),
        ),
    )


def _keyring_name() -> str | None:
    """One that cannot be loaded is none: the owner can still choose a passphrase."""
    try:
        usable = usable_backends(configured_backend())
    except KeyUnavailable:
        return None
    return backend_name(usable[0]) if usable else None


def refuse_existing(data: Path) -> None:
    """Raises `AlreadyExists` where a data folder holds a profile."""
    if any((data / name).exists() for name in (KEY_FILE, *DATABASES)):
        raise AlreadyExists(
            f"The folder {data} holds a profile already; nothing was changed. "
            "Use it, or choose another with --profile."
        )


def mark_unfinished(profile: Profile, undo: ExitStack) -> None:
    """The marker, which lists the owner's files that are about to be made."""
    ours = [path.name for path in _files(profile) if not path.exists()]
    marker = profile.data / UNFINISHED
    undo.callback(marker.unlink, missing_ok=True)
    with marker.open("w", encoding="utf-8") as file:
        json.dump(ours, file)
        file.flush()
        os.fsync(file.fileno())


def unmark(profile: Profile) -> None:
    """The profile is whole: it may be opened from now on."""
    (profile.data / UNFINISHED).unlink()


def clear_unfinished(profile: Profile) -> None:
    """Removes what a killed `init` or `restore` has left; nothing in it was ever used."""
    marker = profile.data / UNFINISHED
    try:
        made = json.loads(marker.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    except ValueError:
        made = []  # killed before the marker was whole, so nothing else was made
    for path in _files(profile):
        if isinstance(made, list) and path.name in made:
            path.unlink(missing_ok=True)
    if (left := left_kek(profile.data)) is not None:
        with suppress(KeyUnavailable):
            discard_kek(*left, configured_backend())
    for path in (*store_files(profile), profile.data / KEY_FILE, marker):
        path.unlink(missing_ok=True)


def _files(profile: Profile) -> tuple[Path, ...]:
    """What is the owner's to edit, and what lies beside it for editors."""
    schema = profile.policy_file.with_name(SCHEMA_FILE)
    return profile.policy_file, schema, profile.settings_file


def store_files(profile: Profile) -> tuple[Path, ...]:
    """Every file of the stores, with what SQLite keeps beside a database."""
    ends = ("", "-wal", "-shm")
    databases = (profile.data / f"{name}{end}" for name in DATABASES for end in ends)
    return (*databases, ledger_place(profile).mark, memory_place(profile).witness)


def write_new(path: Path, text: str, undo: ExitStack) -> None:
    """Writes a file that is not there yet; keeps one that is."""
    try:
        with path.open("x", encoding="utf-8") as file:
            undo.callback(path.unlink, missing_ok=True)
            file.write(text)
    except FileExistsError:
        return


async def _create_stores(profile: Profile, promises: Promises, keys: StoreKeys) -> None:
    await MemoryStore.create(memory_place(profile), promises.layout, keys)
    await LedgerStore.create(ledger_place(profile), keys, promises.calibrated())
    await HistoryStore.create(profile.data / HISTORY_FILE, keys)
