"""Sources of `Randomness` without chance."""

from collections.abc import Iterable


class ChosenTickets:
    """Returns the given numbers in turn, in range or not, and keeps the limits asked for.

    Raises:
        StopIteration: on a draw after the last number.
    """

    def __init__(self, tickets: Iterable[int]) -> None:
        self._tickets = iter(tickets)
        self.limits: list[int] = []

    def below(self, limit: int) -> int:
        self.limits.append(limit)
        return next(self._tickets)


class HighestTicket:
    """Always the last of what can be drawn: the last view of a vocabulary."""

    def below(self, limit: int) -> int:
        return limit - 1
