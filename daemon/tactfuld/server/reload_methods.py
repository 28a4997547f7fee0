"""What the owner's tools may ask about the settings and policy files.

What is *not* here: reading them (`reload`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tactful.owner_wire import OwnerMethod, Reloaded
from tactful.wire import Empty
from tactfuld.reload import Looked
from tactfuld.server.session import Caller, Method, MethodTable


def reload_methods(look: Callable[[], Awaitable[Looked]]) -> MethodTable:
    """The part of the owner's table that is about the two files."""

    async def reload(_caller: Caller, _request: Empty) -> Reloaded:
        looked = await look()
        return Reloaded(
            waiting=looked.waiting,
            settings_problem=looked.settings_problem,
            policy_problem=looked.policy_problem,
            policy_waits=looked.policy_waits,
        )

    return {OwnerMethod.RELOAD: Method(Empty, reload)}
