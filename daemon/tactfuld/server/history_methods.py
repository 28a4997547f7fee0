"""What the owner's tools may call about released history.

Decides how turns look to the owner. What is *not* here: how they are kept and forgotten
(`store.history`), and anything an app may call: no app can list what it asked, or what another did.

Invariant: forgetting touches no ledger; nothing that was charged comes back.
"""

from __future__ import annotations

from tactful.errors import InvalidParams, NotFound
from tactful.owner_wire import (
    Forgotten,
    HistoryForget,
    HistoryItem,
    HistoryList,
    HistoryListReply,
    HistoryShow,
    HistoryTurn,
    HistoryView,
    OwnerMethod,
)
from tactful_core.values import AppId
from tactfuld.server.session import Caller, Method, MethodTable
from tactfuld.store.history import HistoryStore
from tactfuld.store.released_turn import ReleasedTurn

BEGINNING_WORDS = 12


def history_methods(store: HistoryStore) -> MethodTable:
    """The part of the owner's table that is about released history."""
    owner = _HistoryMethods(store)
    return {
        OwnerMethod.HISTORY_LIST: Method(HistoryList, owner.list),
        OwnerMethod.HISTORY_SHOW: Method(HistoryShow, owner.show),
        OwnerMethod.HISTORY_FORGET: Method(HistoryForget, owner.forget),
    }


class _HistoryMethods:
    def __init__(self, store: HistoryStore) -> None:
        self._store = store

    async def list(self, _caller: Caller, request: HistoryList) -> HistoryListReply:
        if request.app is None and request.thread is not None:
            raise InvalidParams("A thread belongs to an app; name the app as well.")
        app = None if request.app is None else AppId(request.app)
        found = await self._store.listing(app, request.thread, request.limit)
        return HistoryListReply(turns=tuple(_item(number, turn) for number, turn in found))

    async def show(self, _caller: Caller, request: HistoryShow) -> HistoryTurn:
        turn = await self._store.turn(request.id)
        if turn is None:
            raise NotFound(
                f"There is no turn {request.id}; `tactful history list` shows those that are kept."
            )
        return HistoryTurn(
            id=request.id,
            app=turn.app,
            thread=turn.thread,
            at=turn.at,
            query=turn.query,
            views=_views(turn),
            answer=turn.answer,
            complete=turn.complete,
        )

    async def forget(self, _caller: Caller, request: HistoryForget) -> Forgotten:
        _require_one_way(request)
        if request.ids is not None:
            forgotten = await self._store.forget(request.ids)
        elif request.app is not None:
            forgotten = await self._store.forget_app(AppId(request.app), request.thread)
        else:
            forgotten = await self._store.forget_all()
        return Forgotten(forgotten=forgotten)


def _require_one_way(request: HistoryForget) -> None:
    """Raises `InvalidParams` unless it says in one way what to forget."""
    ways = (request.ids is not None, request.app is not None, request.everything)
    if sum(ways) != 1 or (request.thread is not None and request.app is None):
        raise InvalidParams(
            "Say in one way what to forget: ids; an app, with or without one of its threads; or "
            "everything. Nothing was forgotten."
        )


def _item(number: int, turn: ReleasedTurn) -> HistoryItem:
    return HistoryItem(
        id=number,
        app=turn.app,
        thread=turn.thread,
        at=turn.at,
        query=turn.query,
        views=_views(turn),
        beginning=_beginning(turn.answer),
        complete=turn.complete,
    )


def _beginning(answer: str) -> str:
    words = answer.split()
    return " ".join(words[:BEGINNING_WORDS]) + (" …" if len(words) > BEGINNING_WORDS else "")


def _views(turn: ReleasedTurn) -> tuple[HistoryView, ...]:
    return tuple(
        HistoryView(slot=each.slot, view=each.view, fallback=each.fallback) for each in turn.views
    )
