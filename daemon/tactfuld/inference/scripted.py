"""An `Engine` that says what it is told to: for tests and for front ends without a model.

Decides: nothing of its own; it keeps the rules of `Engine` (order, bounds, precedence of apps,
cancellation) without llama.cpp. Not here: any resemblance to a model. A "token" is one
whitespace-separated word.

Invariants
- Deterministic: the reply is a function of the prompt.
- Keeps nothing of any prompt; only counts replies begun.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Final

from tactful_core.values import Secret
from tactfuld.inference.engine import EngineState, refuse_unless_ready
from tactfuld.inference.errors import EngineBusy, EngineClosed, PromptTooLong
from tactfuld.inference.footprint import Footprint
from tactfuld.inference.offload import Offload
from tactfuld.inference.prompt import Prompt

Script = Callable[[Prompt], str]

WORD: Final = re.compile(r"\S+\s*")


class ScriptedEngine:
    """Streams `script` (a fixed text, or a function of the prompt) word by word.

    With a `gate`, each reply waits for it before its first word. `replies` counts replies begun.
    """

    def __init__(
        self,
        script: Script | str,
        *,
        gate: asyncio.Event | None = None,
        max_waiting: int = 8,
        context_length: int = 2048,
    ) -> None:
        self._script: Final[Script] = script if callable(script) else lambda _prompt: script
        self._gate = gate
        self._max_waiting = max_waiting
        self._context_length = context_length
        self._state = EngineState.LOADING
        self._apps = _Side()
        self._owner = _Side()
        self._started = asyncio.Event()
        self._waits: set[asyncio.Timeout] = set()
        self.replies = 0

    @property
    def state(self) -> EngineState:
        """Where the engine is in its life."""
        return self._state

    @property
    def name(self) -> str:
        """Always `scripted`."""
        return "scripted"

    @property
    def problem(self) -> str | None:
        """Always None: nothing can fail to load."""
        return None

    @property
    def offload(self) -> Offload | None:
        """Always None: nothing is loaded."""
        return None

    @property
    def memory(self) -> Footprint | None:
        """Always None: nothing is loaded."""
        return None

    async def admit(self, *, owner: bool = False) -> None:
        """Refuse unless it was started and not closed."""
        refuse_unless_ready(self._state, self.load_progress, self.problem)

    @property
    def load_progress(self) -> float:
        """0.0 before `start`, then 1.0."""
        return 1.0 if self._started.is_set() else 0.0

    def start(self) -> None:
        """Become ready at once."""
        if self._state is EngineState.LOADING:
            self._state = EngineState.READY
            self._started.set()

    async def ready(self, seconds: float, /) -> None:
        """Wait at most `seconds` for `start`."""
        async with asyncio.timeout(seconds):
            await self._begun()

    async def generate(self, prompt: Prompt, *, max_tokens: int) -> AsyncGenerator[str, None]:
        """Stream the script's words, each with the blanks after it."""
        async with aclosing(self._reply(self._apps, prompt, max_tokens)) as words:
            async for word in words:
                yield word

    async def generate_for_owner(
        self, prompt: Secret[Prompt], *, max_tokens: int
    ) -> AsyncGenerator[str, None]:
        """Stream the script's words while no app asks."""
        async with aclosing(self._reply(self._owner, prompt.reveal(), max_tokens)) as words:
            async for word in words:
                yield word

    async def count_tokens(self, text: str) -> int:
        """Words of `text`."""
        await self._begun()
        return len(text.split())

    async def room(self, prompt: Secret[Prompt], *, max_tokens: int) -> int:
        """The context without the words of `prompt` and of the reply."""
        await self._begun()
        return self._context_length - _size(prompt.reveal()) - max_tokens

    async def close(self) -> None:
        """End every reply with `EngineClosed`."""
        self._state = EngineState.CLOSED
        now = asyncio.get_running_loop().time()
        for scope in tuple(self._waits):
            scope.reschedule(now)

    async def _begun(self) -> None:
        async with self._until_closed():
            await self._started.wait()

    async def _reply(
        self, side: "_Side", prompt: Prompt, max_tokens: int
    ) -> AsyncGenerator[str, None]:
        if max_tokens < 1:
            raise ValueError(f"max_tokens is {max_tokens}; at least 1 was expected.")
        self._refuse_if_closed()
        side.join(self._max_waiting)
        try:
            async with self._until_closed():
                await self._started.wait()
                await side.turn.acquire()
            try:
                async for word in self._words(side, prompt, max_tokens):
                    yield word
            finally:
                side.turn.release()
        finally:
            side.leave()

    async def _words(
        self, side: "_Side", prompt: Prompt, max_tokens: int
    ) -> AsyncGenerator[str, None]:
        prompt = self._fitted(prompt, max_tokens)
        size = _size(prompt)
        if size + max_tokens > self._context_length:
            raise PromptTooLong(
                prompt_tokens=size, reply_tokens=max_tokens, context_length=self._context_length
            )
        async with self._until_closed():
            if self._gate is not None:
                await self._gate.wait()
        self.replies += 1
        for word in WORD.findall(self._script(prompt))[:max_tokens]:
            if side is self._owner:
                async with self._until_closed():
                    await self._apps.idle.wait()
            self._refuse_if_closed()
            yield word
            await asyncio.sleep(0)

    def _fitted(self, prompt: Prompt, max_tokens: int) -> Prompt:
        """Without the oldest earlier turns, if they do not leave room for the reply."""
        while prompt.earlier and _size(prompt) + max_tokens > self._context_length:
            prompt = replace(prompt, earlier=prompt.earlier[1:])
        return prompt

    @asynccontextmanager
    async def _until_closed(self) -> AsyncGenerator[None, None]:
        """Run a wait that `close` ends; never held across a `yield` of a reply."""
        self._refuse_if_closed()
        try:
            async with asyncio.timeout(None) as scope:
                self._waits.add(scope)
                try:
                    yield
                finally:
                    self._waits.discard(scope)
        except TimeoutError:
            raise EngineClosed from None

    def _refuse_if_closed(self) -> None:
        if self._state is EngineState.CLOSED:
            raise EngineClosed


class _Side:
    """Who asks on one side; `turn` is held by the reply that is being given."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.idle = asyncio.Event()
        self.idle.set()
        self._asking = 0

    def join(self, most: int) -> None:
        waiting = self._asking - self.turn.locked()
        if waiting >= most:
            raise EngineBusy(f"{waiting} requests wait, as many as may. Ask again in a moment.")
        self._asking += 1
        self.idle.clear()

    def leave(self) -> None:
        self._asking -= 1
        if not self._asking:
            self.idle.set()


def _size(prompt: Prompt) -> int:
    earlier = (text for turn in prompt.earlier for text in (turn.query, turn.answer))
    return sum(len(text.split()) for text in (prompt.system, *earlier, prompt.user))
