"""The engine: what the daemon asks for text, whoever gives it.

Decides: what every engine promises, the states that one can be in, and the public constants of
those that run here. Not here: the engines themselves (llama_engine, residence, remote, scripted).
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from tactful_core.values import Secret
from tactfuld.inference.chat_template import Vocabulary
from tactfuld.inference.errors import (
    EngineClosed,
    EngineLoading,
    EnginePaused,
    ModelError,
)
from tactfuld.inference.footprint import Footprint
from tactfuld.inference.groups import GroupDraw, SequenceGroup
from tactfuld.inference.offload import GpuUse, Offload
from tactfuld.inference.places import Place
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.requests import NOBODY, Forgetting, Source
from tactfuld.inference.sampling import Sampling
from tactfuld.inference.worker import Loaded

# Rows per llama.cpp call: how long a cancel can wait. With 64 long prompts were read much faster
# than with fewer.
BATCH: Final = 64

T = TypeVar("T")


class EngineState(StrEnum):
    """Where an engine is in its life; an engine that nobody unloads only moves forward.

    An unloaded one (`residence`) is `asleep`, and `paused` to apps while it does not answer them.
    """

    LOADING = "loading"
    READY = "ready"
    ASLEEP = "asleep"
    PAUSED = "paused"
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

    @property
    def offload(self) -> Offload | None:
        """Whether the model works on a GPU; None before it is loaded."""
        ...

    @property
    def answers_from(self) -> str | None:
        """The host that answers apps in place of this machine; None for none."""
        ...

    @property
    def memory(self) -> Footprint | None:
        """What the model takes while it is loaded; None where nothing is, or it is not known."""
        ...

    async def admit(self, *, owner: bool = False, here: bool = False) -> None:
        """Return once a question would be answered now; call it before anything is charged.

        A model that was unloaded is loaded again first, one that is loaded for the first time is
        not waited for. `owner`: it is the owner's own question, who is answered on battery too.
        `here`: it is to be answered on this machine, whoever answers apps else.
        Raises `EngineLoading`, `EnginePaused`, `EngineClosed` or `ModelError`.
        """
        ...

    def start(self) -> None:
        """Begin to load in the background; call once."""
        ...

    async def ready(self, seconds: float, /) -> None:
        """Wait at most `seconds` until prompts are served.

        Raises `ModelError` (load failed), `EngineClosed`, or `TimeoutError`.
        """
        ...

    def place(self, source: Source = NOBODY) -> AbstractAsyncContextManager[Place]:
        """Hold a place among an app's requests; take one before anything is charged.

        Raises `EngineBusy` at once where the app has as many as it may, because of its own requests
        alone, and `EngineClosed` or `ModelError`.
        """
        ...

    def generate(
        self, prompt: Prompt, *, max_tokens: int, place: Place | None = None
    ) -> AsyncGenerator[str, None]:
        """Stream a reply of at most `max_tokens` tokens as pieces of text, none of them empty.

        It begins with the prompt's opening. Of the prompt's earlier turns the oldest are left out
        if that makes it fit. The request joins the queue when the first piece is asked for, in
        `place` or, without one, in a place that it takes then; while the model loads it waits.
        Closing the generator cancels the request.
        Raises `EngineBusy`, `EngineClosed`, `PromptTooLong` or `ModelError`.
        """
        ...

    def generate_group(
        self,
        group: Secret[SequenceGroup],
        draw: GroupDraw,
        *,
        max_tokens: int,
        place: Place | None = None,
    ) -> AsyncGenerator[str, None]:
        """Stream a reply whose tokens `draw` draws from the logits of all rows of `group`.

        As `generate`. Each token that is drawn goes on all rows; one that ends a reply ends the
        stream. `draw` is called on the engine's thread, at most `max_tokens` times, and never again
        once the generator has been closed: closing waits for a draw under way. What it raises
        ends the reply as `ModelError`.
        """
        ...

    def generate_for_owner(
        self, prompt: Secret[Prompt], *, max_tokens: int
    ) -> AsyncGenerator[str, None]:
        """Stream a reply to a prompt that may hold memory, for the owner's eyes.

        As `generate`, but apart from it: no call of `generate` waits for it or is refused because
        of it, and it makes no progress while one of those runs or waits.
        """
        ...

    async def count_tokens(self, text: str) -> int:
        """Tokens that `text` takes in a prompt; waits for the model. Raises as `ready` does."""
        ...

    async def with_vocabulary(self, work: Callable[[Vocabulary], T]) -> T:
        """Return what `work` makes of the model's vocabulary; it is called on another thread.

        Waits for the model. Raises as `ready` does, and what `work` raises; `Vocabulary.encode`
        finds a prompt that is too long before anything is charged for it.
        """
        ...

    async def room(self, prompt: Secret[Prompt], *, max_tokens: int) -> int:
        """Tokens that `prompt`, without earlier turns, and its reply leave free; negative if none.

        Waits for the model. Raises as `ready` does.
        """
        ...

    async def beside(self, work: Callable[[Loaded], T]) -> T:
        """What `work` makes of the loaded model, on a thread beside those that write replies.

        Waits for the model, which is not freed under it. Raises as `ready` does.
        """
        ...

    def forget(self, what: Forgetting) -> None:
        """Drop what is kept of threads whose turns are gone; from any thread, returns at once.

        Nothing is kept either of their questions that are being answered or have a place.
        """
        ...

    async def close(self) -> None:
        """Stop everything and free the model; waiting requests get `EngineClosed`. Idempotent."""
        ...


def refuse_unless_ready(state: EngineState, progress: float, problem: str | None) -> None:
    """Raise what `Engine.admit` raises in any state but ready and asleep."""
    match state:
        case EngineState.LOADING:
            raise EngineLoading(progress)
        case EngineState.PAUSED:
            raise EnginePaused
        case EngineState.FAILED:
            raise ModelError(problem or "The model could not be loaded. The log says why.")
        case EngineState.CLOSED:
            raise EngineClosed
        case EngineState.READY | EngineState.ASLEEP:
            return


def available_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Operational switches: `context_length` in tokens, `max_waiting` in requests.

    `threads` is None for as many as there are cores to run on; `streams` is how many replies to
    apps are written side by side.
    """

    context_length: int = 2048
    threads: int | None = None
    max_waiting: int = 8
    streams: int = 8
    gpu: GpuUse = "auto"
    sampling: Sampling = field(default_factory=Sampling)

    def __post_init__(self) -> None:
        # One row of each reply must fit into a call, and prompts still be read beside them.
        if not 1 <= self.streams <= BATCH // 2:
            raise ValueError(f"{self.streams} replies side by side; 1 to {BATCH // 2} can be.")
