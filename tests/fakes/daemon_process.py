"""The real `tactfuld` in a process of its own, with the real model, seen from outside.

Nothing is faked here but the passphrase's hardness: profiles are made with cheap key derivation,
so that a daemon starts quickly.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.daemon_site import POLICY

from tactful.owner_client import OwnerClient
from tactful.owner_wire import LedgerReply
from tactful.profile import Profile
from tactful_core.sealing import PassphraseParameters
from tactful_core.values import Secret
from tactfuld.keys.ring import create_keys
from tactfuld.keys.sources import PassphraseSource
from tactfuld.policy.loading import parse_policy
from tactfuld.store.history import HISTORY_FILE, HistoryStore
from tactfuld.store.ledger import LedgerStore, ledger_place
from tactfuld.store.memory import MemoryStore, memory_place

PROGRAM = str(Path(sys.executable).with_name("tactfuld"))
PASSPHRASE = "correct horse battery staple"
SETTINGS = "sandbox: off\nturn: {deadline_ms: 50}\nanswer: {max_tokens: 8}\n"
PATIENCE = 50.0
"""Seconds after which a test gives up waiting; under the limit of one test."""


def make_profile(folder: Path, *, policy: str = POLICY, settings: str = SETTINGS) -> Profile:
    """A profile as `tactful init` makes it; for tests without an event loop of their own."""
    profile = Profile.at(folder)
    for made in (profile.config, profile.data, profile.state):
        made.mkdir(mode=0o700, parents=True)
    profile.policy_file.write_text(policy)
    profile.settings_file.write_text(settings)
    cheap = PassphraseParameters(salt=b"0123456789abcdef", iterations=1, lanes=1, memory_kib=8)
    keys = create_keys(profile.data, PassphraseSource(Secret(PASSPHRASE), cheap))
    promises = parse_policy(policy, source="policy.yaml")

    async def create() -> None:
        await MemoryStore.create(memory_place(profile), promises.layout, keys)
        await LedgerStore.create(ledger_place(profile), keys, promises.calibrated())
        await HistoryStore.create(profile.data / HISTORY_FILE, keys)

    asyncio.run(create())
    return profile


def root_of(profile: Profile) -> Path:
    """The folder that a profile lives under."""
    return profile.config.parent


def surroundings(passphrase: str | None) -> dict[str, str]:
    """The environment of a daemon."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TACTFUL_")}
    return kept if passphrase is None else {**kept, "TACTFUL_PASSPHRASE": passphrase}


@dataclass(slots=True)
class DaemonProcess:
    """A `tactfuld serve` that was started.

    Attributes:
        ready: what it has written to whoever waited for it.
    """

    profile: Profile
    process: subprocess.Popen[bytes]
    ready: dict[str, Any]

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        """What all daemons of this profile have written to standard error."""
        return self.profile.log_file.read_text(encoding="utf-8")

    def send(self, number: signal.Signals) -> int:
        """Sends a signal, and waits for the end: its exit status, negative for a signal's."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Waits for its end, and returns the exit status."""
        return self.process.wait(PATIENCE)

    def descendants(self) -> list[int]:
        """The processes below it (Linux; elsewhere none)."""
        parents = dict(_parents())
        found = [self.pid]
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        return found[1:]


def serve(
    profile: Profile,
    *arguments: str,
    passphrase: str | None = PASSPHRASE,
    program: Sequence[str] = (PROGRAM,),
) -> DaemonProcess:
    """Starts a daemon, and waits until it is ready or has failed."""
    reading, writing = os.pipe()
    command = [*program, "serve", "--profile", str(root_of(profile)), *arguments]
    log = profile.log_file if profile.state.is_dir() else Path(os.devnull)
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [*command, "--ready-fd", str(writing)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=surroundings(passphrase),
            pass_fds=(writing,),
        )
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        lines = pipe.read().splitlines()  # until the daemon has closed its end
    if len(lines) != 1:
        process.kill()
        process.wait()
        raise AssertionError(f"The daemon wrote {lines} where one line was expected.")
    return DaemonProcess(profile, process, json.loads(lines[0]))


@contextmanager
def serving(
    profile: Profile, *arguments: str, program: Sequence[str] = (PROGRAM,)
) -> Iterator[DaemonProcess]:
    """A daemon that is ready; gone after the block, whatever happened in it."""
    daemon = serve(profile, *arguments, program=program)
    try:
        assert daemon.ready == {"ready": True}, daemon.ready
        yield daemon
    finally:
        if daemon.process.poll() is None:
            daemon.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                daemon.process.wait(PATIENCE)
            daemon.process.kill()
            daemon.process.wait()


def running(pids: list[int]) -> list[int]:
    """Those of the processes that still run."""
    return [pid for pid in pids if pid in dict(_parents())]


async def until_loaded(owner: OwnerClient) -> None:
    """Waits until the model is loaded."""
    while not (status := await owner.status()).ready:
        assert status.model.state == "loading", status.model
        await asyncio.sleep(0.05)


async def ledger_of(profile: Profile) -> LedgerReply:
    """The ledger, as the daemon shows it."""
    async with OwnerClient.connect(profile) as owner:
        return await owner.ledger()


def spent(ledger: LedgerReply) -> dict[str, float]:
    """What is charged to each attribute, in epsilon."""
    return {line.attribute: line.spent for line in ledger.lines}


def _parents() -> Iterator[tuple[int, int]]:
    """Each process that is not a zombie, and its parent."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state not in "ZX":
            yield int(path.parent.name), int(parent)
