"""Memories that seem to imply an attribute which does not cover them: the coverage lint.

Decides which attributes a warning names and which shelf it advises. What is *not* here: what a text
seems to imply (`coverage`), whether the owner follows the advice.

The promise for an attribute holds for the shelves that it lists. A text that implies it elsewhere
is outside of that promise, and only its owner can tell whether that matters.

Invariants:

- nothing is refused, moved or kept because of a warning;
- for the owner's eyes only; nothing that an app can see depends on it;
- the shelf that is advised takes no protection away (C7).

Everything here computes: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tactful_core.layout import Attribute, Layout, Shelf
from tactful_core.sealing import Memory
from tactful_core.values import Position, Secret
from tactfuld.coverage import Detector, Sureness
from tactfuld.inference.embedder import Embedder
from tactfuld.proposals import proposed


@dataclass(frozen=True, slots=True)
class Uncovered:
    """What a text seems to imply and its shelf is not covered by, and the likeliest shelf that is.

    `better` is covered by all of this and by all that covers the shelf; None if no shelf is.
    """

    attributes: Mapping[str, Sureness]
    better: Shelf | None


@dataclass(frozen=True, slots=True)
class Finding:
    """A memory that the owner may want to move."""

    position: Position
    memory: Memory
    uncovered: Uncovered


@dataclass(frozen=True, slots=True)
class CoverageLint:
    """Looks at texts for the owner of one policy."""

    layout: Layout
    detector: Detector
    embedder: Embedder

    @property
    def looked_for(self) -> tuple[str, ...]:
        """The attributes of the policy that it knows, in the policy's order."""
        known = self.detector.attributes
        return tuple(each.name for each in self.layout.attributes if each.name in known)

    def uncovered(self, texts: Sequence[str], shelf: Shelf) -> Uncovered | None:
        """What is to be said about texts that are to stand on a shelf; None if nothing is."""
        implied: dict[str, Sureness] = {}
        for each in self.detector.implied(texts):
            implied |= {
                name: sureness
                for name, sureness in each.items()
                if implied.get(name) is not Sureness.LIKELY
            }
        return self._uncovered(" ".join(texts), implied, shelf)

    def findings(self, full: Sequence[tuple[Position, Memory]]) -> tuple[Finding, ...]:
        """What is to be said about memories, in order of position."""
        standing_on = {p: shelf for shelf in self.layout.shelves for p in shelf.positions}
        implied = self.detector.implied([memory.text for _, memory in full])
        found = []
        for (position, memory), each in zip(full, implied, strict=True):
            said = self._uncovered(memory.text, each, standing_on[position])
            if said is not None:
                found.append(Finding(position, memory, said))
        return tuple(found)

    def _uncovered(
        self, text: str, implied: Mapping[str, Sureness], shelf: Shelf
    ) -> Uncovered | None:
        attributes = self.layout.attributes
        bare = [each for each in attributes if each.name in implied and not _covers(each, shelf)]
        if not bare:
            return None
        wanted = [*bare, *(each for each in attributes if _touches(each, shelf))]
        better = next(
            (
                other
                for other in proposed(Secret(text), self.layout, self.embedder)
                if all(_covers(each, other) for each in wanted)
            ),
            None,
        )
        return Uncovered({each.name: implied[each.name] for each in bare}, better)


def _covers(attribute: Attribute, shelf: Shelf) -> bool:
    return attribute.positions.issuperset(shelf.positions)


def _touches(attribute: Attribute, shelf: Shelf) -> bool:
    return not attribute.positions.isdisjoint(shelf.positions)
