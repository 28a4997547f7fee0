"""An owner's door that says what a test puts into it: real socket, real peer, nothing behind them.

For front ends, which must show whatever a daemon says. What a real daemon says is tested elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tactful.errors import NotFound, TactfulError, UnknownMethod
from tactful.owner_wire import (
    EpochReply,
    HistoryItem,
    HistoryListReply,
    HistoryTurn,
    LedgerReply,
    OwnerMethod,
    Status,
)
from tactful.peer import Call, Limits, Peer, open_streams
from tactful.profile import Profile
from tactful.wire import Empty, Message

LIMITS = Limits(line_bytes=1024 * 1024)


@dataclass(slots=True)
class ScriptedDaemon:
    """What to answer, which may be changed at any time.

    Attributes:
        whole: turns by their number.
        refusals: methods that are answered with an error instead.
        silent: whether requests are never answered.
        connections: how many there have been.
        asked: how often each method was called.
    """

    status: Status
    ledger: LedgerReply
    epoch: EpochReply
    turns: tuple[HistoryItem, ...]
    whole: dict[int, HistoryTurn]
    refusals: dict[str, TactfulError] = field(default_factory=dict)
    silent: bool = False
    connections: int = 0
    asked: dict[str, int] = field(default_factory=dict)

    async def answer(self, call: Call) -> Message:
        self.asked[call.method] = self.asked.get(call.method, 0) + 1
        if self.silent:
            await asyncio.Event().wait()
        if call.method in self.refusals:
            raise self.refusals[call.method]
        answers: dict[str, Message] = {
            OwnerMethod.AUTHENTICATE: Empty(),
            OwnerMethod.STATUS: self.status,
            OwnerMethod.LEDGER: self.ledger,
            OwnerMethod.EPOCH_SHOW: self.epoch,
        }
        if call.method == OwnerMethod.HISTORY_LIST:
            return HistoryListReply(turns=self.turns)
        if call.method == OwnerMethod.HISTORY_SHOW:
            number = call.params["id"]
            if number not in self.whole:
                raise NotFound(f"There is no turn {number}.")
            return self.whole[int(str(number))]
        if call.method not in answers:
            raise UnknownMethod("There is no such method.")
        return answers[call.method]


@asynccontextmanager
async def serving(daemon: ScriptedDaemon, profile: Profile) -> AsyncIterator[None]:
    """Answers on the profile's owner socket until the block ends, which drops every connection."""
    for folder in (profile.state, profile.runtime):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    profile.owner_secret_file.write_text("secret")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(os.fspath(profile.owner_socket))
    listener.listen()
    listener.setblocking(False)
    try:
        async with asyncio.TaskGroup() as sessions:
            accepting = sessions.create_task(_accept(listener, daemon), name="accept")
            yield
            accepting.cancel()
    finally:
        listener.close()
        profile.owner_socket.unlink()


async def _accept(listener: socket.socket, daemon: ScriptedDaemon) -> None:
    async with asyncio.TaskGroup() as sessions:
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(listener)
            daemon.connections += 1
            streams = await open_streams(sock, LIMITS)
            peer = Peer(*streams, daemon.answer, LIMITS, name="the owner")
            sessions.create_task(peer.run(), name="session")
