"""A process that rotates keys until it is killed, and starts again at once.

`python -m tests.fakes.rotating FOLDER` forks a child for each line on its standard input, which
opens the profile in FOLDER and rotates without end. The child writes its process id and a line
feed when it begins; whoever reads that may kill it. Forking saves the imports of a new process.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tests.fakes.daemon_process import PASSPHRASE

from tactful.profile import Profile
from tactful_core.layout import Layout
from tactful_core.values import Secret
from tactfuld.keys.values import StoreKeys
from tactfuld.locking import hold
from tactfuld.policy.loading import load_policy
from tactfuld.store.history import HISTORY_FILE, HistoryStore
from tactfuld.store.ledger import LedgerStore, ledger_place
from tactfuld.store.memory import MemoryStore, memory_place
from tactfuld.store.released_turn import Retention
from tactfuld.unlocking import unlock


def rotate_for_ever(profile: Profile) -> None:
    with hold(profile.data):
        ring = unlock(profile, Secret(PASSPHRASE))
        layout = load_policy(profile.policy_file).layout
        asyncio.run(_rotate(profile, ring.store_keys(), layout))


async def _rotate(profile: Profile, keys: StoreKeys, layout: Layout) -> None:
    memory = MemoryStore.open(memory_place(profile), layout, keys, print)
    ledger = LedgerStore.open(ledger_place(profile), keys, layout.attributes, print)
    kept = Retention(turns=50, days=90)
    history = HistoryStore.open(profile.data / HISTORY_FILE, keys, kept, 0, print)
    async with memory as one, ledger as other, history as third:
        sys.stdout.write(f"{os.getpid()}\n")
        sys.stdout.flush()
        while True:
            await one.rotate()
            await other.rotate()
            await third.rotate()


def main() -> None:
    profile = Profile.at(Path(sys.argv[1]))
    for _line in sys.stdin:
        child = os.fork()
        if child == 0:
            rotate_for_ever(profile)
        os.waitpid(child, 0)
        sys.stdout.write("dead\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
