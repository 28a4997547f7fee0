"""Judging: a model's yes/no log-odds on questions about notes, in work of a public shape.

Decides: in what rows notes and questions are computed, and how an answer becomes a number. Not
here: what is asked and what the numbers mean (`tactfuld.model_scorer`), whose model it is (engine).

Notes are tokenised one by one. A token that a note leaves free is computed too, as padding in a
sequence of its own that nothing else attends to: so the work is that of full notes, and padding
does not come between them. Notes that do not fit one window are judged in several, and the highest
log-odds count. What stands before the notes is computed once, the notes once a window, and each
question goes on from them. All of it is plain text, without a chat template: examples before the
notes show even a small model what is asked, which it does not understand when it is told.

Invariants
- How many tokens are computed in which calls, and of how many of them logits are read, follows from
  capacities, questions and the model alone (C6); nothing is kept from one judgement to the next.
- A note yields ordinary tokens only, at most as many as its capacity; an empty one yields none.
- Questions do not attend to each other.
- The KV cache is overwritten when a judgement ends, however it ends.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt

from tactful_core.values import Secret
from tactfuld.inference.chat_template import Tokenizer, ordinary_tokens
from tactfuld.inference.errors import ModelError
from tactfuld.inference.rows import Row, rows_of

if TYPE_CHECKING:
    from tactfuld.inference.engine import Engine
    from tactfuld.inference.llama_api import LlamaContext, LlamaModel
    from tactfuld.inference.worker import Loaded

OPENING, NOTES, PADDING, FIRST_QUESTION = 0, 1, 2, 3
"""Sequences of a judging context; each question has one from `FIRST_QUESTION` on."""

WINDOW_TOKENS: Final = 512
"""Capacity of the notes that are judged together; a small model overlooks things among more."""

QUESTIONS_AT_ONCE: Final = 32
"""Questions that have a sequence at a time; llama.cpp has only so many."""

YES: Final = ("Yes", "yes", " Yes", " yes")
NO: Final = ("No", "no", " No", " no")


@dataclass(frozen=True, slots=True)
class Note:
    """A text, perhaps none, and its public capacity in tokens."""

    text: str = field(repr=False)
    capacity: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is asked, all of it public: what stands `before` the notes, and `questions` after."""

    before: str
    questions: tuple[str, ...]


class Judge(Protocol):
    """Answers yes/no questions about notes."""

    async def log_odds(
        self, judgement: Judgement, notes: Secret[tuple[Note, ...]]
    ) -> Secret[tuple[float, ...]]:
        """`ln P(yes) / P(no)` for each question, the highest over windows of notes.

        Raises `InferenceError`.
        """
        ...

    async def tokens(self, judgement: Judgement, capacities: tuple[int, ...]) -> int:
        """How many tokens are computed for notes of these capacities. Raises `InferenceError`."""
        ...


class LlamaJudge:
    """A `Judge` by an engine's model, in a context of its own; one judgement at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # Held by threads: one that its caller gave up still has a context until it is through.
        self._judging = threading.Lock()

    async def log_odds(
        self, judgement: Judgement, notes: Secret[tuple[Note, ...]]
    ) -> Secret[tuple[float, ...]]:
        """See `Judge.log_odds`."""

        def work(loaded: Loaded) -> Secret[tuple[float, ...]]:
            shape = _shape(loaded, judgement, [note.capacity for note in notes.reveal()])
            with self._judging:
                return Secret(judge(loaded.model, shape, notes.reveal()))

        return await self._engine.beside(work)

    async def tokens(self, judgement: Judgement, capacities: tuple[int, ...]) -> int:
        """See `Judge.tokens`."""
        return await self._engine.beside(
            lambda loaded: _shape(loaded, judgement, capacities).tokens
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The public shape of a judgement; `windows` are places of notes that are judged together.

    Attributes:
        opening: token ids before the notes.
        questions: those of each question, up to the answer.
        capacities: tokens that each note may have.
    """

    opening: tuple[int, ...]
    questions: tuple[tuple[int, ...], ...]
    capacities: tuple[int, ...]
    windows: tuple[range, ...]

    @property
    def tokens(self) -> int:
        """How many tokens are computed."""
        asked = sum(map(len, self.questions))
        return len(self.opening) + sum(self.notes_in(window) + asked for window in self.windows)

    @property
    def cells(self) -> int:
        """How many KV cells are taken at a time."""
        notes = max(map(self.notes_in, self.windows))
        asked = max(sum(map(len, group)) for group in self.groups)
        return len(self.opening) + notes + asked

    @property
    def groups(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """Questions that are asked at a time."""
        return tuple(
            self.questions[start : start + QUESTIONS_AT_ONCE]
            for start in range(0, len(self.questions), QUESTIONS_AT_ONCE)
        )

    def notes_in(self, window: range) -> int:
        """How many tokens the notes of one window have room for."""
        return sum(self.capacities[place] for place in window)


def plan(
    model: Tokenizer, judgement: Judgement, capacities: Sequence[int], context_length: int
) -> Plan:
    """The shape of a judgement about notes of these capacities, in a context of that many tokens.

    Raises `ModelError` if one note and a question do not fit the context.
    """
    begin = (model.bos,) if model.adds_bos and model.bos >= 0 else ()
    opening = (*begin, *ordinary_tokens(judgement.before, model))
    questions = tuple(tuple(ordinary_tokens(f"\n{q}", model)) for q in judgement.questions)
    room = context_length - len(opening) - max(map(len, questions), default=0)
    if max(capacities, default=0) > room:
        raise ModelError(
            "One memory and a question about it do not fit the model's context. Raise "
            "`model.context`, or set `scorer: embedding`."
        )
    windows = tuple(_windows(capacities, min(WINDOW_TOKENS, room))) or (range(0),)
    return Plan(opening, questions, tuple(capacities), windows)


def judge(model: LlamaModel, shape: Plan, notes: tuple[Note, ...]) -> tuple[float, ...]:
    """`Judge.log_odds` on a loaded model, of notes that `shape` was made for.

    Slow, never on the event loop. Raises `ModelError` if the model cannot say yes or no, or if
    llama.cpp fails.
    """
    if not shape.questions:
        return ()
    yes, no = _answers(model)
    pieces = [_ids(model, note) for note in notes]
    sequences = FIRST_QUESTION + min(QUESTIONS_AT_ONCE, len(shape.questions))
    found = []
    with model.context(sequences=sequences, unified=True, length=shape.cells) as context:
        context.clear(erase=False)
        try:
            _compute(context, rows_of(shape.opening, 0, OPENING, logits=False))
            for window in shape.windows:
                logits = _judged(context, shape, window, pieces)
                found.append(_log_sum(logits[:, yes]) - _log_sum(logits[:, no]))
                context.remove(NOTES)
                context.remove(PADDING)
        finally:
            context.clear(erase=True)
    return tuple(float(each) for each in np.max(found, axis=0))


def _shape(loaded: Loaded, judgement: Judgement, capacities: Sequence[int]) -> Plan:
    model = loaded.model
    return plan(model, judgement, capacities, model.context_length)


def _answers(model: Tokenizer) -> tuple[list[int], list[int]]:
    """First tokens of the words for yes and for no, without those that begin both."""
    yes, no = ({model.tokenize(word, special=False)[0] for word in words} for words in (YES, NO))
    if yes <= no or no <= yes:
        raise ModelError(
            "The model's vocabulary cannot tell yes from no by one token, so it cannot judge "
            "views. Set `scorer: embedding`, or use another model."
        )
    return sorted(yes - no), sorted(no - yes)


def _ids(model: Tokenizer, note: Note) -> tuple[int, ...]:
    """Notes follow each other on one line: small models judge them better than in a list."""
    text = " ".join(note.text.split())
    return tuple(ordinary_tokens(f" {text}", model)[: note.capacity]) if text else ()


def _windows(capacities: Sequence[int], limit: int) -> Iterator[range]:
    """Neighbours whose capacities together stay within `limit`, each at least alone."""
    start = taken = 0
    for place, capacity in enumerate(capacities):
        if place > start and taken + capacity > limit:
            yield range(start, place)
            start, taken = place, 0
        taken += capacity
    if capacities:
        yield range(start, len(capacities))


def _judged(
    context: LlamaContext, shape: Plan, window: range, pieces: Sequence[tuple[int, ...]]
) -> npt.NDArray[np.float64]:
    """Logits after each question, shape (questions, |V|)."""
    notes, length = _note_rows(shape, window, pieces)
    context.copy(OPENING, NOTES, len(shape.opening))
    _compute(context, notes)
    return np.concatenate([_asked(context, group, length) for group in shape.groups])


def _asked(
    context: LlamaContext, questions: Sequence[tuple[int, ...]], length: int
) -> npt.NDArray[np.float64]:
    """Logits after each question, all asked after the first `length` tokens of the notes."""
    numbered = list(enumerate(questions, start=FIRST_QUESTION))
    for number, _ in numbered:
        context.copy(NOTES, number, length)
    logits = _compute(context, [row for n, ids in numbered for row in rows_of(ids, length, n)])
    for number, _ in numbered:
        context.remove(number)
    return logits


def _note_rows(
    shape: Plan, window: range, pieces: Sequence[tuple[int, ...]]
) -> tuple[list[Row], int]:
    """Rows of the notes, padded; and how many tokens they and the opening are."""
    rows: list[Row] = []
    length, padding = len(shape.opening), 0
    filler = shape.opening[-1:]
    for place in window:
        ids, free = pieces[place], shape.capacities[place] - len(pieces[place])
        rows += rows_of(ids, length, NOTES, logits=False)
        rows += rows_of(filler * free, padding, PADDING, logits=False)
        length, padding = length + len(ids), padding + free
    return rows, length


def _compute(context: LlamaContext, rows: Sequence[Row]) -> npt.NDArray[np.float64]:
    """Logits of the rows that ask for them, shape (those rows, |V|), computed in batches."""
    found = [np.empty((0, context.vocabulary))]
    for start in range(0, len(rows), context.batch):
        context.decode(rows[start : start + context.batch])
        found.append(context.logits().astype(np.float64))
    return np.concatenate(found)


def _log_sum(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    highest = logits.max(axis=1, keepdims=True)
    total: npt.NDArray[np.float64] = np.log(np.exp(logits - highest).sum(axis=1)) + highest[:, 0]
    return total
