"""The rows of a fused answer as token ids: one that shows no memory, one for each cell that does.

Decides where notes stand in a prompt, and what stands in a place that is not shown. What is *not*
here: which places and cells there are (`cells`), the wording around them (`inference.prompt`), what
is drawn from the rows (`distributions`).

A row is public text, cut at its places, and between the pieces exactly `capacity` ids a place: the
ids of what the position holds followed by placeholders, or placeholders alone. Each piece and each
memory is tokenised by itself and the ids are put together, so no memory moves or merges with the
text around it; control tokens are not recognised in either.

Invariants (GUARANTEE §5):

- all rows have one length, which public input decides, and differ in places only;
- row 0 is a function of public text, of the plan, and of what unprotected shelves hold;
- row `i` is a function of that and of what the positions of cell `i` hold; for an empty cell it is
  row 0;
- what is longer than its place in this model's tokens is cut in its own row. The caller is told
  which positions were, for the owner's eyes only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from tactful_core.values import Position, Secret
from tactfuld.fusing.cells import CellPlan, Place
from tactfuld.inference.chat_template import ChatTemplate, Tokenizer, ordinary_tokens
from tactfuld.inference.errors import ModelError
from tactfuld.inference.prompt import FORM, Prompt

NOTES: Final = "\n\nNotes about me:"
BULLET: Final = "\n-"
CLOSING: Final = f"\n\nAnswer my question above with these notes in mind. {FORM}"

FILLERS: Final = ("_", "~", "^")
"""A place that shows nothing is full of the first of these that is one token to the model."""

LONGEST_RUN: Final = 16
"""Runs of so many fillers are kept out of answers; longer ones are put together from these."""

Ids = tuple[int, ...]
Rows = tuple[Ids, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """The public part of all rows of an answer.

    Attributes:
        pieces: token ids before, between and after the places: one piece more than places.
        opening: ids of the words that the reply opens with; they end the last piece.
        filler: the id that stands for nothing.
        barred: ids that runs of it are written with. A model that sees many fillers would go on
            with them, so no answer has these.
    """

    places: tuple[Place, ...]
    pieces: tuple[Ids, ...] = field(repr=False)
    opening: Ids = field(repr=False)
    filler: int
    barred: Ids

    @property
    def length(self) -> int:
        """Ids of every row."""
        return sum(map(len, self.pieces)) + sum(place.capacity for place in self.places)

    @property
    def shared(self) -> int:
        """Ids that all rows begin with, whatever any memory is: up to the first cell's place."""
        found = len(self.pieces[0])
        for place, piece in zip(self.places, self.pieces[1:], strict=True):
            if place.charged:
                return found
            found += place.capacity + len(piece)
        return found - 1


@dataclass(frozen=True, slots=True)
class Contexts:
    """Rows that may go to the model, and the positions of which not all is in them."""

    rows: Secret[Rows]
    cut: Secret[tuple[Position, ...]]


def around_each(tokenizer: Tokenizer) -> int:
    """Tokens of public text that come with each place."""
    return len(ordinary_tokens(BULLET, tokenizer))


def bare_length(prompt: Prompt, template: ChatTemplate, tokenizer: Tokenizer) -> int:
    """Ids of a row without earlier turns and without places."""
    alone = replace(prompt, earlier=())
    return frame(alone, CellPlan(()), template, tokenizer, room=0).length


def frame(
    prompt: Prompt, plan: CellPlan, template: ChatTemplate, tokenizer: Tokenizer, *, room: int
) -> Frame:
    """The public part of the rows: the notes stand at the end of what the user says.

    Of the prompt's earlier turns the newest are in it, as many as leave every row within `room`
    ids; without any of them it may be longer than that.
    """
    bullet = tuple(ordinary_tokens(BULLET, tokenizer))
    notes = ordinary_tokens(NOTES, tokenizer)
    opening = tuple(ordinary_tokens(prompt.opening, tokenizer))
    closing = (*ordinary_tokens(CLOSING, tokenizer), *template.after, *opening)
    capacities = sum(place.capacity for place in plan.places)
    taken = len(notes) + len(bullet) * len(plan.places) + capacities + len(closing)
    spoken = template.encode(prompt, tokenizer, room=room - taken + len(template.after))
    said = spoken[: len(spoken) - len(template.after)]
    filler, barred = filler_of(tokenizer)
    if not plan.places:
        return Frame((), ((*said, *notes, *closing),), opening, filler, barred)
    between = (bullet,) * (len(plan.places) - 1)
    pieces = ((*said, *notes, *bullet), *between, closing)
    return Frame(plan.places, pieces, opening, filler, barred)


def contexts(
    public: Frame, plan: CellPlan, texts: Secret[tuple[str, ...]], tokenizer: Tokenizer
) -> Contexts:
    """Row 0, then one row a cell in the plan's order; `texts` has what each place holds, in order.

    Raises:
        ValueError: there are not as many texts as places.
    """
    held = [memory_ids(text, tokenizer) for text in texts.reveal()]
    pairs = list(zip(public.places, held, strict=True))
    full = [in_place(ids, place.capacity, public.filler) for place, ids in pairs]
    blank = [in_place((), place.capacity, public.filler) for place in public.places]
    rows = [
        joined(
            public.pieces,
            (
                full[number] if _shows(cell, place) else blank[number]
                for number, place in enumerate(public.places)
            ),
        )
        for cell in (None, *plan.cells)
    ]
    cut = tuple(place.position for place, ids in pairs if len(ids) > place.capacity)
    return Contexts(Secret(tuple(rows)), Secret(cut))


def memory_ids(text: str, tokenizer: Tokenizer) -> Ids:
    """What a position holds as ids, none of them a control token; none for an empty one."""
    return tuple(ordinary_tokens(f" {text}", tokenizer)) if text else ()


def in_place(ids: Sequence[int], capacity: int, filler: int) -> Ids:
    """Exactly `capacity` ids: those given, cut or followed by fillers."""
    return (*ids[:capacity], *[filler] * (capacity - len(ids)))


def joined(pieces: tuple[Ids, ...], places: Iterable[Ids]) -> Ids:
    """Public pieces with the ids of the places between them."""
    first, *later = pieces
    return (*first, *chain.from_iterable(chain(*pair) for pair in zip(places, later, strict=True)))


def filler_of(tokenizer: Tokenizer) -> tuple[int, Ids]:
    """The id that stands for nothing, and those that runs of it are written with.

    Raises:
        ModelError: none of `FILLERS` is a single ordinary token to the model.
    """
    for text in FILLERS:
        ids = ordinary_tokens(text, tokenizer)
        if len(ids) == 1:
            runs = (blank + text * n for blank in ("", " ") for n in range(1, LONGEST_RUN + 1))
            found = {each for run in runs for each in ordinary_tokens(run, tokenizer)}
            return ids[0], tuple(sorted(found - set(ordinary_tokens(" ", tokenizer))))
    raise ModelError(
        "This model's vocabulary has no token that can stand for an empty place, so no text can be "
        "fused with it. Use another model; `tactful model list` shows some."
    )


def _shows(cell: frozenset[str] | None, place: Place) -> bool:
    return not place.charged or place.charged == cell
