"""What an app may call.

Invariant: nothing here but `Gate.ask` can release anything, and a reply has only what
`tactful.wire.Answer` has: text, views of granted slots, an opaque policy version.
"""

from __future__ import annotations

from tactful.errors import Denied
from tactful.wire import Answer, AppMethod, Ask
from tactful_core.values import AppId
from tactfuld.gate import Gate
from tactfuld.server.session import OWNER, Caller, Method, MethodTable


def app_methods(gate: Gate) -> MethodTable:
    """The method table of every app connection, hosted or from outside."""

    async def ask(caller: Caller, question: Ask) -> Answer:
        return await gate.ask(_app(caller), question, caller.progress)

    return {AppMethod.ASK: Method(Ask, ask)}


def _app(caller: Caller) -> AppId:
    if caller.identity is OWNER:
        raise Denied("The owner asks through the owner's socket, not as an app.")
    return caller.identity
