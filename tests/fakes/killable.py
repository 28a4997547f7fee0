"""Work on a profile that is killed at a random moment and begun again, many times.

`killed` starts `python -m tests.fakes.killable WORK FOLDER` and kills what it does. That process
forks a child for each line on its standard input, which opens the profile in FOLDER and works
without end; forking saves the imports of a new process. The child writes its process id when it
begins, and a line for each step that it has taken; whoever reads the first may kill it.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.daemon_process import PASSPHRASE

from tactful.profile import Profile
from tactful_core.values import Position, Secret, ShelfName
from tactfuld.locking import hold
from tactfuld.memory_migration import migrate_memory
from tactfuld.policy.loading import load_policy, parse_document
from tactfuld.policy.record import RECORD_FILE, InEpoch, write_record
from tactfuld.store.history import HISTORY_FILE, HistoryStore
from tactfuld.store.ledger import LedgerStore, ledger_place
from tactfuld.store.memory import MemoryStore, memory_place
from tactfuld.store.released_turn import Retention
from tactfuld.unlocking import unlock

REPOSITORY = Path(__file__).parents[2]
DIET, GROCERIES = ShelfName("food.diet"), ShelfName("food.groceries")
IN_DIET, IN_GROCERIES = Position(2), Position(3)


@dataclass(frozen=True, slots=True)
class Stores:
    """What a daemon opens; `notices` is what it would tell the owner."""

    memory: MemoryStore
    ledger: LedgerStore
    history: HistoryStore
    notices: list[str]


@asynccontextmanager
async def opened(profile: Profile) -> AsyncIterator[Stores]:
    """What a daemon that starts now opens."""
    ring = await asyncio.to_thread(unlock, profile, Secret(PASSPHRASE))
    layout = (await asyncio.to_thread(load_policy, profile.policy_file)).layout
    keys, notices = ring.store_keys(), list[str]()
    memory = MemoryStore.open(memory_place(profile), layout, keys, notices.append)
    ledger = LedgerStore.open(ledger_place(profile), keys, layout.attributes, notices.append)
    kept = Retention(turns=50, days=90)
    history = HistoryStore.open(profile.data / HISTORY_FILE, keys, kept, 0, notices.append)
    async with memory as one, ledger as other, history as third:
        yield Stores(one, other, third, notices)


def killed(profile: Profile, work: str, kills: int, longest: float) -> Iterator[int]:
    """Kills so often, after at most `longest` seconds; yields how many steps were reported."""
    command = [sys.executable, "-m", "tests.fakes.killable", work, str(profile.config.parent)]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as zygote:
        assert zygote.stdin is not None
        assert zygote.stdout is not None
        for _ in range(kills):
            zygote.stdin.write("again\n")
            pid = int(zygote.stdout.readline())
            time.sleep(random.uniform(0, longest))
            os.kill(pid, signal.SIGKILL)
            steps = 0
            while (line := zygote.stdout.readline()) == ".\n":
                steps += 1
            assert line == "dead\n"
            yield steps
        zygote.stdin.close()


async def rotate(stores: Stores) -> None:
    """Every key once."""
    await stores.memory.rotate()
    await stores.ledger.rotate()
    await stores.history.rotate()


async def change(stores: Stores) -> None:
    """Each verb once, at the positions 2 and 3, which are empty before and afterwards."""
    memory = stores.memory
    for step in (
        memory.remember("It is new.", DIET, None, 1),
        memory.edit(IN_DIET, "It is edited.", 2),
        memory.move(IN_DIET, GROCERIES),
        memory.forget((IN_GROCERIES,)),
    ):
        await step
        _say(".")


def policy_in_force_now(profile: Profile) -> None:
    """Leaves the record behind that a daemon with this policy does."""
    document = parse_document(profile.policy_file.read_text(), source="policy")
    write_record(profile.state / RECORD_FILE, [InEpoch(1, 0, at_once=False, document=document)])


def migrate(profile: Profile) -> None:
    """From the shelves that there are to others, again and again, as with daemons in between."""
    small, large = "diet: {positions: 1, tokens: 48}", "diet: {positions: 5, tokens: 96}"
    _say(str(os.getpid()))
    while True:
        policy_in_force_now(profile)
        text = profile.policy_file.read_text()
        other = text.replace(small, large) if small in text else text.replace(large, small)
        beside = profile.policy_file.with_suffix(".new")
        beside.write_text(other)
        beside.replace(profile.policy_file)
        migrate_memory(profile, Secret(PASSPHRASE), commit=True, uncover=False)
        _say(".")


WORKS: Mapping[str, Callable[[Stores], Awaitable[None]]] = {"rotate": rotate, "change": change}


async def _without_end(profile: Profile, work: Callable[[Stores], Awaitable[None]]) -> None:
    async with opened(profile) as stores:
        _say(str(os.getpid()))
        while True:
            await work(stores)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    profile = Profile.at(Path(sys.argv[2]))
    for _line in sys.stdin:
        child = os.fork()
        if child == 0 and sys.argv[1] == "migrate":
            migrate(profile)
        if child == 0:
            with hold(profile.data):
                asyncio.run(_without_end(profile, WORKS[sys.argv[1]]))
        os.waitpid(child, 0)
        _say("dead")


if __name__ == "__main__":
    main()
