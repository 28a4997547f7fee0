"""Places: who of the apps is answered, who waits, who is refused, and who is next.

Decides: how many requests of one app there may be, and the order in which requests of several apps
are begun. Not here: the owner's line (requests), how many are answered side by side and whether
there is room for one more (scheduler).

Invariants
- An app is refused because of its own requests alone, never because of another app's or the
  owner's.
- Of apps that wait, each in turn has one request begun; an app's own begin in the order in which
  they were made. So one that asks ten things at once does not push another's one aside.
- A request that was taken is told its end exactly once, whichever way it ends.
- All of it is guarded by the condition that an engine's lines share.
"""

import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Literal

from tactfuld.inference.errors import EngineBusy, InferenceError
from tactfuld.inference.requests import Forgetting, Request, Source


class Place:
    """One place among an app's requests; held from before its charge until its reply has ended."""

    def __init__(self, source: Source) -> None:
        self.source: Final = source
        # Turns of its thread were forgotten while it was held.
        self.outlived = False


Work = Literal["some", "forgetting", "none", "closed"]


class AppLine:
    """Requests of all apps, those that wait and those that are being answered."""

    def __init__(self, changed: threading.Condition, most: int) -> None:
        """An empty line.

        Args:
            changed: guards this line and what else an engine shares; notified when any changes.
            most: places for one app.
        """
        self._changed = changed
        self._most = most
        self._held: Counter[str] = Counter()
        self._places: set[Place] = set()
        self._forgettings: list[Forgetting] = []
        # By app, in the order in which the apps have their turn.
        self._waiting: dict[str, deque[Request]] = {}
        self._answering: set[Request] = set()
        self._closed = False

    @property
    def occupied(self) -> bool:
        """Whether any app's request waits or is being answered."""
        return bool(self._answering or self._waiting)

    @contextmanager
    def place(self, source: Source) -> Iterator[Place]:
        """Hold a place; raises `EngineBusy` where the app has as many as it may."""
        with self._changed:
            if self._held[source.app] >= self._most:
                raise EngineBusy(
                    f"{self._most} requests wait for the model or are being answered, as many as "
                    "one app may have. Ask again in a moment."
                )
            self._held[source.app] += 1
            place = Place(source)
            self._places.add(place)
        try:
            yield place
        finally:
            with self._changed:
                self._places.discard(place)
                self._held[source.app] -= 1
                self._held += Counter()  # drops apps that hold none

    def join(self, request: Request, place: Place | None = None) -> None:
        """Wait behind what the same app asked before."""
        with self._changed:
            request.leaves_nothing = place is not None and place.outlived
            self._waiting.setdefault(request.source.app, deque()).append(request)
            self._changed.notify_all()

    def cancel(self, request: Request) -> bool:
        """Leave the line; whether the request is being answered, and so will be told its end."""
        with self._changed:
            request.cancelled = True
            self._leave(request)
            self._changed.notify_all()
            return request in self._answering

    def close(self, error: InferenceError) -> None:
        """Send everybody who waits away with `error`; nobody is begun any more."""
        with self._changed:
            self._closed = True
            for requests in self._waiting.values():
                for request in requests:
                    request.send(error)
            self._waiting.clear()
            self._changed.notify_all()

    def forget(self, what: Forgetting) -> None:
        """Have the worker drop what it kept of threads, and keep nothing of what is under way.

        A prompt may have been put together since its place was taken, and before this.
        """
        with self._changed:
            for place in self._places:
                place.outlived = place.outlived or what.covers(place.source)
            waiting = (request for requests in self._waiting.values() for request in requests)
            for request in (*waiting, *self._answering):
                request.leaves_nothing = request.leaves_nothing or what.covers(request.source)
            self._forgettings.append(what)
            self._changed.notify_all()

    # Everything below is for the worker.

    def work(self, seconds: float | None) -> Work:
        """Wait, at most so long, until there is something to do; None for ever."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._waiting or self._forgettings, seconds
            )
            if self._closed:
                return "closed"
            if self._waiting:
                return "some"
            return "forgetting" if self._forgettings else "none"

    def forgettings(self) -> tuple[Forgetting, ...]:
        """What is to be forgotten since this was asked last."""
        with self._changed:
            found = tuple(self._forgettings)
            self._forgettings.clear()
            return found

    def first(self) -> tuple[Request, ...]:
        """The first request of each app that waits, in the order of their turns; they stay."""
        with self._changed:
            return tuple(requests[0] for requests in self._waiting.values())

    def take(self, request: Request) -> bool:
        """Begin a first request, and let its app be the last in turn; False if it has left."""
        with self._changed:
            if request.cancelled or self._closed:
                return False
            self._leave(request)
            app = request.source.app
            if app in self._waiting:
                self._waiting[app] = self._waiting.pop(app)
            self._answering.add(request)
            return True

    def end(self, request: Request, error: InferenceError | None) -> None:
        """Tell a request that was taken its end."""
        with self._changed:
            self._answering.discard(request)
            self._changed.notify_all()
        request.send(error)

    def _leave(self, request: Request) -> None:
        app = request.source.app
        requests = self._waiting.get(app, deque())
        with suppress(ValueError):
            requests.remove(request)
        if not requests:
            self._waiting.pop(app, None)
