"""What an app may tell its owner and other apps.

Decides who may, and how often. What is *not* here: what becomes of it (`tactfuld.events`).

Invariants:

- a reply follows from the policy, and from how often this app called; never from what the owner
  did, from another app, nor from whether something could be kept;
- a proposal's reply is the same for every granted slot, whatever becomes of it: the owner's
  decision, the queue and the disk have no part in it (C7).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tactful.errors import Busy, Denied
from tactful.wire import AppMethod, Empty, Message, Notify, Propose, Send
from tactful_core.values import AppId, SlotName
from tactfuld.clock import Clock
from tactfuld.events.inbox import Inbox, Item, ItemKind
from tactfuld.events.pace import Allowance, Pace
from tactfuld.server.session import OWNER, Caller, Method, MethodTable

NOTICES = Allowance(burst=20, seconds=60.0)
PROPOSALS = Allowance(burst=20, seconds=60.0)
TEXTS = Allowance(burst=60, seconds=1.0)


class Switchboard(Protocol):
    """What takes texts from one app to another; `tactfuld.events.bus.EventBus` is one."""

    def hears(self, listener: AppId, sender: AppId) -> bool:
        """Whether the policy lets the one hear the other."""
        ...

    def send(self, sender: AppId, listener: AppId, text: str) -> None:
        """Tells the listener; returns at once, whatever becomes of it."""
        ...


@dataclass(frozen=True, slots=True)
class Outlets:
    """Where what apps say goes.

    Attributes:
        slots: those that an app is granted by the policy in force.
        admitted: whether the policy in force grants the app anything at all.
    """

    inbox: Inbox
    switchboard: Switchboard
    slots: Callable[[AppId], frozenset[SlotName]]
    admitted: Callable[[AppId], bool]
    clock: Clock


def outlet_methods(outlets: Outlets) -> MethodTable:
    """These methods of every app connection, hosted or from outside."""
    own = _OutletMethods(outlets)
    return {
        AppMethod.NOTIFY: Method(Notify, own.notify),
        AppMethod.PROPOSE: Method(Propose, own.propose),
        AppMethod.SEND: Method(Send, own.send),
    }


class _OutletMethods:
    def __init__(self, outlets: Outlets) -> None:
        self._outlets = outlets
        self._notices = Pace(NOTICES, outlets.clock)
        self._proposals = Pace(PROPOSALS, outlets.clock)
        self._texts = Pace(TEXTS, outlets.clock)

    async def notify(self, caller: Caller, request: Notify) -> Message:
        app = self._admitted(caller)
        if not self._notices.allows(app):
            raise Busy(
                f"This app has told its owner too much: at most {NOTICES.burst} notices at once, "
                f"and one in {NOTICES.seconds:g} seconds. Try again later."
            )
        self._put(app, ItemKind.NOTICE, request.text, title=request.title)
        return Empty()

    async def propose(self, caller: Caller, request: Propose) -> Message:
        app = self._admitted(caller)
        slot = SlotName(request.slot)
        if slot not in self._outlets.slots(app):
            raise Denied(
                "The policy does not grant this app the slot. It may propose memories about "
                "granted slots only."
            )
        if self._proposals.allows(app):
            self._put(app, ItemKind.PROPOSAL, request.text, slot=slot)
        return Empty()

    async def send(self, caller: Caller, request: Send) -> Message:
        app = self._admitted(caller)
        listener = AppId(request.app)
        if not self._outlets.switchboard.hears(listener, app):
            raise Denied(
                "The policy does not let that app hear this one. The owner lists this app under "
                "'hears' of the other."
            )
        if not self._texts.allows(app):
            raise Busy(
                f"This app has told others too much: at most {TEXTS.burst} texts at once, and one "
                f"in {TEXTS.seconds:g} seconds. Try again later."
            )
        self._outlets.switchboard.send(app, listener, request.text)
        return Empty()

    def _put(
        self,
        app: AppId,
        kind: ItemKind,
        text: str,
        *,
        title: str = "",
        slot: SlotName | None = None,
    ) -> None:
        now = self._outlets.clock.now()
        self._outlets.inbox.add(Item(0, kind, app, now, title, text, slot))

    def _admitted(self, caller: Caller) -> AppId:
        if caller.identity is OWNER:
            raise Denied("The owner has no app's outlets.")
        if not self._outlets.admitted(caller.identity):
            raise Denied(
                "The policy grants this app nothing. The owner lists what it may do under 'apps'."
            )
        return caller.identity
