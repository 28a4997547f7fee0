"""Answers to apps from a remote endpoint, everything else from the model on this machine.

Decides what may leave: the prompt of an app's answer, which is made of its query, the guidance of
released views and that thread's released turns, and so is a function of what the app was shown
anyway. Not here: bytes and HTTP (endpoint); the prompt's wording (prompt).

Invariants
- Only `generate` asks the endpoint, and only while the settings name one. What holds memory
  (`generate_for_owner`, fused text, scores) is a `Secret`, and goes to the engine on this machine,
  whatever state the endpoint is in.
- What leaves is a function of the prompt and of settings.
- The endpoint's failures are the owner's notice, told by its host's name; apps hear that the model
  failed.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from tactful_core.values import Secret
from tactfuld.inference.chat_template import Vocabulary
from tactfuld.inference.endpoint import CHARACTERS_PER_TOKEN, Endpoint, Exchange, body_of
from tactfuld.inference.engine import Engine, EngineState
from tactfuld.inference.errors import EngineBusy, EngineClosed, InferenceError, RemoteFailed
from tactfuld.inference.footprint import Footprint
from tactfuld.inference.groups import GroupDraw, SequenceGroup
from tactfuld.inference.offload import Offload
from tactfuld.inference.places import Place
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.requests import NOBODY, Forgetting, Source
from tactfuld.inference.sampling import Sampling
from tactfuld.inference.worker import Loaded

T = TypeVar("T")

SHORTEST_TOKEN: Final = 3
"""Characters that a token has at least, on average: how many earlier turns go along."""


@dataclass(frozen=True, slots=True)
class Remote:
    """An endpoint, and how much is asked of it.

    Attributes:
        seconds: for a whole answer.
        of_one_app: requests of one app that are being answered at a time.
        context: tokens of prompt and answer.
    """

    endpoint: Endpoint
    seconds: float = 120.0
    of_one_app: int = 8
    context: int = 2048


class RemoteEngine:
    """An `Engine` whose `generate` asks an endpoint, if there is one; `local` does the rest."""

    def __init__(
        self,
        local: Engine,
        remote: Remote | None,
        tell: Callable[[str, str | None], None],
        sampling: Sampling | None = None,
    ) -> None:
        """`tell` is given what the owner is to know of the endpoint now, or None."""
        self._local = local
        self._remote = remote
        self._tell = tell
        self._sampling = sampling or Sampling()
        self._under_way: set[_Answer] = set()
        self._held: Counter[str] = Counter()

    def change(self, remote: Remote | None) -> None:
        """Another endpoint, or none, for answers that begin after this."""
        if remote is None:
            self._tell("remote", None)
        self._remote = remote

    @property
    def answers_from(self) -> str | None:
        return None if self._remote is None else self._remote.endpoint.host

    @property
    def state(self) -> EngineState:
        return self._local.state

    @property
    def load_progress(self) -> float:
        return self._local.load_progress

    @property
    def name(self) -> str:
        return self._local.name

    @property
    def problem(self) -> str | None:
        return self._local.problem

    @property
    def offload(self) -> Offload | None:
        return self._local.offload

    @property
    def memory(self) -> Footprint | None:
        return self._local.memory

    async def admit(self, *, owner: bool = False, here: bool = False) -> None:
        if owner or here or self._remote is None:
            await self._local.admit(owner=owner, here=here)
        elif self._local.state is EngineState.CLOSED:
            raise EngineClosed

    def start(self) -> None:
        self._local.start()

    async def ready(self, seconds: float, /) -> None:
        await self._local.ready(seconds)

    @asynccontextmanager
    async def place(self, source: Source = NOBODY) -> AsyncGenerator[Place, None]:
        remote = self._remote
        if remote is None:
            async with self._local.place(source) as place:
                yield place
            return
        if self._local.state is EngineState.CLOSED:
            raise EngineClosed
        if self._held[source.app] >= remote.of_one_app:
            raise EngineBusy(
                f"{remote.of_one_app} requests are being answered, as many as one app may have. "
                "Ask again in a moment."
            )
        self._held[source.app] += 1
        try:
            yield Place(source)
        finally:
            self._held[source.app] -= 1
            self._held += Counter()  # drops apps that hold none

    async def generate(
        self, prompt: Prompt, *, max_tokens: int, place: Place | None = None
    ) -> AsyncGenerator[str, None]:
        if max_tokens < 1:
            raise ValueError(f"max_tokens is {max_tokens}; at least 1 was expected.")
        remote = self._remote
        if remote is None:
            reply = self._local.generate(prompt, max_tokens=max_tokens, place=place)
        else:
            reply = self._asked(remote, prompt, max_tokens)
        taken = nullcontext() if place or remote is None else self.place()
        async with taken, aclosing(reply) as pieces:
            async for piece in pieces:
                yield piece

    async def _asked(
        self, remote: Remote, prompt: Prompt, max_tokens: int
    ) -> AsyncGenerator[str, None]:
        fitting = _fitted(prompt, SHORTEST_TOKEN * (remote.context - max_tokens))
        body = body_of(remote.endpoint, fitting, max_tokens, self._sampling)
        answer = _Answer(remote.endpoint, body, CHARACTERS_PER_TOKEN * max_tokens)
        self._under_way.add(answer)
        try:
            async for piece in _timed(answer.pieces(), remote):
                yield piece
            self._tell("remote", None)
        except RemoteFailed as error:
            self._tell("remote", str(error))
            raise
        finally:
            answer.cancel()
            self._under_way.discard(answer)

    def generate_group(
        self,
        group: Secret[SequenceGroup],
        draw: GroupDraw,
        *,
        max_tokens: int,
        place: Place | None = None,
    ) -> AsyncGenerator[str, None]:
        return self._local.generate_group(group, draw, max_tokens=max_tokens, place=place)

    def generate_for_owner(
        self, prompt: Secret[Prompt], *, max_tokens: int
    ) -> AsyncGenerator[str, None]:
        return self._local.generate_for_owner(prompt, max_tokens=max_tokens)

    async def count_tokens(self, text: str) -> int:
        return await self._local.count_tokens(text)

    async def room(self, prompt: Secret[Prompt], *, max_tokens: int) -> int:
        return await self._local.room(prompt, max_tokens=max_tokens)

    async def with_vocabulary(self, work: Callable[[Vocabulary], T]) -> T:
        return await self._local.with_vocabulary(work)

    async def beside(self, work: Callable[[Loaded], T]) -> T:
        return await self._local.beside(work)

    def forget(self, what: Forgetting) -> None:
        self._local.forget(what)

    async def close(self) -> None:
        for answer in tuple(self._under_way):
            answer.close()
        await self._local.close()


class _Answer:
    """One answer on its way from the endpoint to its reader."""

    def __init__(self, endpoint: Endpoint, body: bytes, most_characters: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | InferenceError | None] = asyncio.Queue()
        self._exchange = Exchange(endpoint, body, most_characters, self._send)

    async def pieces(self) -> AsyncGenerator[str, None]:
        """The pieces as they come; begins the request."""
        threading.Thread(target=self._exchange.run, name="remote answer", daemon=True).start()
        while (item := await self._queue.get()) is not None:
            if isinstance(item, InferenceError):
                raise item
            yield item

    def cancel(self) -> None:
        self._exchange.cancel()

    def close(self) -> None:
        """End it, and tell its reader that the engine is closed."""
        self._queue.put_nowait(EngineClosed())
        self.cancel()

    def _send(self, item: str | InferenceError | None) -> None:
        # Where the reader's loop is closed nobody is left to read.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)


async def _timed(pieces: AsyncGenerator[str, None], remote: Remote) -> AsyncGenerator[str, None]:
    """The pieces, of which the reader's own time is not the endpoint's."""
    clock, left = asyncio.get_running_loop().time, remote.seconds
    while True:
        begun = clock()
        try:
            async with asyncio.timeout(left):
                piece = await anext(pieces, None)
        except TimeoutError:
            raise RemoteFailed(remote.endpoint.host, "it did not answer in time") from None
        if piece is None:
            return
        left -= clock() - begun
        yield piece


def _fitted(prompt: Prompt, characters: int) -> Prompt:
    """Without the oldest earlier turns, if all together are longer than so many characters."""
    left = characters - len(prompt.system) - len(prompt.user)
    kept = len(prompt.earlier)
    for turn in reversed(prompt.earlier):
        left -= len(turn.query) + len(turn.answer)
        if left < 0:
            break
        kept -= 1
    return replace(prompt, earlier=prompt.earlier[kept:])
