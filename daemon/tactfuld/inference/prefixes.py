"""Prefixes: what was computed of a thread's newest request, kept for the next one.

Decides: what is kept, for whom, and what goes first where room is needed. Not here: how much room
there is (scheduler), which tokens a prompt has (chat_template).

Invariants (GUARANTEE §5)
- A prefix serves its own app's own thread and nothing else. It holds the ids of what that app asked
  and was told, which it has seen, and of the public words around them.
- Token ids decide how much of it fits; what they were computed from is not compared.
- What is kept and what goes follows from requests of apps and from public sizes: the thread that
  was idle longest goes first.
- A sequence is in use by one prefix or one reply.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tactfuld.inference.requests import Source

MOST_PREFIXES: Final = 8


@dataclass(frozen=True, slots=True)
class Prefix:
    """Tokens that are computed in the cache, and the number of their sequence there."""

    sequence: int
    tokens: tuple[int, ...] = field(repr=False)

    def common(self, tokens: list[int]) -> int:
        """How many tokens it has in common with the beginning of `tokens`."""
        for place, (mine, other) in enumerate(zip(self.tokens, tokens, strict=False)):
            if mine != other:
                return place
        return min(len(self.tokens), len(tokens))


class Prefixes:
    """The prefix of each thread that has one, the one that was idle longest first."""

    def __init__(self, most: int = MOST_PREFIXES) -> None:
        """At most so many are kept."""
        self._most = most
        self._kept: dict[Source, Prefix] = {}

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def cells(self) -> int:
        """Tokens of all of them."""
        return sum(len(prefix.tokens) for prefix in self._kept.values())

    def take(self, source: Source) -> Prefix | None:
        """The prefix of a thread, which is not kept any more."""
        return self._kept.pop(source, None)

    def keep(self, source: Source, prefix: Prefix) -> tuple[Prefix, ...]:
        """Keep a thread's newest; returns what is not kept: a request alone has no thread."""
        if source.thread is None or self._most == 0:
            return (prefix,)
        gone = self.take(source)
        self._kept[source] = prefix
        dropped = self.drop_oldest() if len(self._kept) > self._most else None
        return tuple(each for each in (gone, dropped) if each is not None)

    def drop_oldest(self) -> Prefix | None:
        """The prefix that was idle longest, which is not kept any more."""
        if not self._kept:
            return None
        return self._kept.pop(next(iter(self._kept)))

    def drop(self, covers: Callable[[Source], bool]) -> tuple[Prefix, ...]:
        """The prefixes of some threads, which are not kept any more."""
        return tuple(self._kept.pop(each) for each in [*self._kept] if covers(each))

    def clear(self) -> None:
        """Keep none."""
        self._kept.clear()
