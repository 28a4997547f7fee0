"""An `Engine` that says what it is told to: for tests and for front ends without a model.

Decides: nothing of its own; it keeps the rules of `Engine` (bounds, precedence of apps over the
owner, cancellation) without llama.cpp, and answers all apps in one order. Not here: any resemblance
to a model. A "token" is one whitespace-separated word, and its id where one is needed the next free
number.

Invariants
- Deterministic: the reply is a function of the prompt.
- Keeps nothing of any prompt; only counts replies begun.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from typing import Final
from zlib import crc32

import numpy as np

from tactful_core.values import Secret
from tactfuld.inference.chat_template import ChatTemplate, Joints, Vocabulary
from tactfuld.inference.engine import EngineState, T, refuse_unless_ready
from tactfuld.inference.errors import EngineBusy, EngineClosed, ModelError, PromptTooLong
from tactfuld.inference.footprint import Footprint
from tactfuld.inference.groups import GroupDraw, SequenceGroup
from tactfuld.inference.offload import Offload
from tactfuld.inference.places import Place
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.requests import NOBODY, Forgetting, Source
from tactfuld.inference.worker import Loaded

Script = Callable[[Prompt], str]

WORD: Final = re.compile(r"\S+\s*")
# Ids of a group: the first ends a reply, each other is written as a word.
GROUP_VOCABULARY: Final = 64
GROUP_END: Final = 0


class ScriptedTokenizer:
    """Ids for words, which no other word has a part in. 0 is no word, and nothing is a mark."""

    bos = -1
    adds_bos = False

    def render_chat(self, messages: Sequence[tuple[str, str]]) -> str | None:
        """The texts, a line each."""
        return "\n".join(text for _, text in messages)

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """An id for each word; `special` changes nothing."""
        del special
        return [1 + crc32(word.encode()) % (2**31 - 1) for word in text.split()]

    def is_ordinary(self, token: int) -> bool:
        """Every word is."""
        return token > 0


class ScriptedEngine:
    """Streams `script` (a fixed text, or a function of the prompt) word by word.

    With a `gate`, each reply waits for it before its first word. `replies` counts replies begun;
    `streams` replies to apps are given side by side.
    """

    def __init__(
        self,
        script: Script | str,
        *,
        gate: asyncio.Event | None = None,
        max_waiting: int = 8,
        context_length: int = 2048,
        streams: int = 1,
    ) -> None:
        self._script: Final[Script] = script if callable(script) else lambda _prompt: script
        self._gate = gate
        self._context_length = context_length
        self._tokenizer = ScriptedTokenizer()
        self._state = EngineState.LOADING
        self._apps = _Side(streams, max_waiting)
        self._owner = _Side(1, max_waiting)
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
    def answers_from(self) -> str | None:
        """Always None: nothing leaves."""
        return None

    @property
    def memory(self) -> Footprint | None:
        """Always None: nothing is loaded."""
        return None

    async def admit(self, *, owner: bool = False, here: bool = False) -> None:
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

    @asynccontextmanager
    async def place(self, source: Source = NOBODY) -> AsyncGenerator[Place, None]:
        """Hold a place among an app's requests."""
        self._refuse_if_closed()
        with self._apps.place(source):
            yield Place(source)

    async def generate(
        self, prompt: Prompt, *, max_tokens: int, place: Place | None = None
    ) -> AsyncGenerator[str, None]:
        """Stream the script's words, each with the blanks after it."""
        words = self._reply(self._apps, lambda: self._script_of(prompt, max_tokens), max_tokens)
        with nullcontext() if place is not None else self._apps.place(NOBODY):
            async with aclosing(words):
                async for word in words:
                    yield word

    async def generate_group(
        self,
        group: Secret[SequenceGroup],
        draw: GroupDraw,
        *,
        max_tokens: int,
        place: Place | None = None,
    ) -> AsyncGenerator[str, None]:
        """Stream `w7 ` for a drawn 7, and end at a drawn 0; all logits are 0, whatever the rows."""
        rows = len(group.reveal().rows)

        def drawn() -> Iterator[str]:
            while (token := draw(np.zeros((rows, GROUP_VOCABULARY), np.float32))) != GROUP_END:
                yield f"w{token} "

        def begin() -> Iterator[str]:
            group.reveal().shape.refuse_unless_it_fits(max_tokens, self._context_length)
            return drawn()

        words = self._reply(self._apps, begin, max_tokens)
        with nullcontext() if place is not None else self._apps.place(NOBODY):
            async with aclosing(words):
                async for word in words:
                    yield word

    async def generate_for_owner(
        self, prompt: Secret[Prompt], *, max_tokens: int
    ) -> AsyncGenerator[str, None]:
        """Stream the script's words while no app asks."""
        owner = self._owner
        words = self._reply(owner, lambda: self._script_of(prompt.reveal(), max_tokens), max_tokens)
        with owner.place(NOBODY):
            async with aclosing(words):
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

    async def with_vocabulary(self, work: Callable[[Vocabulary], T]) -> T:
        """What `work` makes of the words that were met so far."""
        await self._begun()
        template = ChatTemplate((), (), (), Joints((), ()))
        return work(Vocabulary(self._tokenizer, template, self._context_length))

    async def beside(self, work: Callable[[Loaded], T]) -> T:
        """Refused: there are no weights behind a script."""
        await self._begun()
        raise ModelError("A scripted engine has no model to judge by. Set `scorer: embedding`.")

    def forget(self, what: Forgetting) -> None:
        """Do nothing: nothing is kept."""

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
        self, side: "_Side", words: Callable[[], Iterator[str]], max_tokens: int
    ) -> AsyncGenerator[str, None]:
        if max_tokens < 1:
            raise ValueError(f"max_tokens is {max_tokens}; at least 1 was expected.")
        self._refuse_if_closed()
        side.join()
        try:
            async with self._until_closed():
                await self._started.wait()
                await side.turn.acquire()
            try:
                async for word in self._words(side, words(), max_tokens):
                    yield word
            finally:
                side.turn.release()
        finally:
            side.leave()

    async def _words(
        self, side: "_Side", words: Iterator[str], max_tokens: int
    ) -> AsyncGenerator[str, None]:
        async with self._until_closed():
            if self._gate is not None:
                await self._gate.wait()
        self.replies += 1
        for word in islice(words, max_tokens):
            if side is self._owner:
                async with self._until_closed():
                    await self._apps.idle.wait()
            self._refuse_if_closed()
            yield word
            await asyncio.sleep(0)

    def _script_of(self, prompt: Prompt, max_tokens: int) -> Iterator[str]:
        prompt = self._fitted(prompt, max_tokens)
        size = _size(prompt)
        if size + max_tokens > self._context_length:
            raise PromptTooLong(
                prompt_tokens=size, reply_tokens=max_tokens, context_length=self._context_length
            )
        return iter(WORD.findall(self._script(prompt)))

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
    """Who asks on one side; `turn` is held by each reply that is being given."""

    def __init__(self, streams: int, most: int) -> None:
        self.turn = asyncio.Semaphore(streams)
        self.idle = asyncio.Event()
        self.idle.set()
        self._most = streams + most
        self._held: Counter[str] = Counter()
        self._asking = 0

    @contextmanager
    def place(self, source: Source) -> Iterator[None]:
        if self._held[source.app] >= self._most:
            raise EngineBusy(
                f"{self._most} requests wait or are answered, as many as may. Ask again in a "
                "moment."
            )
        self._held[source.app] += 1
        try:
            yield
        finally:
            self._held[source.app] -= 1

    def join(self) -> None:
        self._asking += 1
        self.idle.clear()

    def leave(self) -> None:
        self._asking -= 1
        if not self._asking:
            self.idle.set()


def _size(prompt: Prompt) -> int:
    earlier = (text for turn in prompt.earlier for text in (turn.query, turn.answer))
    return sum(len(text.split()) for text in (prompt.system, *earlier, prompt.user))
