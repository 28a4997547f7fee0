"""What an app may ask.

Decides nothing: the gate does. What is *not* here: what an app may tell others (`outlet_methods`).

Invariants:

- nothing here but `Gate.ask` can release anything that depends on memory;
- replies have only what `tactful.wire` gives them: text, views of granted slots, an opaque policy
  version, for each granted slot how many fresh answers are left, and its public views.
"""

from __future__ import annotations

from tactful.errors import Denied
from tactful.wire import Answer, AppMethod, Ask, Budget, Empty, Vocabulary
from tactful_core.values import AppId
from tactfuld.gate import Gate
from tactfuld.server.session import OWNER, Caller, Method, MethodTable


def app_methods(gate: Gate) -> MethodTable:
    """The method table of every app connection, hosted or from outside."""

    async def ask(caller: Caller, question: Ask) -> Answer:
        return await gate.ask(_app(caller), question, caller.progress)

    async def budget(caller: Caller, _request: Empty) -> Budget:
        return gate.budget(_app(caller))

    async def quote(caller: Caller, question: Ask) -> Budget:
        return await gate.quote(_app(caller), question)

    async def vocabulary(caller: Caller, _request: Empty) -> Vocabulary:
        return gate.vocabulary(_app(caller))

    return {
        AppMethod.ASK: Method(Ask, ask),
        AppMethod.BUDGET: Method(Empty, budget),
        AppMethod.QUOTE: Method(Ask, quote),
        AppMethod.VOCABULARY: Method(Empty, vocabulary),
    }


def _app(caller: Caller) -> AppId:
    if caller.identity is OWNER:
        raise Denied("The owner asks through the owner's socket, not as an app.")
    return caller.identity
