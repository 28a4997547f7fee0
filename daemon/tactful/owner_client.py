"""The owner's connection: each method is one typed call.

Decides how the owner is proven and what the command line and the terminal interface may call. What
is *not* here: reaching the daemon (`dialling`), any decision about memory or budgets.

Invariant: cancelling a call tells the daemon to stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tactful.dialling import ANSWER_SECONDS, dialled, no_requests
from tactful.envelope import check, parse
from tactful.errors import NoPermission, Unusable
from tactful.framing import Object
from tactful.owner_wire import (
    AppName,
    AppsList,
    AppToken,
    AskAs,
    AskOwner,
    AuditDistance,
    Distance,
    DoctorReply,
    EpochHistory,
    EpochNew,
    EpochReply,
    EventLine,
    EventsReply,
    EventsTail,
    Forgotten,
    HistoryForget,
    HistoryList,
    HistoryListReply,
    HistoryShow,
    HistoryTurn,
    InboxItem,
    InboxRemove,
    InboxRemoved,
    InboxReply,
    KeysRotated,
    LedgerReply,
    LintReply,
    MemoryAt,
    MemoryEdit,
    MemoryForget,
    MemoryFound,
    MemoryItem,
    MemoryList,
    MemoryMove,
    MemoryOf,
    MemoryPropose,
    MemorySearch,
    MemorySuggestion,
    MemorySuggestions,
    Moved,
    OwnerMethod,
    OwnersAnswer,
    PolicyApply,
    Proposal,
    Reloaded,
    Remember,
    Remembered,
    Replay,
    StagedPolicy,
    Status,
    Tell,
    TellReply,
    Turn,
    TurnStarted,
    Unlock,
)
from tactful.peer import NotificationListener, Peer
from tactful.profile import Profile
from tactful.wire import Authenticate, Detail, Empty, Notification, Progress


class OwnerClient:
    """The owner's connection: everything the command line and the terminal interface can do."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    @classmethod
    @asynccontextmanager
    async def connect(cls, profile: Profile) -> AsyncIterator[OwnerClient]:
        """Connect and authenticate with the secret in the profile.

        Raises:
            DaemonDown: nothing listens.
            NoPermission, Unusable: the socket or the secret cannot be used.
            NotAuthenticated: the secret is another one than the daemon's.
        """
        async with dialled(profile.owner_socket, no_requests) as peer:
            secret = await asyncio.to_thread(_read_secret, profile.owner_secret_file)
            params = check(Authenticate, {"token": secret})
            await peer.call(OwnerMethod.AUTHENTICATE, params, Empty)
            yield cls(peer)

    async def status(self) -> Status:
        """What the daemon is doing; also answered while it is still loading."""
        return await self._peer.call(OwnerMethod.STATUS, Empty(), Status)

    async def stop(self) -> None:
        """Ask the daemon to stop; it has begun to when this returns."""
        await self._peer.call(OwnerMethod.STOP, Empty(), Empty)

    async def lock(self) -> None:
        """Close everything that needs a key; nothing is served until `unlock`."""
        await self._peer.call(OwnerMethod.LOCK, Empty(), Empty)

    async def unlock(self, passphrase: str | None = None) -> None:
        """Open everything again.

        Raises:
            PassphraseNeeded: the key follows from a passphrase, and none was given.
            KeyUnavailable: it is the wrong one, or the key is not where it should be.
            TryLater: there were too many wrong ones.
        """
        params = check(Unlock, {"passphrase": passphrase})
        await self._peer.call(OwnerMethod.UNLOCK, params, Empty)

    async def policy_apply(self, written: str) -> StagedPolicy:
        """Puts the policy file in force at once, if it still is the one that was shown."""
        return await self._peer.call(
            OwnerMethod.POLICY_APPLY, PolicyApply(written=written), StagedPolicy
        )

    async def reload(self) -> Reloaded:
        """Look at the settings and policy files now, and take over what can be."""
        return await self._peer.call(OwnerMethod.RELOAD, Empty(), Reloaded)

    async def rotate_keys(self) -> tuple[str, ...]:
        """Seal everything under new data keys; their names. The old ones are destroyed."""
        reply = await self._peer.call(OwnerMethod.KEYS_ROTATE, Empty(), KeysRotated)
        return reply.rotated

    async def doctor(self) -> DoctorReply:
        """Have the daemon look over what only it can look at: it opens every row of its stores."""
        return await self._peer.call(OwnerMethod.DOCTOR, Empty(), DoctorReply)

    async def remember(
        self, text: str, shelf: str, position: int | None = None, *, split: bool = False
    ) -> Remembered:
        """Put a text on a shelf (`slot.shelf`), in its first empty position unless one is named."""
        wanted = {"text": text, "shelf": shelf, "position": position, "split": split}
        return await self._peer.call(OwnerMethod.REMEMBER, check(Remember, wanted), Remembered)

    async def memory_propose(self, text: str, shelf: str | None = None) -> Proposal:
        """The likeliest shelves for a text, or how it fits the one that is named."""
        params = check(MemoryPropose, {"text": text, "shelf": shelf})
        return await self._peer.call(OwnerMethod.MEMORY_PROPOSE, params, Proposal)

    async def memory_list(self, shelf: str | None = None) -> MemoryList:
        """Everything that is remembered, or what stands on one shelf."""
        params = check(MemoryOf, {"shelf": shelf})
        return await self._peer.call(OwnerMethod.MEMORY_LIST, params, MemoryList)

    async def memory_show(self, position: int) -> MemoryItem:
        """One memory."""
        params = check(MemoryAt, {"position": position})
        return await self._peer.call(OwnerMethod.MEMORY_SHOW, params, MemoryItem)

    async def memory_edit(self, position: int, text: str) -> Remembered:
        """Write another text over a memory."""
        params = check(MemoryEdit, {"position": position, "text": text})
        return await self._peer.call(OwnerMethod.MEMORY_EDIT, params, Remembered)

    async def memory_move(self, position: int, shelf: str) -> Moved:
        """Move a memory to a shelf that all attributes cover which cover it now.

        Raises:
            WouldUncover: there are some that do not.
        """
        params = check(MemoryMove, {"position": position, "shelf": shelf})
        return await self._peer.call(OwnerMethod.MEMORY_MOVE, params, Moved)

    async def memory_forget(
        self,
        positions: tuple[int, ...] | None = None,
        *,
        shelf: str | None = None,
        everything: bool = False,
    ) -> int:
        """Forget memories, named in exactly one way, and destroy the key that sealed them."""
        named = {"positions": positions, "shelf": shelf, "everything": everything}
        params = check(MemoryForget, named)
        reply = await self._peer.call(OwnerMethod.MEMORY_FORGET, params, Forgotten)
        return reply.forgotten

    async def memory_search(self, words: str, limit: int = 10) -> tuple[MemoryItem, ...]:
        """The memories that have these words, or are like them; the best first."""
        params = check(MemorySearch, {"words": words, "limit": limit})
        return (await self._peer.call(OwnerMethod.MEMORY_SEARCH, params, MemoryFound)).items

    async def memory_suggest(self) -> tuple[MemorySuggestion, ...]:
        """Memories that would stand better on another shelf."""
        reply = await self._peer.call(OwnerMethod.MEMORY_SUGGEST, Empty(), MemorySuggestions)
        return reply.suggestions

    async def policy_lint(self) -> LintReply:
        """Memories that seem to imply an attribute which does not cover them."""
        return await self._peer.call(OwnerMethod.POLICY_LINT, Empty(), LintReply)

    async def ledger(self) -> LedgerReply:
        """What every attribute has been charged."""
        return await self._peer.call(OwnerMethod.LEDGER, Empty(), LedgerReply)

    async def epoch_show(self) -> EpochReply:
        """The open epoch, and what opening another one would mean."""
        return await self._peer.call(OwnerMethod.EPOCH_SHOW, Empty(), EpochReply)

    async def epoch_new(self, after: int) -> EpochReply:
        """Open an epoch after the one with this number; caps begin anew, the lifetime sum grows."""
        params = check(EpochNew, {"after": after})
        return await self._peer.call(OwnerMethod.EPOCH_NEW, params, EpochReply)

    async def epoch_history(self) -> EpochHistory:
        """What every epoch came to."""
        return await self._peer.call(OwnerMethod.EPOCH_HISTORY, Empty(), EpochHistory)

    async def audit_distance(self, positions: tuple[int, ...]) -> Distance:
        """How far all releases can tell apart two memories that differ at these positions."""
        params = check(AuditDistance, {"positions": positions})
        return await self._peer.call(OwnerMethod.AUDIT_DISTANCE, params, Distance)

    async def audit_replay(self) -> Replay:
        """Whether the ledger's entries, read anew, give the sums that the daemon works with."""
        return await self._peer.call(OwnerMethod.AUDIT_REPLAY, Empty(), Replay)

    async def ask(
        self, question: str, *, on_text: Callable[[str], None] | None = None
    ) -> OwnersAnswer:
        """Ask for oneself: answered from all of memory, charged to nobody, kept nowhere."""
        return await self._peer.call(
            OwnerMethod.ASK_OWNER,
            check(AskOwner, {"question": question}),
            OwnersAnswer,
            on_notification=_listener(None, on_text),
            timeout=ANSWER_SECONDS,
        )

    async def ask_as(
        self,
        app: str,
        query: str,
        *,
        slots: Sequence[str] | None = None,
        thread: str | None = None,
        detail: Detail = "views",
        on_turn: Callable[[TurnStarted], None] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Turn:
        """Ask as an app would: through the gate, charged, and one of that app's turns."""
        asked = {"app": app, "query": query, "slots": slots, "thread": thread, "detail": detail}
        return await self._peer.call(
            OwnerMethod.ASK_AS,
            check(AskAs, asked),
            Turn,
            on_notification=_listener(on_turn, on_text),
            timeout=ANSWER_SECONDS,
        )

    async def tell(
        self,
        app: str,
        text: str,
        *,
        on_turn: Callable[[TurnStarted], None] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> TellReply:
        """Send a message to a hosted app, and watch the turns that it takes because of it."""
        return await self._peer.call(
            OwnerMethod.TELL,
            check(Tell, {"app": app, "text": text}),
            TellReply,
            on_notification=_listener(on_turn, on_text),
            timeout=ANSWER_SECONDS,
        )

    async def history_list(
        self, app: str | None = None, thread: str | None = None, limit: int = 20
    ) -> HistoryListReply:
        """The newest turns that are kept, newest first; all apps' without `app`."""
        params = check(HistoryList, {"app": app, "thread": thread, "limit": limit})
        return await self._peer.call(OwnerMethod.HISTORY_LIST, params, HistoryListReply)

    async def history_show(self, id_: int) -> HistoryTurn:
        """One turn, whole."""
        params = check(HistoryShow, {"id": id_})
        return await self._peer.call(OwnerMethod.HISTORY_SHOW, params, HistoryTurn)

    async def history_forget(
        self,
        ids: tuple[int, ...] | None = None,
        *,
        app: str | None = None,
        thread: str | None = None,
        everything: bool = False,
    ) -> int:
        """Forget turns by id, an app's, one of its threads', or all; returns how many there were.

        No budget comes back.
        """
        params = check(
            HistoryForget, {"ids": ids, "app": app, "thread": thread, "everything": everything}
        )
        reply = await self._peer.call(OwnerMethod.HISTORY_FORGET, params, Forgotten)
        return reply.forgotten

    async def inbox(self) -> tuple[InboxItem, ...]:
        """What apps wanted the owner to read, and memories that they propose; oldest first."""
        return (await self._peer.call(OwnerMethod.INBOX_LIST, Empty(), InboxReply)).items

    async def inbox_remove(
        self, ids: tuple[int, ...] | None = None, *, everything: bool = False
    ) -> tuple[int, ...]:
        """Take items out of the inbox; the ids of those that were there."""
        params = check(InboxRemove, {"ids": ids, "everything": everything})
        reply = await self._peer.call(OwnerMethod.INBOX_REMOVE, params, InboxRemoved)
        return reply.removed

    async def events_tail(self, after: int = 0, seconds: float = 0) -> tuple[EventLine, ...]:
        """What happened to events after that record; waits for so long if nothing did yet."""
        params = check(EventsTail, {"after": after, "seconds": seconds})
        reply = await self._peer.call(
            OwnerMethod.EVENTS_TAIL, params, EventsReply, timeout=ANSWER_SECONDS
        )
        return reply.events

    async def apps_list(self) -> AppsList:
        """The apps that the policy names."""
        return await self._peer.call(OwnerMethod.APPS_LIST, Empty(), AppsList)

    async def apps_grant(self, app: str) -> AppToken:
        """A new token for an outside program that speaks as this app; shown once."""
        params = check(AppName, {"app": app})
        return await self._peer.call(OwnerMethod.APPS_GRANT, params, AppToken)

    async def apps_revoke(self, app: str) -> None:
        """Make the app's tokens worthless."""
        params = check(AppName, {"app": app})
        await self._peer.call(OwnerMethod.APPS_REVOKE, params, Empty)

    async def apps_restart(self, app: str) -> None:
        """Start a hosted app anew, also one that is parked."""
        params = check(AppName, {"app": app})
        await self._peer.call(OwnerMethod.APPS_RESTART, params, Empty)


def _read_secret(path: Path) -> str:
    try:
        secret = path.read_text(encoding="ascii").strip()
    except FileNotFoundError as error:
        raise Unusable(
            f"The owner's secret {path} is missing although a daemon is running. Restart it with "
            "`tactful stop` and `tactful start`, which makes a new one."
        ) from error
    except PermissionError as error:
        raise NoPermission(
            f"The owner's secret {path} may not be read by this user. Run as the user who started "
            "the daemon."
        ) from error
    except ValueError:
        secret = ""  # judged below: the context of an error raised here would keep the content
    if not secret:
        raise Unusable(
            f"The owner's secret {path} is damaged. Restart the daemon, which makes a new one."
        )
    return secret


def _listener(
    on_turn: Callable[[TurnStarted], None] | None, on_text: Callable[[str], None] | None
) -> NotificationListener:
    def hear(method: str, params: Object) -> None:
        if method == Notification.PROGRESS and on_text is not None:
            on_text(parse(Progress, params).text)
        elif method == Notification.TURN and on_turn is not None:
            on_turn(parse(TurnStarted, params))

    return hear
