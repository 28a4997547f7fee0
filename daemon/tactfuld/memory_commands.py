"""Commands about memory that work without a daemon: `memory-accept`.

Decides what it does, in which order. What is *not* here: which copy of memory is an older one
(`store.memory`).
"""

from __future__ import annotations

import asyncio

from tactful.profile import Profile
from tactful_core.values import Secret
from tactfuld.keys.values import StoreKeys
from tactfuld.locking import hold
from tactfuld.policy.loading import load_policy
from tactfuld.store.memory import MemoryStore, memory_place
from tactfuld.unlocking import unlock


def accept_memory(profile: Profile, passphrase: Secret[str] | None) -> dict[str, object]:
    """Takes memory as it is for the newest, whatever its witness says.

    Raises:
        TactfulError: it is damaged, or cannot be opened or written; nothing was changed.
    """
    with hold(profile.data):
        keys = unlock(profile, passphrase).store_keys()
        memories = asyncio.run(_accepted(profile, keys))
        return {"memories": memories}


async def _accepted(profile: Profile, keys: StoreKeys) -> int:
    layout = (await asyncio.to_thread(load_policy, profile.policy_file)).layout
    notices: list[str] = []
    place = memory_place(profile)
    async with MemoryStore.open(place, layout, keys, notices.append, accept=True) as store:
        return len(await store.listing())
