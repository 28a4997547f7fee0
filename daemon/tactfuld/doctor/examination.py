"""`tactfuld one-shot doctor`: the whole report, with or without a running daemon.

Decides who is asked what. While a daemon runs, it holds the data folder and the keys, so it is
asked for what only it can know (`server.doctor_methods`); otherwise this process holds the folder
and opens what the keys at hand open, as a start would: a replacement of a key that was interrupted
is ended by it. What is *not* here: any check.

Invariant: whatever is broken is a line of the report, never an error of the command.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from tactful.errors import (
    AlreadyRunning,
    Locked,
    PassphraseNeeded,
    TactfulError,
    from_system,
)
from tactful.owner_client import OwnerClient
from tactful.owner_wire import DoctorReply
from tactful.profile import Profile
from tactful_core.promises import Promises
from tactful_core.values import Secret
from tactfuld.apps.sandbox import choose_confinement
from tactfuld.doctor import daemon, files, keys, machine, models, places, stores
from tactfuld.doctor.check import Check, Name, State, problem, unknown
from tactfuld.doctor.stores import OpenStores
from tactfuld.journal import failure
from tactfuld.keys.values import StoreKeys
from tactfuld.locking import hold
from tactfuld.policy.loading import load_policy
from tactfuld.server.doctor_methods import told
from tactfuld.settings import Settings, load_settings
from tactfuld.store.history import HISTORY_FILE, HistoryStore
from tactfuld.store.ledger import LEDGER_FILE, LedgerStore, ledger_place
from tactfuld.store.memory import MEMORY_FILE, MemoryStore, memory_place
from tactfuld.store.released_turn import Retention
from tactfuld.unlocking import unlock

T = TypeVar("T")

Checks = dict[Name, Check]

_OF_STORES = (Name.INTEGRITY, Name.LEDGER, Name.CLOCK)
_OF_MODEL = (Name.MODEL, Name.GPU)
_OF_DAEMON = (Name.KEYS, *_OF_STORES, *_OF_MODEL)
_NO_STORES = OpenStores(None, None, None)
_KEEPS_ALL = Retention(turns=10**9, days=10**6)
"""Looking makes no turn expire."""
_NO_FOLDER = "the data folder cannot be held."


@dataclass(frozen=True, slots=True)
class _Owner:
    """The profile, and what can be read of it before anything is opened."""

    profile: Profile
    settings: files.Read[Settings]
    policy: files.Read[Promises]
    moments: tuple[machine.Moment, ...]


def examine(profile: Profile, passphrase: Secret[str] | None) -> tuple[Check, ...]:
    """Every check, in order. Blocks for as long as opening every row takes."""
    owner = _Owner(
        profile,
        files.read(profile.settings_file, load_settings),
        files.read(profile.policy_file, load_policy),
        stores.outer_moments(profile),
    )
    found = _around(owner)
    held, refusal = False, ""
    try:
        with hold(profile.data):
            found |= _without_daemon(owner, passphrase)
    except AlreadyRunning:
        held = True
        found |= _guarded(_OF_DAEMON, lambda: _with_daemon(owner))
    except TactfulError as error:
        refusal = str(error)
        opening = keys.Opening(wanting=_NO_FOLDER)
        found |= _of_keys(profile, keys.key_facts(profile), opening)
        found |= _of_stores(owner, None, _NO_FOLDER)
        found |= _of_model(owner)
    found[Name.LOCK] = daemon.check_lock(held=held, refusal=refusal)
    found |= _guarded(
        [Name.SOCKET],
        lambda: _listed([daemon.check_socket(daemon.doors_of(profile), running=held)]),
    )
    return tuple(found[name] for name in Name)


def report(profile: Profile, passphrase: Secret[str] | None) -> dict[str, object]:
    """Every check, as `tactfuld one-shot doctor` writes them."""
    return DoctorReply(checks=tuple(map(told, examine(profile, passphrase)))).model_dump(
        mode="json"
    )


def _around(owner: _Owner) -> Checks:
    """The checks that need neither keys nor the data folder."""
    profile, settings = owner.profile, owner.settings.content
    looks: dict[Name, Callable[[], Check]] = {
        Name.PERMISSIONS: lambda: places.check_permissions(places.places_of(profile), os.geteuid()),
        Name.DISK: lambda: places.check_disk(places.rooms_of(profile)),
        Name.SETTINGS: lambda: files.check_settings(owner.settings),
        Name.POLICY: lambda: files.check_policy(owner.policy),
        Name.KEYRING: lambda: keys.check_keyring(keys.keyring_facts(profile)),
        Name.SANDBOX: lambda: machine.check_sandbox(
            None if settings is None else choose_confinement(settings.sandbox)
        ),
        Name.REMOTE: lambda: models.check_remote(settings),
        Name.LINGER: lambda: machine.check_linger(machine.lingering()),
    }
    found: Checks = {}
    for name, look in looks.items():
        found |= _guarded([name], partial(_one, look))
    return found


# --- without a daemon ---------------------------------------------------------------------------


def _without_daemon(owner: _Owner, passphrase: Secret[str] | None) -> Checks:
    profile, before = owner.profile, keys.key_facts(owner.profile)
    store_keys: StoreKeys | None = None
    try:
        store_keys = unlock(profile, passphrase).store_keys()
        opening = keys.Opening(done=True)
    except PassphraseNeeded as error:
        opening = keys.Opening(wanting=str(error))
    except TactfulError as error:
        opening = keys.Opening(refusal=str(error))
    found = _of_keys(profile, before, opening)
    wanting = "" if owner.policy.content else "the policy, which says what is where, is refused."
    wanting = wanting if store_keys else "its keys were not opened."
    found |= _guarded(_OF_STORES, lambda: _of_stores(owner, store_keys, wanting))
    return found | _guarded(_OF_MODEL, lambda: _of_model(owner))


def _of_keys(profile: Profile, before: keys.KeyFacts, opening: keys.Opening) -> Checks:
    still = keys.key_facts(profile).changing if opening.done else ()
    return _listed([keys.check_keys(before, opening, still)])


def _of_stores(owner: _Owner, store_keys: StoreKeys | None, wanting: str) -> Checks:
    return asyncio.run(_examined(owner, store_keys, wanting))


async def _examined(owner: _Owner, store_keys: StoreKeys | None, wanting: str) -> Checks:
    promises, opened = owner.policy.content, _NO_STORES
    async with AsyncExitStack() as stack:
        if store_keys is not None and promises is not None:
            opened = await _opened(owner.profile, promises, store_keys, stack)
        facts = await stores.store_facts(owner.profile, opened)
    return _listed(stores.judged(facts, int(time.time()), owner.moments, wanting))


async def _opened(
    profile: Profile, promises: Promises, store_keys: StoreKeys, stack: AsyncExitStack
) -> OpenStores:
    """Opens each store by itself, so that what is wrong with one hides nothing about another."""
    refusals: dict[str, str] = {}

    async def entered(name: str, opening: AbstractAsyncContextManager[T]) -> T | None:
        try:
            return await stack.enter_async_context(opening)
        except TactfulError as error:
            refusals[name] = str(error)
            return None

    layout = promises.layout
    place, ledger_at = memory_place(profile), ledger_place(profile)
    memory = await entered(MEMORY_FILE, MemoryStore.open(place, layout, store_keys, _unheard))
    ledger = await entered(
        LEDGER_FILE, LedgerStore.open(ledger_at, store_keys, layout.attributes, _unheard)
    )
    history, file = None, profile.data / HISTORY_FILE
    if await asyncio.to_thread(file.exists):
        now = int(time.time())
        history = await entered(
            HISTORY_FILE, HistoryStore.open(file, store_keys, _KEEPS_ALL, now, _unheard)
        )
    else:
        refusals[HISTORY_FILE] = f"{file} is missing; the next start makes one without any turns."
    return OpenStores(memory, ledger, history, tuple(refusals.items()))


def _of_model(owner: _Owner) -> Checks:
    settings = owner.settings.content
    if settings is None:
        return _listed([models.unread(name) for name in _OF_MODEL])
    return _listed(
        [
            models.check_model(models.model_facts(owner.profile, settings)),
            models.check_gpu(models.gpu_facts(settings.gpu)),
        ]
    )


# --- with a daemon ------------------------------------------------------------------------------


def _with_daemon(owner: _Owner) -> Checks:
    """What the daemon says; where it is locked or does not answer, what can be seen without it."""
    facts = keys.key_facts(owner.profile)
    try:
        said = asyncio.run(_asked(owner.profile)).checks
    except TactfulError as error:
        locked = isinstance(error, Locked)
        wanting = "the profile is locked." if locked else f"the daemon did not say. {error}"
        found = _of_keys(owner.profile, facts, keys.Opening(wanting=wanting))
        found |= _of_stores(owner, None, wanting)
        return found | {name: _unsaid(name, wanting) for name in _OF_MODEL}
    found = _of_keys(owner.profile, facts, keys.Opening(done=True))
    return found | _listed(
        [Check(Name(each.name), State(each.state), each.detail, each.advice) for each in said]
    )


async def _asked(profile: Profile) -> DoctorReply:
    async with OwnerClient.connect(profile) as client:
        return await client.doctor()


def _unsaid(name: Name, wanting: str) -> Check:
    return unknown(name, f"It was not looked at: {wanting}", "Unlock the profile and look again.")


# --- whatever happens ---------------------------------------------------------------------------


def _guarded(names: Iterable[Name], look: Callable[[], Checks]) -> Checks:
    """What a look finds; where it fails itself, that is what is found."""
    try:
        return look()
    except Exception as error:  # noqa: BLE001 - a broken profile must not hide the other checks
        words = _in_words(error)
        return _listed([problem(name, words, "Look at what it names.") for name in names])


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError):
        return str(from_system(error))
    if isinstance(error, TactfulError):
        return str(error)
    # An unknown message may hold anything.
    return f"It could not be looked at ({failure(error)}); please report it."


def _one(look: Callable[[], Check]) -> Checks:
    return _listed([look()])


def _listed(checks: Iterable[Check]) -> Checks:
    return {check.name: check for check in checks}


def _unheard(_notice: str) -> None:
    """What a store says when it opens is what the checks find as well."""
