"""The llama.cpp engine: what answers when the daemon asks `Engine` for text.

Decides: states, which worker serves whom, when a request starts, streams and stops. Not here: what
an engine promises (engine), the lines in front of the workers (places, requests), how they write
replies (scheduler for apps, worker for the owner), what llama.cpp is called with (llama_api), the
prompt's wording (prompt, owner_prompt), whether an answer may be given at all (the gate).

Apps and the owner are served apart, because the owner's prompts hold memory: how long one takes
depends on what is remembered, so an app that waited for it could time memory (GUARANTEE, C6). Each
side has a line, a worker thread and contexts of its own over the same weights. The owner's worker
looks before each llama.cpp call whether an app's request runs or waits, and pauses until none does;
so an app's request starts at once, next to at most the one call that was under way. What remains is
load on the processor, which is outside the guarantee (GUARANTEE §6).

Invariants
- Nothing of llama.cpp runs on the event loop; each context belongs to one worker thread.
- Up to `streams` requests of apps are answered side by side (scheduler), the owner's one at a time;
  each app may have `streams + max_waiting` of them, and `max_waiting` of the owner's wait. Whether
  an app is served or refused does not depend on the owner's side, nor on other apps' requests.
- No token of one request is ever the prefix of another's, but for an app's own in the same thread
  (prefixes), and no private row is anybody's (GUARANTEE §5). Whatever may hold memory, the owner's
  contexts and those of sequence groups, exists only while one reply is written.
- After a request the engine holds no reference to its prompt or reply, nor to token ids other than
  those of a thread's prefix.
- A reader that is slow, gone or cancelled never holds a worker: pieces go to the reader's own
  queue, at most `max_tokens` of them, and a cancelled request stops within one call.
- Once a reader of a group has closed it, no token is drawn for it any more.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path

from tactful_core.values import Secret
from tactfuld.inference.chat_template import Vocabulary, read_chat_template
from tactfuld.inference.engine import (
    BATCH,
    EngineSettings,
    EngineState,
    T,
    available_cores,
    refuse_unless_ready,
)
from tactfuld.inference.errors import EngineClosed, InferenceError, ModelError
from tactfuld.inference.footprint import Footprint, footprint, preflight
from tactfuld.inference.gguf import read_layout
from tactfuld.inference.groups import GroupDraw, SequenceGroup
from tactfuld.inference.lane import named
from tactfuld.inference.offload import Offload
from tactfuld.inference.places import AppLine, Place
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.requests import NOBODY, Forgetting, Fused, Line, Request, Source
from tactfuld.inference.scheduler import SHARED_CONTEXTS, Scheduler, sequences_for
from tactfuld.inference.worker import Loaded, serve

Check = Callable[[Path, Callable[[], bool]], None]
"""Raises `ModelError` unless a file can be loaded; is given the file, and what says to give up."""


class LlamaEngine:
    """An `Engine` on llama.cpp: one model, and a worker thread with a context for each side.

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
        self._loaded: Loaded | None = None
        self._failure: str | None = None
        self._footprint: Footprint | None = None
        # Guards the state, both lines and `_readers`; notified when any changes.
        self._changed = threading.Condition()
        streams = self._settings.streams
        self._apps = AppLine(self._changed, streams + self._settings.max_waiting)
        self._owner = Line(self._changed, self._settings.max_waiting, behind=self._apps)
        # Threads that read the vocabulary beside the workers; the model is not freed under them.
        self._readers = 0
        self._worker = threading.Thread(target=self._run, name="llama", daemon=True)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, model_path: Path, *, context_length: int = 2048, threads: int | None = None
    ) -> AsyncGenerator[LlamaEngine, None]:
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

    @property
    def offload(self) -> Offload | None:
        loaded = self._loaded
        return loaded.model.offload if loaded is not None else None

    @property
    def answers_from(self) -> str | None:
        return None

    @property
    def memory(self) -> Footprint | None:
        return self._footprint if self._state is EngineState.READY else None

    async def admit(self, *, owner: bool = False, here: bool = False) -> None:
        refuse_unless_ready(self._state, self._progress, self._failure)

    def start(self) -> None:
        self._worker.start()

    async def ready(self, seconds: float, /) -> None:
        async with asyncio.timeout(seconds):
            await self._until_settled()

    @asynccontextmanager
    async def place(self, source: Source = NOBODY) -> AsyncGenerator[Place, None]:
        self._refuse_unless_open()
        with self._apps.place(source) as place:
            yield place

    def generate(
        self, prompt: Prompt, *, max_tokens: int, place: Place | None = None
    ) -> AsyncGenerator[str, None]:
        return self._answer_app(prompt, max_tokens, place)

    def generate_group(
        self,
        group: Secret[SequenceGroup],
        draw: GroupDraw,
        *,
        max_tokens: int,
        place: Place | None = None,
    ) -> AsyncGenerator[str, None]:
        return self._answer_app(Fused(group, draw), max_tokens, place)

    async def generate_for_owner(
        self, prompt: Secret[Prompt], *, max_tokens: int
    ) -> AsyncGenerator[str, None]:
        request = self._request(prompt.reveal(), max_tokens, NOBODY)
        with self._changed:
            self._refuse_unless_open()
            self._owner.join(request)
        try:
            async for piece in _pieces(request):
                yield piece
        finally:
            self._owner.cancel(request)

    async def count_tokens(self, text: str) -> int:
        return await self.with_vocabulary(
            lambda vocabulary: len(vocabulary.tokenizer.tokenize(text, special=False))
        )

    async def room(self, prompt: Secret[Prompt], *, max_tokens: int) -> int:
        def left(vocabulary: Vocabulary) -> int:
            taken = vocabulary.template.encode(prompt.reveal(), vocabulary.tokenizer, room=0)
            return vocabulary.context_length - len(taken) - max_tokens

        return await self.with_vocabulary(left)

    async def with_vocabulary(self, work: Callable[[Vocabulary], T]) -> T:
        return await self.beside(
            lambda loaded: work(
                Vocabulary(loaded.model, loaded.template, loaded.model.context_length)
            )
        )

    async def beside(self, work: Callable[[Loaded], T]) -> T:
        await self._until_settled()
        return await asyncio.to_thread(self._beside, work)

    def forget(self, what: Forgetting) -> None:
        self._apps.forget(what)

    async def close(self) -> None:
        with self._changed:
            self._state = EngineState.CLOSED
            self._send_away(EngineClosed())
        if self._worker.is_alive():
            await asyncio.to_thread(self._worker.join)
        if not self._settled.done():
            self._settled.set_result(None)

    async def _answer_app(
        self, asked: Prompt | Fused, max_tokens: int, place: Place | None
    ) -> AsyncGenerator[str, None]:
        source = place.source if place is not None else NOBODY
        request = self._request(asked, max_tokens, source)
        # The generator's frame lives as long as its reader wants.
        del asked
        with nullcontext() if place is not None else self._apps.place(source):
            with self._changed:
                self._refuse_unless_open()
                self._apps.join(request, place)
            told = False
            try:
                async for piece in _pieces(request):
                    yield piece
                told = True
            except InferenceError:
                told = True
                raise
            finally:
                answering = self._apps.cancel(request)
                if answering and not told and isinstance(request.asked, Fused):
                    await _until_told(request)

    def _request(self, asked: Prompt | Fused, max_tokens: int, source: Source) -> Request:
        if max_tokens < 1:
            raise ValueError(f"max_tokens is {max_tokens}; at least 1 was expected.")
        return Request(asked, max_tokens, source)

    async def _until_settled(self) -> None:
        # Shielded: a caller that gives up must not settle the load for everybody.
        await asyncio.shield(asyncio.wrap_future(self._settled))
        self._refuse_unless_open()

    def _beside(self, work: Callable[[Loaded], T]) -> T:
        with self._reading() as loaded:
            return work(loaded)

    @contextmanager
    def _reading(self) -> Iterator[Loaded]:
        """Hold the loaded model; not a lock, which the owner's side would make apps wait for."""
        with self._changed:
            if self._loaded is None:
                raise EngineClosed
            loaded = self._loaded
            self._readers += 1
        try:
            yield loaded
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    def _refuse_unless_open(self) -> None:
        if self._state is EngineState.CLOSED:
            raise EngineClosed
        if self._failure is not None:
            raise ModelError(self._failure)

    def _send_away(self, error: InferenceError) -> None:
        self._apps.close(error)
        self._owner.close(error)

    # Everything below runs on the worker threads.

    def _run(self) -> None:
        try:
            loaded = self._load()
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
            self._serve_both(loaded)
        except Exception as error:  # noqa: BLE001 - readers must not wait for a worker that is gone
            self._fail(str(named(error)))
        finally:
            loaded.model.close()

    def _load(self) -> Loaded:
        self._check(self._path, lambda: self._state is EngineState.CLOSED)
        self._footprint = footprint(read_layout(self._path), self._settings.context_length)
        # Here and not above: this loads native code, which takes a while and few imports need.
        from tactfuld.inference import llama_api

        request = llama_api.LoadRequest(
            path=self._path,
            context_length=self._settings.context_length,
            batch=BATCH,
            threads=self._settings.threads or available_cores(),
            on_progress=self._on_progress,
            gpu=self._settings.gpu,
        )
        model = llama_api.LlamaModel(request)
        try:
            return Loaded(model, read_chat_template(model))
        except InferenceError:
            model.close()
            raise

    def _preflight(self, path: Path, _stopped: Callable[[], bool]) -> None:
        preflight(path, self._settings.context_length)

    def _on_progress(self, done: float) -> bool:
        self._progress = done
        return self._state is not EngineState.CLOSED

    def _serve_both(self, loaded: Loaded) -> None:
        """Serve apps here and the owner on another thread until the engine is closed."""
        how, model = self._settings, loaded.model
        shared = model.context(
            sequences=sequences_for(how.streams),
            length=model.context_length * (SHARED_CONTEXTS if how.streams > 1 else 1),
        )
        with shared as context, self._serving_owner(loaded), self._opened(loaded):
            Scheduler(loaded, self._apps, context, how.sampling, how.streams).serve()

    @contextmanager
    def _serving_owner(self, loaded: Loaded) -> Iterator[None]:
        """Serve the owner's line for the length of a block."""
        line, sampling = self._owner, self._settings.sampling
        worker = threading.Thread(
            target=serve,
            args=(loaded, line, loaded.model.context, sampling),
            name="llama owner",
            daemon=True,
        )
        worker.start()
        try:
            yield
        finally:
            line.close(EngineClosed())
            worker.join()

    @contextmanager
    def _opened(self, loaded: Loaded) -> Iterator[None]:
        """Let the model be used for the length of a block."""
        with self._changed:
            if self._state is EngineState.CLOSED:
                raise EngineClosed
            self._loaded = loaded
            self._state = EngineState.READY
            self._progress = 1.0
        self._settled.set_result(None)
        try:
            yield
        finally:
            with self._changed:
                self._loaded = None
                self._changed.wait_for(lambda: self._readers == 0)

    def _fail(self, message: str) -> None:
        with self._changed:
            if self._state is EngineState.CLOSED:
                return
            self._state = EngineState.FAILED
            self._failure = message
            self._send_away(ModelError(message))
        self._settled.set_result(None)


async def _pieces(request: Request) -> AsyncGenerator[str, None]:
    """What the worker sends, to the end; raises the error that it sends."""
    while (item := await request.pieces.get()) is not None:
        if isinstance(item, InferenceError):
            raise item
        yield item


async def _until_told(request: Request) -> None:
    """Wait until the worker has let go of a request, also if the reader is cancelled meanwhile."""
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            item = await request.pieces.get()
        except asyncio.CancelledError as error:
            cancelled = error
            continue
        if not isinstance(item, str):
            break
    if cancelled is not None:
        raise cancelled
