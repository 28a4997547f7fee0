"""The model scorer: how well a view fits the contents of a read set, by the model's yes and no.

Decides what the local model is asked about each view, what its log-odds count for, and how long
that takes. What is *not* here: tokens and llama.cpp (`inference.judging`), relevance to a question,
which stays that of the embeddings (`scorer`), weights, grid (`tactful_core.scoring`).

- `c` of a special view: how far the notes raise the log-odds of yes above those without any note,
  in parts of `CERTAIN`, for that of the view's `supports` for which it is most (its guidance where
  it has none); what the model says of an empty shelf is a bias of its own, and public;
- `c` of the generic view: 1 less the highest of the others, as nobody can say what supports it;
- `s`: how far a view's `c` is ahead of the best of the others, 0 where it is behind.

Invariants (C2, C6):

- `c` and `s` are functions of the read set's contents, the public vocabulary and the model: nothing
  learned from memory, nothing kept of it;
- every view of the slot is asked about, whatever is there, and always anew;
- the same slot takes the same time: longer than the work needs by a public measurement, and where
  that was not enough, the next multiple, of which the owner is told.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from tactful_core.layout import Slot, View
from tactful_core.scoring import Evidence
from tactful_core.values import Secret, SlotName
from tactfuld.clock import Clock, fixed_time
from tactfuld.inference.judging import Judge, Judgement, Note
from tactfuld.scorer import EmbeddingScorer, leads

CERTAIN: Final = 1.0
"""Log-odds above those of an empty shelf that count as 1; a public constant."""

HEADROOM: Final = 3.0
"""How much longer than measured a judgement may take: replies are written at the same time."""

DUMMY_NOTES: Final = 8
"""How many full positions the measurement is made with."""

BEFORE: Final = """\
Notes: I go camping every summer.
Statement: I like to sleep in a tent.
Do the notes fit the statement? Yes

Notes: My printer is broken.
Statement: I am learning Italian.
Do the notes fit the statement? No

Notes: I have two cats. The hall was painted blue.
Statement: I often buy pet food.
Do the notes fit the statement? Yes

Notes: I wear glasses. We went to the theatre.
Statement: I play the drums in a band.
Do the notes fit the statement? No

Notes:"""
"""Examples of what is asked and answered, and the beginning of the notes in question."""

Seconds = Mapping[SlotName, float]
"""How long scoring takes, by slot."""


class JudgingNotices(Protocol):
    """What the owner is told about scoring by the model."""

    def scoring_takes(self, seconds: Seconds) -> None:
        """How long it takes, once that is known."""
        ...

    def scoring_missed(self) -> None:
        """That it took longer than that."""
        ...


class ModelScorer:
    """Implements `tactful_core.interface.Scorer` with yes/no questions to the local model."""

    def __init__(
        self, public: EmbeddingScorer, judge: Judge, clock: Clock, notices: JudgingNotices
    ) -> None:
        """`public` says how relevant views are to a question."""
        self._public = public
        self._judge = judge
        self._clock = clock
        self._notices = notices
        self._slots: tuple[Slot, ...] = ()
        self._measuring = asyncio.Lock()
        self._seconds_a_token: float | None = None
        self._without_notes: dict[SlotName, tuple[float, ...]] = {}

    def prepare(self, slots: tuple[Slot, ...]) -> None:
        """As `EmbeddingScorer.prepare`; what needs the model is measured by `measure`."""
        self._public.prepare(slots)
        self._slots = slots

    async def measure(self) -> None:
        """Measures, once the model is there, how long scoring takes, and what empty shelves say.

        Raises `InferenceError`; whoever scores before it is through measures for itself.
        """
        asked = [slot for slot in self._slots if len(slot.vocabulary) > 1]
        self._notices.scoring_takes({slot.name: await self.seconds(slot) for slot in asked})
        for slot in asked:
            await self._bias(slot)

    async def seconds(self, slot: Slot) -> float:
        """How long evidence for these shelves takes, from public numbers. Raises as `measure`."""
        async with self._measuring:
            if self._seconds_a_token is None:
                self._seconds_a_token = await self._measured(slot)
            tokens = await self._judge.tokens(judgement(slot), capacities(slot))
            return HEADROOM * tokens * self._seconds_a_token

    async def relevance(self, query: str, slot: Slot) -> tuple[float, ...]:
        """That of the embeddings: a function of public input alone."""
        return await self._public.relevance(query, slot)

    async def evidence(self, slot: Slot, rows: Secret[tuple[str, ...]]) -> Evidence:
        """What the model says of each view; takes `seconds(slot)`. Raises `InferenceError`."""
        seconds, bias = await self.seconds(slot), await self._bias(slot)
        async with fixed_time(self._clock, seconds, self._notices.scoring_missed):
            texts = zip(rows.reveal(), capacities(slot), strict=True)
            notes = Secret(tuple(Note(text, tokens) for text, tokens in texts))
            found = await self._judge.log_odds(judgement(slot), notes)
        return evidence_from(slot, found.reveal(), bias)

    async def _bias(self, slot: Slot) -> tuple[float, ...]:
        """Log-odds of each special view without any note; public, so it is kept."""
        async with self._measuring:
            if slot.name not in self._without_notes:
                found = await self._judge.log_odds(judgement(slot), Secret(()))
                self._without_notes[slot.name] = found.reveal()
            return self._without_notes[slot.name]

    async def _measured(self, slot: Slot) -> float:
        """Seconds a token of a judgement about public notes that fill their positions."""
        sizes = capacities(slot)
        filled = tuple(Note("word " * size, size) for size in sizes[:DUMMY_NOTES])
        asked = judgement(slot)
        await self._judge.log_odds(asked, Secret(filled))  # the first one also warms up
        started = self._clock.monotonic()
        await self._judge.log_odds(asked, Secret(filled))
        taken = self._clock.monotonic() - started
        return taken / await self._judge.tokens(asked, sizes[:DUMMY_NOTES])


def judgement(slot: Slot) -> Judgement:
    """What is asked about a slot's special views, one question for each statement; public."""
    asked = tuple(
        f"Statement: {statement}\nDo the notes fit the statement?"
        for view in slot.vocabulary[1:]
        for statement in _statements(view)
    )
    return Judgement(BEFORE, asked)


def capacities(slot: Slot) -> tuple[int, ...]:
    """How many tokens each position of the slot may have, in order; public."""
    return tuple(shelf.tokens for shelf in slot.shelves for _ in shelf.positions)


def evidence_from(slot: Slot, odds: Sequence[float], without_notes: Sequence[float]) -> Evidence:
    """`c` and `s` of all views, from log-odds of each question with notes and without any."""
    parts = iter([_part(each - none) for each, none in zip(odds, without_notes, strict=True)])
    special = tuple(max(next(parts) for _ in _statements(view)) for view in slot.vocabulary[1:])
    compatibility = (1.0 - max(special, default=0.0), *special)
    return Evidence(Secret(compatibility), Secret(leads(compatibility)))


def _statements(view: View) -> tuple[str, ...]:
    """What people say for whom the view is right."""
    return view.supports or (view.guidance,)


def _part(odds: float) -> float:
    """Log-odds in parts of `CERTAIN`, within 0 and 1; 0 for what is no number."""
    return 0.0 if math.isnan(odds) else min(1.0, max(0.0, odds / CERTAIN))
