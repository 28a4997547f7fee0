"""Commands about keys that work without a daemon: `key-show`, `key-change`, `key-rotate` ...

Decides what each of them does, in which order. What is *not* here: keys (`keys.ring`), and how a
store goes from one key to the next (`store`).

`key-show` reads what anybody who may read the folder can read, so it needs no passphrase and works
while a daemon runs. All others hold the data folder.
"""

from __future__ import annotations

import asyncio

from tactful.profile import Profile
from tactful_core.values import Secret
from tactfuld.clock import SystemClock
from tactfuld.keys.attempts import Attempts
from tactfuld.keys.key_file import read_key_file
from tactfuld.keys.recovery import phrase_of
from tactfuld.keys.ring import KeyRing
from tactfuld.keys.sources import Asked, Wish, choose_source
from tactfuld.keys.values import Purpose
from tactfuld.locking import hold
from tactfuld.policy.loading import load_policy
from tactfuld.rotation import Stores
from tactfuld.settings import load_settings
from tactfuld.store.history import HISTORY_FILE, HistoryStore
from tactfuld.store.ledger import LedgerStore, ledger_place
from tactfuld.store.memory import MEMORY_FILE, MOST_SEALS, MemoryStore, memory_place, seals_used
from tactfuld.store.released_turn import Retention
from tactfuld.unlocking import unlock


def show_keys(profile: Profile) -> dict[str, object]:
    """What the key file says, which nothing has authenticated, and how much was sealed.

    Raises:
        Unusable: there is no key file, it is damaged, or it is of another version.
    """
    file = read_key_file(profile.data)
    return {
        "source": file.kek.source,
        "description": file.kek.description,
        "since": file.kek_since,
        "recovery_since": None if file.recovery is None else file.recovery.since,
        "keys": {
            purpose.value: {"since": wrapped[0].since, "changing": len(wrapped) > 1}
            for purpose, wrapped in (
                (Purpose.MEMORY, file.memory),
                (Purpose.LEDGER, file.ledger),
                (Purpose.HISTORY, file.history),
            )
        },
        "memory_seals": seals_used(profile.data / MEMORY_FILE),
        "most_seals": MOST_SEALS,
    }


def change_key(
    profile: Profile, passphrase: Secret[str] | None, wanted: Wish, new: Secret[str] | None
) -> dict[str, object]:
    """Puts the master key under a KEK of the wanted source."""
    with hold(profile.data):
        ring = unlock(profile, passphrase)
        ring.change_source(choose_source(wanted, Asked(new)))
        return {"description": ring.store_keys().source_description}


def renew_recovery(profile: Profile, passphrase: Secret[str] | None) -> dict[str, object]:
    """A new recovery phrase, which is told this once; the old one opens nothing more."""
    with hold(profile.data):
        return {"recovery_phrase": unlock(profile, passphrase).renew_recovery().reveal()}


def recover(
    profile: Profile, phrase: Secret[str], wanted: Wish, new: Secret[str] | None
) -> dict[str, object]:
    """Opens the store with its recovery phrase, and puts it under a KEK of the wanted source."""
    with hold(profile.data):
        source = choose_source(wanted, Asked(new))
        ring = KeyRing.recover(profile.data, phrase_of(phrase), source, Attempts(profile.state))
        return {"description": ring.store_keys().source_description}


def rotate_keys(profile: Profile, passphrase: Secret[str] | None) -> dict[str, object]:
    """New data keys for all stores."""
    with hold(profile.data):
        ring = unlock(profile, passphrase)
        return {"rotated": list(asyncio.run(_rotate(profile, ring)))}


async def _rotate(profile: Profile, ring: KeyRing) -> tuple[str, ...]:
    layout = (await asyncio.to_thread(load_policy, profile.policy_file)).layout
    kept = (await asyncio.to_thread(load_settings, profile.settings_file)).history
    keys, notices, now = ring.store_keys(), list[str](), SystemClock().now()
    retention = Retention(kept.turns, kept.days)
    memory = MemoryStore.open(memory_place(profile), layout, keys, notices.append)
    ledger = LedgerStore.open(ledger_place(profile), keys, layout.attributes, notices.append)
    history = HistoryStore.open(profile.data / HISTORY_FILE, keys, retention, now, notices.append)
    async with memory as one, ledger as other, history as third:
        return await Stores(one, other, third).rotate()
