"""The engine: what the daemon asks for text, and the llama.cpp engine that gives it.

Decides: states, the queue in front of the model, when a request starts, streams and stops.
Not here: what llama.cpp is called with (llama_api), the prompt's wording (prompt), whether an
answer may be given at all (the gate).

Invariants
- One worker thread owns model and context; nothing of llama.cpp runs on the event loop.
- Requests are served one at a time, first come first served; at most `max_waiting` wait.
- The context is empty before every request and overwritten after it: no token of one request is
  ever the prefix of another (GUARANTEE §5).
- After a request the engine holds no reference to its prompt, token ids or reply.
- A reader that is slow, gone or cancelled never holds the worker: pieces go to the reader's own
  queue, at most `max_tokens` of them, and a cancelled request stops within one token (or, while
  its prompt is read, one batch).
"""

import asyncio
import concurrent.futures
import os
import secrets
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from tactfuld.inference import generation
from tactfuld.inference.chat_template import ChatTemplate, read_chat_template
from tactfuld.inference.errors import (
    EngineBusy,
    EngineClosed,
    InferenceError,
    ModelError,
)
from tactfuld.inference.footprint import preflight
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.sampling import Sampling

if TYPE_CHECKING:
    from tactfuld.inference.llama_api import LlamaModel

# Prompt tokens per llama.cpp call: how long a cancel can wait, at no loss of speed on a CPU.
BATCH: Final = 64


class EngineState(StrEnum):
    """Where an engine is in its life; it only moves forward in this order."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    CLOSED = "closed"


class Engine(Protocol):
    """Text from prompts. All methods belong to one event loop."""

    @property
    def state(self) -> EngineState:
        """Where the engine is in its life."""
        ...

    @property
    def load_progress(self) -> float:
        """How much of the model is loaded, 0.0 to 1.0."""
        ...

    @property
    def name(self) -> str:
        """The model's name for people: its file's, without the ending."""
        ...

    @property
    def problem(self) -> str | None:
        """Why loading failed, as a sentence; None unless it did."""
        ...

    def start(self) -> None:
        """Begin to load in the background; call once."""
        ...

    async def ready(self, seconds: float, /) -> None:
        """Wait at most `seconds` until prompts are served.

        Raises `ModelError` (load failed), `EngineClosed`, or `TimeoutError`.
        """
        ...

    def generate(self, prompt: Prompt, *, max_tokens: int) -> AsyncGenerator[str, None]:
        """Stream a reply of at most `max_tokens` tokens as pieces of text, none of them empty.

        Of the prompt's earlier turns the oldest are left out if that makes it fit.
        The request takes its place in the queue when the first piece is asked for; while the
        model loads it waits. Closing the generator cancels the request. Raises `EngineBusy`,
        `EngineClosed`, `PromptTooLong` or `ModelError`.
        """
        ...

    async def count_tokens(self, text: str) -> int:
        """Tokens that `text` takes in a prompt; waits for the model. Raises as `ready` does."""
        ...

    async def close(self) -> None:
        """Stop everything and free the model; waiting requests get `EngineClosed`. Idempotent."""
        ...


def available_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Operational switches: `context_length` in tokens, `max_waiting` in requests.

    `threads` is None for as many as there are cores to run on.
    """

    context_length: int = 2048
    threads: int | None = None
    max_waiting: int = 8
    sampling: Sampling = field(default_factory=Sampling)


class _Request:
    """One reply on its way; `pieces` belongs to the loop, the rest to both sides."""

    def __init__(self, prompt: Prompt, max_tokens: int) -> None:
        self.prompt: Prompt = prompt
        self.max_tokens = max_tokens
        self.cancelled = False
        self.pieces: asyncio.Queue[str | InferenceError | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def send(self, item: str | InferenceError | None) -> None:
        """Hand one piece, an error, or the end (None) to the reader, from any thread."""
        try:
            self._loop.call_soon_threadsafe(self.pieces.put_nowait, item)
        except RuntimeError:
            # The reader's loop is closed: nobody is left to read.
            self.cancelled = True


Check = Callable[[Path, Callable[[], bool]], None]
"""Raises `ModelError` unless a file can be loaded; is given the file, and what says to give up."""


class LlamaEngine:
    """An `Engine` on llama.cpp: one model, one context, one worker thread.

    `check` looks at the file before llama.cpp does, on the worker thread.
    """

    def __init__(
        self,
        model_path: Path,
        settings: EngineSettings | None = None,
        check: Check | None = None,
    ) -> None:
        self._path = model_path
        self._settings = settings or EngineSettings()
        self._check = check or self._preflight
        self._state = EngineState.LOADING
        self._progress = 0.0
        # Done once the load has ended, whichever way; the state says which.
        self._settled: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._model: LlamaModel | None = None
        self._failure: str | None = None
        self._waiting: deque[_Request] = deque()
        # Guards state and `_waiting`; notified when either changes.
        self._changed = threading.Condition()
        # Held to count tokens beside the worker, and to free the model under nobody's hands.
        self._vocabulary = threading.Lock()
        self._worker = threading.Thread(target=self._run, name="llama", daemon=True)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, model_path: Path, *, context_length: int = 2048, threads: int | None = None
    ) -> AsyncGenerator["LlamaEngine", None]:
        """Hold a started engine for the length of a block; it loads in the background."""
        engine = cls(model_path, EngineSettings(context_length=context_length, threads=threads))
        engine.start()
        try:
            yield engine
        finally:
            await engine.close()

    @property
    def state(self) -> EngineState:
        return self._state

    @property
    def load_progress(self) -> float:
        return self._progress

    @property
    def name(self) -> str:
        return self._path.stem

    @property
    def problem(self) -> str | None:
        return self._failure

    def start(self) -> None:
        self._worker.start()

    async def ready(self, seconds: float, /) -> None:
        async with asyncio.timeout(seconds):
            await self._until_settled()

    async def generate(self, prompt: Prompt, *, max_tokens: int) -> AsyncGenerator[str, None]:
        if max_tokens < 1:
            raise ValueError(f"max_tokens is {max_tokens}; at least 1 was expected.")
        request = _Request(prompt, max_tokens)
        self._enqueue(request)
        try:
            while (item := await request.pieces.get()) is not None:
                if isinstance(item, InferenceError):
                    raise item
                yield item
        finally:
            self._cancel(request)

    async def count_tokens(self, text: str) -> int:
        await self._until_settled()
        return await asyncio.to_thread(self._count, text)

    async def close(self) -> None:
        with self._changed:
            self._state = EngineState.CLOSED
            self._drain(_closed())
            self._changed.notify()
        if self._worker.is_alive():
            await asyncio.to_thread(self._worker.join)
        if not self._settled.done():
            self._settled.set_result(None)

    async def _until_settled(self) -> None:
        # Shielded: a caller that gives up must not settle the load for everybody.
        await asyncio.shield(asyncio.wrap_future(self._settled))
        self._refuse_unless_open()

    def _count(self, text: str) -> int:
        with self._vocabulary:
            if self._model is None:
                raise _closed()
            return len(self._model.tokenize(text, special=False))

    def _enqueue(self, request: _Request) -> None:
        with self._changed:
            self._refuse_unless_open()
            if len(self._waiting) >= self._settings.max_waiting:
                raise EngineBusy(
                    f"{len(self._waiting)} requests wait for the model, as many as may. "
                    "Ask again in a moment."
                )
            self._waiting.append(request)
            self._changed.notify()

    def _refuse_unless_open(self) -> None:
        if self._state is EngineState.CLOSED:
            raise _closed()
        if self._failure is not None:
            raise ModelError(self._failure)

    def _cancel(self, request: _Request) -> None:
        request.cancelled = True
        with self._changed, suppress(ValueError):
            self._waiting.remove(request)

    def _drain(self, error: InferenceError) -> None:
        while self._waiting:
            self._waiting.popleft().send(error)

    # Everything below runs on the worker thread.

    def _run(self) -> None:
        try:
            model, template = self._load()
        except InferenceError as error:
            self._fail(str(error))
            return
        except Exception as error:  # noqa: BLE001 - a silent worker would look like slow loading
            self._fail(
                f"The model could not be loaded because of a defect ({type(error).__name__}). "
                "Try another model file."
            )
            return
        try:
            while (request := self._next_request()) is not None:
                request.send(self._answer(model, template, request))
                # The frame would hold the request while it waits for the next one.
                del request
        finally:
            self._unload(model)

    def _load(self) -> tuple["LlamaModel", ChatTemplate]:
        self._check(self._path, lambda: self._state is EngineState.CLOSED)
        # Here and not above: this loads native code, which takes a while and few imports need.
        from tactfuld.inference import llama_api

        request = llama_api.LoadRequest(
            path=self._path,
            context_length=self._settings.context_length,
            batch=BATCH,
            threads=self._settings.threads or available_cores(),
            on_progress=self._on_progress,
        )
        model = llama_api.LlamaModel(request)
        try:
            template = read_chat_template(model)
            self._open(model)
        except InferenceError:
            model.close()
            raise
        return model, template

    def _preflight(self, path: Path, _stopped: Callable[[], bool]) -> None:
        preflight(path, self._settings.context_length)

    def _on_progress(self, done: float) -> bool:
        self._progress = done
        return self._state is not EngineState.CLOSED

    def _open(self, model: "LlamaModel") -> None:
        with self._changed:
            if self._state is EngineState.CLOSED:
                raise _closed()
            self._model = model
            self._state = EngineState.READY
            self._progress = 1.0
        self._settled.set_result(None)

    def _fail(self, message: str) -> None:
        with self._changed:
            if self._state is EngineState.CLOSED:
                return
            self._state = EngineState.FAILED
            self._failure = message
            self._drain(ModelError(message))
        self._settled.set_result(None)

    def _unload(self, model: "LlamaModel") -> None:
        with self._vocabulary:
            self._model = None
            model.close()

    def _next_request(self) -> _Request | None:
        """Wait for the next request; None when the engine was closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._state is EngineState.CLOSED)
            return self._waiting.popleft() if self._waiting else None

    def _answer(
        self, model: "LlamaModel", template: ChatTemplate, request: _Request
    ) -> InferenceError | None:
        """Stream one reply; return how it ended, without a traceback that would show its text."""
        try:
            tokens = generation.encode(model, template, request.prompt, request.max_tokens)
            pieces = generation.reply(
                model, tokens, request.max_tokens, self._settings.sampling, secrets.randbits(32)
            )
            with closing(pieces):
                for piece in pieces:
                    if request.cancelled:
                        return None
                    if self._state is EngineState.CLOSED:
                        return _closed()
                    if piece:
                        request.send(piece)
        except InferenceError as error:
            return error.with_traceback(None)
        except Exception as error:  # noqa: BLE001 - a reader must never wait for ever
            return ModelError(
                f"The engine stopped this reply on an internal error ({type(error).__name__}). "
                "Ask again; if it stays, restart the daemon."
            )
        return None


def _closed() -> EngineClosed:
    return EngineClosed("The engine is closed. Start the daemon again to ask.")
