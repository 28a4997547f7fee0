"""Exact likelihood ratios of augmented transcripts, by enumeration.

Decides, for one system, one adaptive strategy of colluding apps and one class of adjacent stores,
how likely each transcript can be made and how unlikely. What is *not* here: which systems, policies
and strategies (`scenarios`, `mutants`), and what must hold (`checks`).

What is enumerated (GUARANTEE §1):

- an augmented transcript shows, for each turn, the query, the released views, whatever the system
  returned or raised, and the ledger's entries after it. The response text is left out: it is a
  function of the query, the released views and the response model's own chance, so it cannot
  change a ratio (C6, checked for the real gate elsewhere);
- the owner is a *write strategy*: contents may change after each turn as a function of what was
  released. Two adjacent strategies agree outside `I_a` and are arbitrary inside. The highest
  probability of a transcript over all strategies of a class is the product, over turns, of the
  highest conditional probability over stores, because a strategy can choose the store for each
  history; the lowest likewise. So one pass over the tree covers every pair of strategies.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from tests.contracts.branching import Branching, distribution_of
from tests.fakes.in_memory_charges import FIRST_EPOCH, InMemoryCharges
from tests.fakes.in_memory_rows import Contents, InMemoryRows
from tests.fakes.kept_notices import KeptNotices
from tests.fakes.naming_scorer import NamingScorer
from tests.fakes.running import run_now

from tactful_core.entries import Entry
from tactful_core.interface import MemoryReader, Ports, Release, Scorer, release_view
from tactful_core.layout import Promises
from tactful_core.values import AppId, SlotName


@dataclass(frozen=True, slots=True)
class Turn:
    """One request; `cancelled` means that the app went away once it had seen the views."""

    app: AppId
    query: str
    slots: tuple[SlotName, ...]
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What apps together observe of one turn, with all that augmentation shows."""

    turn: Turn
    releases: tuple[Release, ...]
    failure: str | None
    entries: tuple[Entry, ...]


Transcript = tuple[Seen, ...]
Strategy = Callable[[Transcript], Turn]
"""The next request of all apps together: a function of what they have seen."""


class TurnRunner(Protocol):
    """How a system answers one turn, given all that was seen before it."""

    def __call__(
        self, turn: Turn, history: Transcript, promises: Promises, ports: Ports
    ) -> Coroutine[object, None, tuple[Release, ...]]: ...


async def algorithm_1(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """The real thing: `release_view` for each active slot, in the order of the request."""
    return tuple(
        [
            await release_view(turn.app, turn.query, promises.layout.slot(name), promises, ports)
            for name in turn.slots
        ]
    )


@dataclass(frozen=True, slots=True)
class System:
    """A whole private memory interface; the default one is `tactful_core` on fakes."""

    run_turn: TurnRunner = algorithm_1
    charges: Callable[[tuple[Entry, ...]], InMemoryCharges] = InMemoryCharges
    memory: Callable[[Contents], MemoryReader] = InMemoryRows
    scorer: Scorer = field(default_factory=NamingScorer)


@dataclass(frozen=True, slots=True)
class Extremes:
    """How likely and how unlikely write strategies of one class can make a transcript."""

    highest: Fraction
    lowest: Fraction


def one_turn(
    system: System, turn: Turn, history: Transcript, promises: Promises, contents: Contents
) -> dict[Seen, Fraction]:
    """The exact distribution of what is seen of a turn, after `history`, under one store."""
    entries = history[-1].entries if history else FIRST_EPOCH

    def run(randomness: Branching) -> Seen:
        charges = system.charges(entries)
        ports = Ports(charges, system.memory(contents), system.scorer, randomness, KeptNotices())
        try:
            releases = run_now(system.run_turn(turn, history, promises, ports))
        except Exception as problem:  # noqa: BLE001  an app sees that a turn failed, and how
            return Seen(turn, (), f"{type(problem).__name__}: {problem}", charges.entries)
        return Seen(turn, releases, None, charges.entries)

    return distribution_of(run)


def extremes(
    system: System,
    strategy: Strategy,
    stores: tuple[Contents, ...],
    promises: Promises,
    turns: int,
) -> dict[Transcript, Extremes]:
    """Every transcript of 1 to `turns` turns that some store of the class makes possible."""
    found: dict[Transcript, Extremes] = {}
    tree: dict[Transcript, Extremes] = {(): Extremes(Fraction(1), Fraction(1))}
    for _ in range(turns):
        tree = {
            (*history, seen): Extremes(so_far.highest * step.highest, so_far.lowest * step.lowest)
            for history, so_far in tree.items()
            for seen, step in _step(system, strategy(history), history, stores, promises).items()
        }
        found |= tree
    return found


def _step(
    system: System,
    turn: Turn,
    history: Transcript,
    stores: tuple[Contents, ...],
    promises: Promises,
) -> dict[Seen, Extremes]:
    under = [one_turn(system, turn, history, promises, contents) for contents in stores]
    found = {seen for distribution in under for seen in distribution}
    return {
        seen: Extremes(
            max(distribution.get(seen, Fraction(0)) for distribution in under),
            min(distribution.get(seen, Fraction(0)) for distribution in under),
        )
        for seen in found
    }
