"""A lane: the replies that are written side by side in one llama.cpp context, a token each a step.

Decides: which rows go into a call, and that every reply draws from its own logits. Not here: which
requests are begun and when (scheduler), what a reply's text is (generation), how a token is drawn
(sampling; for groups, whoever asked).

A reply of one sequence and a sequence group are the same here: so many sequences of equal length,
one token for all of them each step. A call has first the newest token of every reply that goes on,
and in what is left of the batch the tokens of prompts that are still being read, each in turn
first. So a reply goes on with every call, however long the prompts are that others come with.

Invariants
- Rows follow from public input, released ids and the public shapes of groups alone.
- No draw is made for a request that was cancelled before the draw began, and none after its end.
- A reply that has ended has no cell of the KV cache any more, unless its sequence was handed on.
- A call that fails ends all replies of its lane, and overwrites the whole cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from tactfuld.inference.errors import InferenceError, ModelError
from tactfuld.inference.generation import ReplyText
from tactfuld.inference.groups import GroupDraw
from tactfuld.inference.requests import Request
from tactfuld.inference.rows import Row, rows_of

if TYPE_CHECKING:
    from tactfuld.inference.llama_api import LlamaContext


AllLogits = npt.NDArray[np.float32]


@dataclass(slots=True)
class Reading:
    """What a reply goes on from.

    Attributes:
        sequences: numbers of its sequences in the context.
        rows: what is still to be read before the last token of each.
        last: the newest token of each sequence, not computed yet.
        position: where that stands.
        read: token ids of its only sequence, those above included; empty for a group.
    """

    sequences: tuple[int, ...]
    rows: list[Row]
    last: tuple[int, ...]
    position: int
    read: list[int]


def reading_of(tokens: list[int], sequence: int, known: int = 0) -> Reading:
    """Go on from `tokens`, of which the first `known` (less than all) are in the cache."""
    place = len(tokens) - 1
    rows = rows_of(tokens[known:place], known, sequence, logits=False)
    return Reading((sequence,), rows, (tokens[place],), place, list(tokens))


class Stream:
    """One reply that is being written."""

    def __init__(
        self, request: Request, reading: Reading, text: ReplyText, draw: GroupDraw
    ) -> None:
        self.request: Final = request
        self.reading: Final = reading
        self._text: Final = text
        self._draw: Final = draw

    @property
    def width(self) -> int:
        """How many sequences it has."""
        return len(self.reading.sequences)

    def say(self, token: int) -> bool:
        """Send what `token` completes; whether the reply goes on."""
        self.send(self._text.add(token))
        return not self._text.ended

    def send(self, piece: str) -> None:
        if piece:
            self.request.send(piece)

    def next_rows(self) -> list[Row]:
        """The newest token of each sequence; logits are asked of all."""
        at = self.reading.position
        return [
            Row(token, at, (sequence,), logits=True)
            for sequence, token in zip(self.reading.sequences, self.reading.last, strict=True)
        ]

    def go_on(self, logits: AllLogits) -> bool:
        """Draw from `logits`, of shape (width, vocabulary); whether the reply goes on."""
        token = self._draw(logits)
        if not self.say(token):
            self.send(self._text.rest())
            return False
        self.reading.last = (token,) * self.width
        self.reading.position += 1
        if self.width == 1:
            self.reading.read.append(token)
        return True


OnEnd = Callable[[Stream, InferenceError | None], None]


class Lane:
    """The replies of one context, in the order in which they began."""

    def __init__(self, context: LlamaContext, on_end: OnEnd, *, apart: bool = False) -> None:
        """An empty lane.

        Args:
            on_end: told of each reply that has ended, its cells still there.
            apart: compute sequence 0 in calls of its own (`public_row`).
        """
        self.context: Final = context
        self.streams: list[Stream] = []
        self._on_end = on_end
        self._apart = apart
        self._turn = 0

    def step(self) -> None:
        """Let every reply go on by at most one token; nothing is done where there is none."""
        self._end_cancelled()
        rows, drawing = self._next_call()
        if not rows:
            return
        try:
            logits = self._computed(rows)
        except Exception as error:  # noqa: BLE001 - a reader must never wait for ever
            self.fail(named(error))
            return
        for stream, first in drawing:
            self._go_on(stream, logits[first : first + stream.width])

    def fail(self, error: InferenceError) -> None:
        """End every reply with `error`, and overwrite what was computed."""
        ended, self.streams = self.streams, []
        self.context.clear(erase=True)
        for stream in ended:
            self._on_end(stream, error)

    def _computed(self, rows: list[Row]) -> AllLogits:
        """Logits of the rows that asked for them."""
        if not self._apart:
            self.context.decode(rows)
            return self.context.logits()
        found = []
        for part in (
            [row for row in rows if 0 in row.sequences],
            [row for row in rows if 0 not in row.sequences],
        ):
            if part:
                self.context.decode(part)
                found.append(self.context.logits().copy())
        return np.concatenate(found)

    def _go_on(self, stream: Stream, logits: AllLogits) -> None:
        if stream.request.cancelled:
            self.end(stream)
            return
        try:
            goes_on = stream.go_on(logits)
        except Exception as error:  # noqa: BLE001 - what failed is this reply's, not the others'
            self.end(stream, named(error))
            return
        if not goes_on:
            self.end(stream)

    def _end_cancelled(self) -> None:
        for stream in [each for each in self.streams if each.request.cancelled]:
            self.end(stream)

    def end(self, stream: Stream, error: InferenceError | None = None) -> None:
        """End one reply; what it has in the cache is there until `on_end` has been told."""
        self.streams.remove(stream)
        self._on_end(stream, error)

    def _next_call(self) -> tuple[list[Row], list[tuple[Stream, int]]]:
        """The rows of the next call, and who draws from which row of its logits on."""
        rows: list[Row] = []
        drawing: list[tuple[Stream, int]] = []
        asked = 0
        for stream in self._in_turn():
            take = self.context.batch - len(rows)
            rows += stream.reading.rows[:take]
            del stream.reading.rows[:take]
            if not stream.reading.rows and self.context.batch - len(rows) >= stream.width:
                rows += stream.next_rows()
                drawing.append((stream, asked))
                asked += stream.width
        return rows, drawing

    def _in_turn(self) -> Iterator[Stream]:
        """Replies that are being written, then those whose prompts are read, another first."""
        yield from [each for each in self.streams if not each.reading.rows]
        reading = [each for each in self.streams if each.reading.rows]
        if reading:
            self._turn = (self._turn + 1) % len(reading)
            yield from reading[self._turn :] + reading[: self._turn]


def named(error: Exception) -> InferenceError:
    """`error` for a reader: neither a traceback, whose variables hold tokens, nor others' words."""
    if isinstance(error, InferenceError):
        return error.with_traceback(None)
    return ModelError(
        f"The engine stopped this reply on an internal error ({type(error).__name__}). "
        "Ask again; if it stays, restart the daemon."
    )
