"""Whether the model is in memory: loading, unloading while nobody asks, loading again.

Decides when the engine behind it is made and closed, when apps are refused because of the battery,
and what the owner is told about the model's file and a GPU that is lost. Not here: how a model is
loaded and asked (engine), what a file or a battery is like (weights_file, `tactfuld.power`).

| state   | entered                               | a question of an app        | of the owner     |
| ------- | ------------------------------------- | --------------------------- | ---------------- |
| loading | start                                 | `EngineLoading`             | the same         |
| ready   | loaded                                | answered                    | answered         |
| asleep  | unloaded                              | loads, then answered        | likewise         |
| loading | a question found it asleep            | waits, then answered        | likewise         |
| paused  | on battery, if the owner wants that   | `EnginePaused`              | answered         |
| failed  | could not be loaded; a lost GPU       | `ModelError`                | the same         |

Invariants
- What an app can notice of it (a state, a longer first answer) follows from public input: the
  settings, the power supply, the model's file, and when apps and the owner asked. How long the
  owner's answers take depends on memory, so they decide nothing: the time until unloading counts
  from when they were asked (`admit`), and one that is still being written then is ended (C6).
- At most one engine holds weights; the next is made when the one before is closed.
- What an app is being answered is never cut by unloading.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from tactful_core.values import Secret
from tactfuld.clock import Clock
from tactfuld.inference.chat_template import Vocabulary
from tactfuld.inference.engine import Engine, EngineState, T, refuse_unless_ready
from tactfuld.inference.errors import DecodeFailed, EngineClosed, ModelError
from tactfuld.inference.footprint import Footprint
from tactfuld.inference.gpu_choice import GpuChoice
from tactfuld.inference.groups import GroupDraw, SequenceGroup
from tactfuld.inference.offload import GpuUse, Offload
from tactfuld.inference.places import Place
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.requests import NOBODY, Forgetting, Source
from tactfuld.inference.weights_file import Sign, WeightsFile
from tactfuld.inference.worker import Loaded

LOOK_SECONDS: Final = 10.0
"""How often battery, file and idleness are looked at."""

LOAD_SECONDS: Final = 900.0
"""How long a question waits for a model that is loaded again."""

RETRY_SECONDS: Final = 60.0
"""After a model could not be loaded again, a question tries it anew no sooner than this."""

# llama_decode: above 0 the reply can go on or was ended, -1 is our own mistake, below it is fatal.
FATAL: Final = -1


@dataclass(frozen=True, slots=True)
class ResidenceRules:
    """What the owner wants: `idle_seconds` is None for a model that stays loaded."""

    gpu: GpuUse = "auto"
    idle_seconds: float | None = None
    pause_on_battery: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the residence looks at and tells.

    Attributes:
        on_battery: asks the system; called in a thread.
        gpu_built: whether llama.cpp was built for a GPU; called in a thread.
        tell: what the owner is to know about a subject now, or None.
    """

    clock: Clock
    file: WeightsFile
    on_battery: Callable[[], bool]
    gpu_built: Callable[[], bool]
    tell: Callable[[str, str | None], None]


class ResidentEngine:
    """An `Engine` that makes and closes others: `make` is given whether to use a GPU."""

    def __init__(
        self, make: Callable[[GpuUse], Engine], rules: ResidenceRules, around: Surroundings
    ) -> None:
        """Nothing is loaded yet."""
        self._make = make
        self._rules = rules
        self._around = around
        self._gpu = GpuChoice(rules.gpu, around.gpu_built, around.tell)
        self._engine: Engine = make(self._gpu.use)
        self._held = True
        self._again = False
        self._closed = False
        self._on_battery = False
        # Held while an engine is exchanged for another.
        self._changing = asyncio.Lock()
        self._made = 0.0
        self._waiting = 0
        self._answering_apps = 0
        # The engine that is held is of no use any more.
        self._lost = False
        self._seen: Sign = ()
        self._touch()

    @property
    def state(self) -> EngineState:
        if self._closed:
            return EngineState.CLOSED
        if self._gpu.given_up is not None:
            return EngineState.FAILED
        if self._on_battery:
            return EngineState.PAUSED
        return self._engine.state if self._held else EngineState.ASLEEP

    @property
    def load_progress(self) -> float:
        return self._engine.load_progress if self._held else 0.0

    @property
    def name(self) -> str:
        return self._engine.name

    @property
    def problem(self) -> str | None:
        return self._gpu.given_up or (self._engine.problem if self._held else None)

    @property
    def offload(self) -> Offload | None:
        return self._engine.offload if self._held else None

    @property
    def answers_from(self) -> str | None:
        return self._engine.answers_from

    @property
    def memory(self) -> Footprint | None:
        return self._engine.memory if self._held else None

    def start(self) -> None:
        self._engine.start()

    def change_rules(self, rules: ResidenceRules) -> None:
        """Other rules, from now on; another `gpu` holds from the next start."""
        self._rules = rules

    async def run(self) -> None:
        """Look at battery, file and idleness again and again, until it is cancelled."""
        while True:
            await self.look()
            clock = self._around.clock
            await clock.sleep_until(clock.monotonic() + LOOK_SECONDS)

    async def look(self) -> None:
        """Look once, and do what follows."""
        await self._look_at_power()
        await self._look_at_file()
        if self._idle():
            async with self._changing:
                # Somebody may have asked while the engine was being exchanged.
                if self._idle():
                    await self._unload()

    async def admit(self, *, owner: bool = False, here: bool = False) -> None:
        self._touch()
        state = self._state_for(owner=owner)
        if state is EngineState.FAILED and self._may_retry():
            self._lost = True
        elif not (state is EngineState.LOADING and self._again):
            refuse_unless_ready(state, self.load_progress, self.problem)
        self._waiting += 1
        try:
            await self._settled(await self._present())
        finally:
            self._waiting -= 1
            # How long loading takes is public, so from its end on it is idle.
            self._touch()

    async def ready(self, seconds: float, /) -> None:
        async with asyncio.timeout(seconds):
            engine = await self._present()
            await engine.ready(seconds)

    @asynccontextmanager
    async def place(self, source: Source = NOBODY) -> AsyncGenerator[Place, None]:
        with self._answering():
            engine = await self._present()
            async with engine.place(source) as place:
                yield place

    async def generate(
        self, prompt: Prompt, *, max_tokens: int, place: Place | None = None
    ) -> AsyncGenerator[str, None]:
        with self._answering():
            engine = await self._present()
            with self._watched(engine):
                reply = engine.generate(prompt, max_tokens=max_tokens, place=place)
                async with aclosing(reply):
                    async for piece in reply:
                        yield piece

    async def generate_group(
        self,
        group: Secret[SequenceGroup],
        draw: GroupDraw,
        *,
        max_tokens: int,
        place: Place | None = None,
    ) -> AsyncGenerator[str, None]:
        with self._answering():
            engine = await self._present()
            with self._watched(engine):
                reply = engine.generate_group(group, draw, max_tokens=max_tokens, place=place)
                async with aclosing(reply):
                    async for piece in reply:
                        yield piece

    async def generate_for_owner(
        self, prompt: Secret[Prompt], *, max_tokens: int
    ) -> AsyncGenerator[str, None]:
        engine = await self._present()
        with self._watched(engine):
            async with aclosing(engine.generate_for_owner(prompt, max_tokens=max_tokens)) as reply:
                async for piece in reply:
                    yield piece

    async def count_tokens(self, text: str) -> int:
        return await (await self._present()).count_tokens(text)

    async def room(self, prompt: Secret[Prompt], *, max_tokens: int) -> int:
        return await (await self._present()).room(prompt, max_tokens=max_tokens)

    async def with_vocabulary(self, work: Callable[[Vocabulary], T]) -> T:
        return await (await self._present()).with_vocabulary(work)

    async def beside(self, work: Callable[[Loaded], T]) -> T:
        self._touch()
        self._waiting += 1
        try:
            engine = await self._present()
            await self._settled(engine)
            return await engine.beside(work)
        finally:
            self._waiting -= 1

    def forget(self, what: Forgetting) -> None:
        # One that is not held keeps nothing; which one is held may be changing.
        self._engine.forget(what)

    async def close(self) -> None:
        self._closed = True
        # Not after the lock: what holds it may be waiting for the engine that is closed here.
        await self._engine.close()
        async with self._changing:
            await self._engine.close()

    def _state_for(self, *, owner: bool) -> EngineState:
        """The battery is no matter to the owner."""
        state = self.state
        if owner and state is EngineState.PAUSED:
            return self._engine.state if self._held else EngineState.ASLEEP
        return state

    def _may_retry(self) -> bool:
        """Whether a model that could not be loaded again is tried once more."""
        waited = self._around.clock.monotonic() - self._made
        return self._again and self._gpu.given_up is None and waited >= RETRY_SECONDS

    async def _present(self) -> Engine:
        """The engine that answers, made and started if there is none."""
        async with self._changing:
            if self._closed:
                raise EngineClosed
            if self._lost:
                await self._unload()
                self._lost = False
            if not self._held:
                self._load()
            return self._engine

    async def _settled(self, engine: Engine) -> None:
        """Wait until an engine is loaded; raises if it is not in the end."""
        if engine.state is EngineState.LOADING:
            with suppress(TimeoutError):
                await engine.ready(LOAD_SECONDS)
        refuse_unless_ready(engine.state, engine.load_progress, engine.problem)

    def _load(self) -> None:
        self._engine = self._make(self._gpu.use)
        self._engine.start()
        self._made = self._around.clock.monotonic()
        self._held = self._again = True

    async def _unload(self) -> None:
        self._held = False
        await self._engine.close()

    def _touch(self) -> None:
        clock = self._around.clock
        self._asked = (clock.monotonic(), clock.now())

    def _idle(self) -> bool:
        """Whether to unload now."""
        seconds = self._rules.idle_seconds
        if seconds is None or self._closed or not self._held or self._busy:
            return False
        if self._engine.state is not EngineState.READY:
            return False
        # By the clock that shows more: one may stand still while the machine is suspended.
        moment, day = self._asked
        clock = self._around.clock
        return max(clock.monotonic() - moment, clock.now() - day) >= seconds

    @property
    def _busy(self) -> bool:
        return bool(self._answering_apps or self._waiting)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Count an app's question for as long as it takes; nothing is unloaded meanwhile."""
        self._answering_apps += 1
        self._touch()
        try:
            yield
        finally:
            self._answering_apps -= 1
            self._touch()

    @contextmanager
    def _watched(self, engine: Engine) -> Iterator[None]:
        """Notice how a reply of this engine ends."""
        try:
            yield
            self._gpu.answered()
        except EngineClosed:
            if self._closed:
                raise
            raise ModelError(
                "The model was unloaded before this answer was finished. Ask again; if it stays, "
                "raise model.idle_unload in settings.yaml."
            ) from None
        except DecodeFailed as error:
            if error.code < FATAL and engine is self._engine and not self._lost:
                self._lost = self._gpu.lost(engine.offload)
            raise

    async def _look_at_power(self) -> None:
        wanted = self._rules.pause_on_battery
        self._on_battery = wanted and await asyncio.to_thread(self._around.on_battery)
        self._around.tell(
            "battery",
            "The machine runs on its battery, so apps are not answered (model.pause_on_battery); "
            "your own questions are."
            if self._on_battery
            else None,
        )

    async def _look_at_file(self) -> None:
        sign = await asyncio.to_thread(self._around.file.sign)
        steady, self._seen = sign == self._seen, sign
        if not self._held or self._engine.state is not EngineState.READY:
            self._around.tell("model file", None)
        else:
            self._around.tell("model file", self._around.file.sentence(sign))
        if not self._failed:
            return
        if sign and steady and sign != self._around.file.loaded:
            # What could not be loaded is another file now, and nobody writes to it any more.
            self._gpu.another_file()
            await self._load_anew()
        elif await asyncio.to_thread(self._gpu.goes_without, self._engine.problem):
            await self._load_anew()
        else:
            self._gpu.failed_without()

    @property
    def _failed(self) -> bool:
        return self._held and self._engine.state is EngineState.FAILED

    async def _load_anew(self) -> None:
        """Exchange an engine that failed for another."""
        async with self._changing:
            if self._failed and not self._closed:
                await self._unload()
                self._load()
