"""What the owner asks: for themselves, from all of memory, or as an app.

Decides which of the two a request is. What is *not* here: the owner's answers (`owner_answers`),
turns of apps (`gate`).

Invariants:

- a question for oneself never reaches the gate: it charges nobody and is nobody's history;
- a question as an app takes the same way as one of that app's, and is public input as those are:
  what it costs, which topics it is about and what it makes the app likely to get later, apps see.
"""

from __future__ import annotations

from tactful.owner_wire import AskAs, AskOwner, OwnerMethod, OwnersAnswer, Turn
from tactful.wire import Ask
from tactful_core.promises import Promises
from tactfuld.gate import Gate
from tactfuld.owner_answers import OwnerAnswers
from tactfuld.server.named_apps import named_app
from tactfuld.server.session import Caller, Method, MethodTable
from tactfuld.server.shown_turns import shown
from tactfuld.turns import TurnLog


def ask_methods(promises: Promises, gate: Gate, answers: OwnerAnswers) -> MethodTable:
    """The methods of `owner.sock` that ask."""

    async def ask_owner(caller: Caller, request: AskOwner) -> OwnersAnswer:
        return await answers.answer(request.question, caller.progress)

    async def ask_as(caller: Caller, request: AskAs) -> Turn:
        app = named_app(promises, request.app)
        log = TurnLog(promises.layout)
        question = Ask(
            query=request.query,
            slots=request.slots,
            thread=request.thread,
            detail=request.detail,
        )
        async with shown(caller, log):
            await gate.ask(app, question, _unheard, watcher=log)
        (turn,) = log.turns
        return turn

    return {
        OwnerMethod.ASK_OWNER: Method(AskOwner, ask_owner),
        OwnerMethod.ASK_AS: Method(AskAs, ask_as),
    }


async def _unheard(_piece: str) -> None:
    """The owner hears the pieces from the log, after the views that shaped them."""
