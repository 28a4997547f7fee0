"""Requests for replies, and the line in which the owner's wait for their worker.

Decides: who of the owner's requests waits, who is refused, and that they give way to apps. Not
here: the line of apps (places), what a worker does with a request, states of an engine (engine).

Invariants
- The line is served first come first served, one request at a time; at most `most` wait.
- It is served only while no app's request waits or is answered. Apps know nothing of it, neither
  who waits in it nor for how long.
- All of it is guarded by one condition, which the lines of an engine and its state share.
"""

import asyncio
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from tactful_core.values import Secret
from tactfuld.inference.errors import EngineBusy, InferenceError
from tactfuld.inference.groups import GroupDraw, SequenceGroup
from tactfuld.inference.prompt import Prompt


@dataclass(frozen=True, slots=True)
class Source:
    """Whose request it is: an app's, within one of its threads or (None) standing alone."""

    app: str = ""
    thread: str | None = None


NOBODY: Final = Source()


@dataclass(frozen=True, slots=True)
class Forgetting:
    """Whose earlier turns are gone: those of `threads`, or (None) of all.

    `overwrite`: also what is left of them where nobody reads it any more, as soon as can be.
    """

    threads: frozenset[Source] | None
    overwrite: bool

    def covers(self, source: Source) -> bool:
        """Whether turns of this thread are gone."""
        return self.threads is None or source in self.threads


@dataclass(frozen=True, slots=True)
class Fused:
    """A group of prompts, and the function that draws each token for all of them."""

    group: Secret[SequenceGroup]
    draw: GroupDraw = field(repr=False)


class Request:
    """One reply on its way; `pieces` belongs to the loop, the rest to both sides."""

    def __init__(self, asked: Prompt | Fused, max_tokens: int, source: Source = NOBODY) -> None:
        self.asked: Prompt | Fused = asked
        self.max_tokens = max_tokens
        self.source = source
        self.cancelled = False
        # Its prompt may hold turns that were forgotten since: nothing of it is kept.
        self.leaves_nothing = False
        self.pieces: asyncio.Queue[str | InferenceError | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    @property
    def prompt(self) -> Prompt:
        """What it goes on from, where that is one prompt."""
        if isinstance(self.asked, Prompt):
            return self.asked
        raise TypeError("A request for fused text has a group and no prompt.")

    def send(self, item: str | InferenceError | None) -> None:
        """Hand one piece, an error, or the end (None) to the reader, from any thread."""
        try:
            self._loop.call_soon_threadsafe(self.pieces.put_nowait, item)
        except RuntimeError:
            # The reader's loop is closed: nobody is left to read.
            self.cancelled = True


class Foremost(Protocol):
    """What the owner's line has to know of the line of apps."""

    @property
    def occupied(self) -> bool: ...


class Line:
    """Requests in the order in which they came."""

    def __init__(
        self, changed: threading.Condition, most: int, *, behind: Foremost | None = None
    ) -> None:
        """An empty line.

        Args:
            changed: guards this line and what else an engine shares; notified when any changes.
            behind: what this line gives way to.
        """
        self._changed = changed
        self._most = most
        self._behind = behind
        self._waiting: deque[Request] = deque()
        self._closed = False

    def join(self, request: Request) -> None:
        """Wait at the end; raises `EngineBusy` where as many wait as may."""
        with self._changed:
            if len(self._waiting) >= self._most:
                raise EngineBusy(
                    f"{len(self._waiting)} requests wait for the model, as many as may. "
                    "Ask again in a moment."
                )
            self._waiting.append(request)
            self._changed.notify_all()

    def cancel(self, request: Request) -> None:
        """Leave the line; a request that is being served ends soon."""
        with self._changed:
            request.cancelled = True
            with suppress(ValueError):
                self._waiting.remove(request)
            self._changed.notify_all()

    def close(self, error: InferenceError) -> None:
        """Send everybody away with `error`; nobody is served any more."""
        with self._changed:
            self._closed = True
            while self._waiting:
                self._waiting.popleft().send(error)
            self._changed.notify_all()

    def next(self) -> Request | None:
        """Wait for the next request, which is served from now on; None once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or (self._waiting and not self._held))
            if self._closed:
                return None
            return self._waiting.popleft()

    def wait_for_turn(self, request: Request) -> bool:
        """Whether the request that is served may go on; waits while this line gives way."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or request.cancelled or not self._held)
            return not self._closed and not request.cancelled

    @property
    def _held(self) -> bool:
        return self._behind is not None and self._behind.occupied
