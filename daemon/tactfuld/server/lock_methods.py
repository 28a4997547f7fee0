"""What the owner's tools may call in any state: locking, unlocking, stopping.

Decides what a locked daemon still says. What is *not* here: what locking does (`tactfuld.vault`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from tactful.owner_wire import ModelStatus, OwnerMethod, Status, Unlock
from tactful.wire import Empty
from tactful_core.values import Secret
from tactfuld.server.owner_methods import VERSION
from tactfuld.server.session import Caller, Method, MethodTable
from tactfuld.vault import Vault


@dataclass(frozen=True, slots=True)
class LockParts:
    """What these methods look at and act on.

    Attributes:
        key_source: where the key comes from, which tells a front end whether to ask for a
            passphrase.
        stop: asks the daemon to stop.
    """

    vault: Vault
    profile: str
    key_source: Callable[[], str]
    sandbox: str
    stop: Callable[[], None]


def lock_methods(parts: LockParts) -> MethodTable:
    """The methods that are there in any state; while the vault is open, `status` says more."""

    async def status(_caller: Caller, _request: Empty) -> Status:
        return Status(
            locked=True,
            version=VERSION,
            pid=os.getpid(),
            ready=False,
            profile=parts.profile,
            key_source=parts.key_source(),
            sandbox=parts.sandbox,
            policy="",
            positions=0,
            model=ModelStatus(name="", state="closed", progress=0.0),
            apps=(),
            notices=(),
        )

    async def stop(_caller: Caller, _request: Empty) -> Empty:
        parts.stop()
        return Empty()

    async def lock(_caller: Caller, _request: Empty) -> Empty:
        await parts.vault.lock()
        return Empty()

    async def unlock(_caller: Caller, request: Unlock) -> Empty:
        given = request.passphrase
        await parts.vault.open(None if given is None else Secret(given))
        return Empty()

    return {
        OwnerMethod.STATUS: Method(Empty, status),
        OwnerMethod.STOP: Method(Empty, stop),
        OwnerMethod.LOCK: Method(Empty, lock),
        OwnerMethod.UNLOCK: Method(Unlock, unlock),
    }
