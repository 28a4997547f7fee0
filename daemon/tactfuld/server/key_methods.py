"""What the owner's tools may call about keys while everything is open.

Decides names. What is *not* here: what a rotation does (`tactfuld.rotation`), locking
(`lock_methods`), and changes of the key-encryption key, for which the daemon is stopped
(`tactfuld.key_commands`).
"""

from __future__ import annotations

from tactful.owner_wire import KeysRotated, OwnerMethod
from tactful.wire import Empty
from tactfuld.rotation import Stores
from tactfuld.server.session import Caller, Method, MethodTable


def key_methods(stores: Stores) -> MethodTable:
    """The owner's methods about keys."""

    async def rotate(_caller: Caller, _request: Empty) -> KeysRotated:
        return KeysRotated(rotated=await stores.rotate())

    return {OwnerMethod.KEYS_ROTATE: Method(Empty, rotate)}
