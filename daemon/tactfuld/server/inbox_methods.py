"""What the owner sees of apps without being asked: the inbox, and the events of late.

What is *not* here: what apps may put there (`outlet_methods`), and taking a proposed memory over,
which is `remember` (`memory_methods`): an app learns nothing of either.
"""

from __future__ import annotations

from tactful.errors import InvalidParams
from tactful.owner_wire import (
    EventLine,
    EventsReply,
    EventsTail,
    InboxItem,
    InboxRemove,
    InboxRemoved,
    InboxReply,
    OwnerMethod,
)
from tactful.wire import Empty
from tactfuld.events.inbox import Inbox
from tactfuld.events.tail import Tail
from tactfuld.server.session import Caller, Method, MethodTable


def inbox_methods(inbox: Inbox, tail: Tail) -> MethodTable:
    """These methods of `owner.sock`."""

    async def listed(_caller: Caller, _request: Empty) -> InboxReply:
        return InboxReply(
            items=tuple(
                InboxItem(
                    id=item.id,
                    kind=item.kind,
                    app=item.app,
                    at=item.at,
                    title=item.title,
                    text=item.text,
                    slot=item.slot,
                )
                for item in inbox.items
            )
        )

    async def remove(_caller: Caller, request: InboxRemove) -> InboxRemoved:
        if (request.ids is None) != request.everything:
            raise InvalidParams("Say what to remove in one way: `ids`, or `everything`.")
        ids = request.ids if request.ids is not None else [item.id for item in inbox.items]
        return InboxRemoved(removed=inbox.remove(frozenset(ids)))

    async def events(_caller: Caller, request: EventsTail) -> EventsReply:
        found = await tail.wait(request.after, request.seconds)
        return EventsReply(
            events=tuple(
                EventLine(
                    number=each.number,
                    at=each.at,
                    app=each.app,
                    id=each.id,
                    kind=each.kind,
                    about=each.about,
                    fate=each.fate,
                )
                for each in found
            )
        )

    return {
        OwnerMethod.INBOX_LIST: Method(Empty, listed),
        OwnerMethod.INBOX_REMOVE: Method(InboxRemove, remove),
        OwnerMethod.EVENTS_TAIL: Method(EventsTail, events),
    }
