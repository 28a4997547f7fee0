"""A sequence group: the rows of one fused answer, which are computed side by side.

Decides what a group is and how much of the KV cache it takes. Not here: what the rows say
(tactfuld.fusing), how they are computed (lane), how a token is drawn from them (tactful_core).

Invariants
- All rows have the same length, and how many there are, how long they are and how much of them is
  shared is public: the work that a group makes is a function of these numbers and of drawn tokens.
- What rows share is stated and not looked for: two rows may be alike further on, and whether they
  are depends on memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from tactfuld.inference.errors import PromptTooLong
from tactfuld.inference.rows import Row

GroupDraw = Callable[[npt.NDArray[np.float32]], int]
"""Given logits of shape (1+m, vocabulary), row 0 public, returns the id of the next token.

It is called on the engine's thread. The array is llama.cpp's own and changes after the call.
"""

# One row of each must fit into one batch, beside a row of the same for each shared prefix.
MOST_ROWS: Final = 32
# How many contexts' worth of KV cells all groups together may take.
GROUP_CONTEXTS: Final = 4


@dataclass(frozen=True, slots=True)
class GroupShape:
    """The public numbers of a group: how many `rows`, tokens of each, and of those all share."""

    rows: int
    length: int
    shared: int

    def cells(self, max_tokens: int) -> int:
        """KV cells that it takes with a reply of so many tokens."""
        return self.shared + self.rows * (self.length - self.shared + max_tokens)

    def refuse_unless_it_fits(self, max_tokens: int, context_length: int) -> None:
        """Raise `PromptTooLong` for a shape that is never computed with this context length."""
        too_long = self.length + max_tokens > context_length
        if too_long or self.cells(max_tokens) > GROUP_CONTEXTS * context_length:
            raise PromptTooLong(
                prompt_tokens=self.length, reply_tokens=max_tokens, context_length=context_length
            )


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """Prompts of equal length as token ids, row 0 the public one.

    `shared` is how many tokens all of them begin with, from public input alone: these are computed
    once. It is less than the length, so that every row has a token of its own to go on from.
    """

    rows: tuple[tuple[int, ...], ...] = field(repr=False)
    shared: int = 0

    def __post_init__(self) -> None:
        if not 1 <= len(self.rows) <= MOST_ROWS:
            raise ValueError(f"A group has 1 to {MOST_ROWS} rows; {len(self.rows)} were given.")
        if len({len(row) for row in self.rows}) != 1 or not self.rows[0]:
            raise ValueError("All rows of a group must have the same length, of at least 1 token.")
        if not 0 <= self.shared < len(self.rows[0]):
            raise ValueError("The shared part of a group must be shorter than its rows.")
        if len({row[: self.shared] for row in self.rows}) != 1:
            raise ValueError("The rows of a group differ within the part that they share.")

    @property
    def shape(self) -> GroupShape:
        """Its public numbers."""
        return GroupShape(len(self.rows), len(self.rows[0]), self.shared)

    def reading(self) -> list[Row]:
        """The rows of llama.cpp that read all but the last token of each prompt.

        What is shared first, in every sequence at once; then each prompt's own part.
        """
        public, everybody = self.rows[0], tuple(range(len(self.rows)))
        rows = [Row(public[at], at, everybody, logits=False) for at in range(self.shared)]
        for number, prompt in enumerate(self.rows):
            own = range(self.shared, len(prompt) - 1)
            rows += [Row(prompt[at], at, (number,), logits=False) for at in own]
        return rows

    def last(self) -> tuple[int, ...]:
        """The last token of each prompt."""
        return tuple(row[-1] for row in self.rows)
