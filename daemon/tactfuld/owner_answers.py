"""Answers to the owner: from all of memory, by the local model, for nobody else's eyes.

Decides which memories an answer is written from: all of them where they fit the model's context,
else those closest to the question, as many as fit. What is *not* here: what apps are answered
(`gate`), the prompt's wording (`inference.owner_prompt`), when the model serves the owner
(`inference.engine`).

Invariants:

- nothing that an app can see depends on it: no ledger, no history, no notice, no log has a trace of
  a question, and the model serves apps first, from another context (C6);
- nothing is kept: neither question, memories nor answer outlive the request;
- memory that cannot be read is an error of the owner's, as it is when they list it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager

from tactful.errors import Busy, InvalidParams, ModelFailed, NotReady, ShuttingDown
from tactful.owner_wire import OwnersAnswer
from tactful_core.layout import Layout
from tactful_core.values import Secret
from tactfuld.inference.embedder import Embedder
from tactfuld.inference.engine import Engine
from tactfuld.inference.errors import (
    EngineBusy,
    EngineClosed,
    EngineLoading,
    ModelError,
    PromptTooLong,
)
from tactfuld.inference.owner_prompt import Note, build_owner_prompt
from tactfuld.inference.prompt import Prompt
from tactfuld.store.memory import MemoryStore

QUESTION_TOKENS = 64
"""Tokens of the question that count when memories are compared with it."""


class OwnerAnswers:
    """Answers the owner's own questions."""

    def __init__(
        self,
        memory: MemoryStore,
        layout: Layout,
        engine: Engine,
        embedder: Embedder,
        answer_tokens: int,
    ) -> None:
        """Nothing is read yet.

        Args:
            answer_tokens: the most tokens of one answer.
        """
        self._memory = memory
        self._layout = layout
        self._engine = engine
        self._embedder = embedder
        self._answer_tokens = answer_tokens

    def change_answer_tokens(self, answer_tokens: int) -> None:
        """Another length, for answers that begin after this."""
        self._answer_tokens = answer_tokens

    async def answer(
        self, question: str, on_text: Callable[[str], Awaitable[None]]
    ) -> OwnersAnswer:
        """Answers a question; `on_text` is given the pieces as they come.

        Raises:
            NotReady, ModelFailed, Busy, ShuttingDown: the model cannot answer now.
            InvalidParams: the question alone is too long for the model's context.
            Unusable: memory cannot be read.
        """
        with _named_errors():
            await self._engine.admit(owner=True)
        notes = await self._notes()
        pieces: list[str] = []
        with _named_errors():
            prompt, read = await self._fitting(question, notes)
            reply = self._engine.generate_for_owner(prompt, max_tokens=self._answer_tokens)
            async with aclosing(reply) as stream:
                async for piece in stream:
                    pieces.append(piece)
                    await on_text(piece)
        return OwnersAnswer(text="".join(pieces), read=read, remembered=len(notes))

    async def _notes(self) -> tuple[Note, ...]:
        """All that is remembered, in order of position."""
        shelf_of = {p: shelf.name for shelf in self._layout.shelves for p in shelf.positions}
        full = await self._memory.listing()
        return tuple(Note(shelf_of[position], memory.text) for position, memory in full)

    async def _fitting(self, question: str, notes: tuple[Note, ...]) -> tuple[Secret[Prompt], int]:
        """The prompt with as many notes as fit, and how many those are."""
        prompt = build_owner_prompt(question, notes)
        if await self._fits(prompt):
            return prompt, len(notes)
        closest = await asyncio.to_thread(self._closest_first, question, notes)
        fitting, least, most = build_owner_prompt(question, ()), 0, len(notes) - 1
        while least < most:
            count = (least + most + 1) // 2
            chosen = sorted(closest[:count])
            prompt = build_owner_prompt(question, tuple(notes[index] for index in chosen))
            if await self._fits(prompt):
                fitting, least = prompt, count
            else:
                most = count - 1
        return fitting, least

    async def _fits(self, prompt: Secret[Prompt]) -> bool:
        return await self._engine.room(prompt, max_tokens=self._answer_tokens) >= 0

    def _closest_first(self, question: str, notes: tuple[Note, ...]) -> list[int]:
        """Indices of the notes, those most like the question first."""
        tokens = max(shelf.tokens for shelf in self._layout.shelves)
        asked = self._embedder.embed((question,), capacity=QUESTION_TOKENS)[0]
        likeness = self._embedder.embed([note.text for note in notes], capacity=tokens) @ asked
        return sorted(range(len(notes)), key=lambda index: -float(likeness[index]))


@contextmanager
def _named_errors() -> Iterator[None]:
    """What goes wrong with the model, in sentences for the owner."""
    try:
        yield
    except EngineBusy as error:
        raise Busy("Too many of your questions wait for the language model. Try later.") from error
    except EngineLoading as error:
        raise NotReady(str(error)) from error
    except EngineClosed as error:
        raise ShuttingDown("The daemon is stopping.") from error
    except PromptTooLong as error:
        raise InvalidParams(
            f"The question does not fit the language model's context of {error.context_length} "
            "tokens. Ask a shorter one, or raise model.context in settings.yaml."
        ) from error
    except ModelError as error:
        raise ModelFailed(f"The language model did not answer. {error}") from error
