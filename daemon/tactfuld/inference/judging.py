"""Judging: a model's yes/no log-odds on questions about notes, in work of a public shape.

Decides: in what rows notes and questions are computed, and how an answer becomes a number. Not
here: what is asked and what the numbers mean (`tactfuld.model_scorer`), whose model it is (engine).

Notes are tokenised one by one. A token that a note leaves free is computed too, as padding in a
sequence of its own that nothing else attends to: so the work is that of full notes, and padding
does not come between them. Notes that do not fit one window are judged in several, and the highest
log-odds count. In a window the notes are computed once, and each question goes on from them.

Invariants
- How many tokens are computed in which calls, and of how many of them logits are read, follows from
  capacities, questions and the model alone (C6); nothing is kept from one judgement to the next.
- A note yields ordinary tokens only, at most as many as its capacity; an empty one yields none.
- Questions do not attend to each other.
- The KV cache is overwritten when a judgement ends, however it ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tactful_core.values import Secret
from tactfuld.inference.chat_template import ChatTemplate, Tokenizer, ordinary_tokens
from tactfuld.inference.errors import ModelError
from tactfuld.inference.rows import Row, rows_of

if TYPE_CHECKING:
    from tactfuld.inference.llama_api import LlamaContext, LlamaModel
    from tactfuld.inference.worker import Loaded

T = TypeVar("T")

NOTES, PADDING, FIRST_QUESTION = 0, 1, 2
"""Sequences of a judging context; each question has one from `FIRST_QUESTION` on."""

WINDOW_TOKENS: Final = 512
"""Capacity of the notes that are judged together; a small model overlooks things among more."""

YES: Final = ("Yes", "yes", " Yes", " yes")
NO: Final = ("No", "no", " No", " no")


@dataclass(frozen=True, slots=True)
class Note:
    """A text, perhaps none, and its public capacity in tokens."""

    text: str = field(repr=False)
    capacity: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is asked: `before` the notes, and each of the `questions` after them; both are public.

    `system` is the model's instruction.
    """

    system: str
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


class ModelHolder(Protocol):
    """Who has the loaded model: `LlamaEngine`."""

    async def beside(self, work: Callable[[Loaded], T]) -> T:
        """What `work` makes of the model, on a thread beside those that write replies."""
        ...


class LlamaJudge:
    """A `Judge` by an engine's model, in a context of its own; one judgement at a time."""

    def __init__(self, models: ModelHolder) -> None:
        self._models = models
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

        return await self._models.beside(work)

    async def tokens(self, judgement: Judgement, capacities: tuple[int, ...]) -> int:
        """See `Judge.tokens`."""
        return await self._models.beside(
            lambda loaded: _shape(loaded, judgement, capacities).tokens
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The public shape of a judgement; `windows` are places of notes that are judged together.

    Attributes:
        opening: token ids before the notes.
        bullet, end: those around each note.
        questions: those of each question, up to the answer.
        capacities: tokens that each note may have, with what is around it.
    """

    opening: tuple[int, ...]
    bullet: tuple[int, ...]
    end: tuple[int, ...]
    questions: tuple[tuple[int, ...], ...]
    capacities: tuple[int, ...]
    windows: tuple[range, ...]

    @property
    def tokens(self) -> int:
        """How many tokens are computed."""
        return sum(self.cells(window) for window in self.windows)

    def cells(self, window: range) -> int:
        """How many of them in one window; each takes a KV cell."""
        notes = sum(self.capacities[place] for place in window)
        return len(self.opening) + notes + sum(map(len, self.questions))


def plan(
    model: Tokenizer,
    template: ChatTemplate,
    judgement: Judgement,
    capacities: Sequence[int],
    context_length: int,
) -> Plan:
    """The shape of a judgement about notes of these capacities, in a context of that many tokens.

    Raises `ModelError` if one note and a question do not fit the context.
    """
    bullet, end = (tuple(ordinary_tokens(text, model)) for text in ("- ", "\n"))
    opening = _opening(model, template, judgement)
    questions = tuple(
        (*ordinary_tokens(f"\n{question}", model), *template.after)
        for question in judgement.questions
    )
    around = len(bullet) + len(end)
    each = tuple(capacity + around for capacity in capacities)
    room = context_length - len(opening) - max(map(len, questions), default=0)
    if max(each, default=0) > room:
        raise ModelError(
            "One memory and a question about it do not fit the model's context. Raise "
            "`model.context`, or set `scorer: embedding`."
        )
    windows = tuple(_windows(each, min(WINDOW_TOKENS, room))) or (range(0),)
    return Plan(opening, bullet, end, questions, each, windows)


def judge(model: LlamaModel, shape: Plan, notes: tuple[Note, ...]) -> tuple[float, ...]:
    """`Judge.log_odds` on a loaded model, of notes that `shape` was made for.

    Slow, never on the event loop. Raises `ModelError` if the model cannot say yes or no, or if
    llama.cpp fails.
    """
    if not shape.questions:
        return ()
    yes, no = _answers(model)
    pieces = [_ids(model, shape, note) for note in notes]
    cells = max(map(shape.cells, shape.windows))
    sequences = FIRST_QUESTION + len(shape.questions)
    found = []
    with model.context(sequences=sequences, unified=True, length=cells) as context:
        try:
            for window in shape.windows:
                context.clear(erase=False)
                logits = _judged(context, shape, window, pieces)
                found.append(_log_sum(logits[:, yes]) - _log_sum(logits[:, no]))
        finally:
            context.clear(erase=True)
    return tuple(float(each) for each in np.max(found, axis=0))


def _shape(loaded: Loaded, judgement: Judgement, capacities: Sequence[int]) -> Plan:
    model = loaded.model
    return plan(model, loaded.template, judgement, capacities, model.context_length)


def _opening(model: Tokenizer, template: ChatTemplate, judgement: Judgement) -> tuple[int, ...]:
    before = f"{judgement.before}\n"
    if template.between is None:
        return (*template.before, *ordinary_tokens(f"{judgement.system}\n\n{before}", model))
    told = ordinary_tokens(judgement.system, model)
    return (*template.before, *told, *template.between, *ordinary_tokens(before, model))


def _answers(model: Tokenizer) -> tuple[list[int], list[int]]:
    """First tokens of the words for yes and for no, without those that begin both."""
    yes, no = ({model.tokenize(word, special=False)[0] for word in words} for words in (YES, NO))
    if yes <= no or no <= yes:
        raise ModelError(
            "The model's vocabulary cannot tell yes from no by one token, so it cannot judge "
            "views. Set `scorer: embedding`, or use another model."
        )
    return sorted(yes - no), sorted(no - yes)


def _ids(model: Tokenizer, shape: Plan, note: Note) -> tuple[int, ...]:
    ids = ordinary_tokens(" ".join(note.text.split()), model)[: note.capacity]
    return (*shape.bullet, *ids, *shape.end) if ids else ()


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
    for rows in _batches(notes, context.batch):
        context.decode(rows)
    numbered = list(enumerate(shape.questions, start=FIRST_QUESTION))
    for number, _ in numbered:
        context.copy(NOTES, number, length)
    asked = [row for number, ids in numbered for row in rows_of(ids, length, number)]
    found = []
    for rows in _batches(asked, context.batch):
        context.decode(rows)
        found.append(context.logits().astype(np.float64))
    return np.concatenate(found)


def _note_rows(
    shape: Plan, window: range, pieces: Sequence[tuple[int, ...]]
) -> tuple[list[Row], int]:
    """Rows of the opening and of the notes, padded; and how many of them are no padding."""
    rows = rows_of(shape.opening, 0, NOTES, logits=False)
    length, padding = len(rows), 0
    filler = (*shape.end, *shape.opening)[:1]
    for place in window:
        ids, free = pieces[place], shape.capacities[place] - len(pieces[place])
        rows += rows_of(ids, length, NOTES, logits=False)
        rows += rows_of(filler * free, padding, PADDING, logits=False)
        length, padding = length + len(ids), padding + free
    return rows, length


def _batches(rows: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _log_sum(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    highest = logits.max(axis=1, keepdims=True)
    total: npt.NDArray[np.float64] = np.log(np.exp(logits - highest).sum(axis=1)) + highest[:, 0]
    return total
