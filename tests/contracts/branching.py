"""A `Randomness` that takes every branch, so that a distribution is found exactly.

`branches(run)` calls `run` once for each way in which its draws can fall, and says with which
rational probability. It works from outside, on unchanged code:

- `below(limit)` with a small limit branches over all its values;
- with a large one it returns a `Ticket`, an integer that is not decided yet. Comparing it with a
  number cuts the tickets that are still possible in two and branches over the parts. A sampler that
  walks through cumulative weights therefore branches once for each view, not for each ticket.

A ticket refuses every other use as a number, so code that draws in another way is noticed rather
than enumerated wrongly.
"""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import NoReturn, TypeVar

T = TypeVar("T")

SMALL_LIMIT = 64


class Branching:
    """One path through all draws: it follows `decided`, then always takes the first branch.

    Attributes:
        probability: of the path so far.
        untaken: the decisions that lead to each branch that was passed by beyond `decided`.
    """

    def __init__(self, decided: tuple[int, ...] = ()) -> None:
        self._decided = decided
        self._taken: tuple[int, ...] = ()
        self.probability = Fraction(1)
        self.untaken: list[tuple[int, ...]] = []

    def below(self, limit: int) -> int:
        if limit <= SMALL_LIMIT:
            return self.choose((1,) * limit)
        return Ticket(Undecided(self, 0, limit))

    def choose(self, weights: Sequence[int]) -> int:
        """The index of the branch that this path takes, of branches with these weights."""
        depth = len(self._taken)
        index = self._decided[depth] if depth < len(self._decided) else 0
        if depth >= len(self._decided):
            self.untaken += [(*self._taken, other) for other in range(1, len(weights))]
        self._taken = (*self._taken, index)
        self.probability *= Fraction(weights[index], sum(weights))
        return index


class Undecided:
    """A uniform integer of which only an interval `[low, high)` is known."""

    def __init__(self, path: Branching, low: int, high: int) -> None:
        self._path, self._low, self._high = path, low, high

    def is_below(self, cut: int) -> bool:
        """Whether the integer is below `cut`; branches where both are possible."""
        if cut <= self._low:
            return False
        if cut >= self._high:
            return True
        if self._path.choose((cut - self._low, self._high - cut)) == 0:
            self._high = cut
            return True
        self._low = cut
        return False


class Ticket(int):
    """An undecided integer plus a known offset.

    As a plain number it is far out of range for every use, in case something reads it as one
    behind Python's back, as `list.__getitem__` does.
    """

    _source: Undecided
    _offset: int

    def __new__(cls, source: Undecided, offset: int = 0) -> "Ticket":
        ticket = super().__new__(cls, -(1 << 62))
        ticket._source, ticket._offset = source, offset
        return ticket

    def __add__(self, other: int) -> "Ticket":
        return Ticket(self._source, self._offset + other)

    def __sub__(self, other: int) -> "Ticket":
        return Ticket(self._source, self._offset - other)

    def __lt__(self, other: int) -> bool:
        return self._source.is_below(other - self._offset)

    def __le__(self, other: int) -> bool:
        return self < other + 1

    def __ge__(self, other: int) -> bool:
        return not self < other

    def __gt__(self, other: int) -> bool:
        return not self < other + 1

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("This use of an undecided ticket cannot be enumerated.")

    __radd__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __divmod__ = __rdivmod__ = _refuse
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __pow__ = __rpow__ = _refuse
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __neg__ = __abs__ = _refuse
    __eq__ = __ne__ = __hash__ = __bool__ = __int__ = __float__ = __index__ = _refuse
    __repr__ = __str__ = __format__ = _refuse


def branches(run: Callable[[Branching], T]) -> Iterator[tuple[T, Fraction]]:
    """Each result of `run` with its probability; they sum to 1.

    `run` must do the same things whenever its draws fall alike.
    """
    pending: list[tuple[int, ...]] = [()]
    while pending:
        path = Branching(pending.pop())
        result = run(path)
        pending += path.untaken
        yield result, path.probability


def distribution_of(run: Callable[[Branching], T]) -> dict[T, Fraction]:
    """The exact distribution of what `run` returns."""
    found: dict[T, Fraction] = {}
    for result, probability in branches(run):
        found[result] = found.get(result, Fraction(0)) + probability
    return found
