"""Exact likelihood ratios of augmented transcripts, by enumeration.

Decides, for one system, one course of turns and owner's acts and one class of adjacent stores, how
likely each transcript can be made and how unlikely. What is *not* here: which systems, policies and
strategies (`scenarios`, `mutants`), and what must hold (`checks`).

What is enumerated (GUARANTEE §1):

- an augmented transcript shows, for each turn, the query, the released views, whatever the system
  returned or raised, and the ledger's entries after it. The response text is left out: it is a
  function of the query, the released views and the response model's own chance, so it cannot
  change a ratio (C6, checked for the real gate elsewhere);
- the owner is a *write strategy*: contents may change after each turn as a function of what was
  released. Two adjacent strategies agree outside `I_a` and are arbitrary inside. The highest
  probability of a transcript over all strategies of a class is the product, over turns, of the
  highest conditional probability over stores, because a strategy can choose the store for each
  history; the lowest likewise. So one pass over the tree covers every pair of strategies;
- what the owner does at public moments, opening an epoch or changing the policy, is the same for
  all strategies. The part of a transcript since the open epoch began has extremes of its own.

Ids of entries are random by themselves and are replaced by numbers, so that transcripts which
differ in nothing else are one.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Protocol

from tests.contracts.branching import Branching, distribution_of
from tests.fakes.in_memory_charges import FIRST_EPOCH, InMemoryCharges, numbered_id
from tests.fakes.in_memory_rows import Contents, InMemoryRows
from tests.fakes.kept_notices import KeptNotices
from tests.fakes.naming_scorer import NamingScorer
from tests.fakes.running import run_now

from tactful_core.entries import Entry, EntryId, ViewReleased
from tactful_core.interface import MemoryReader, Ports, Release, Scorer, release_view
from tactful_core.promises import Promises
from tactful_core.values import AppId, SlotName
from tactfuld.inference.fake_embedder import HashEmbedder
from tactfuld.reading import Reading

READING = Reading(HashEmbedder())
"""Read rules of words alone; those do not ask the embedder."""


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


@dataclass(frozen=True, slots=True)
class OwnerAct:
    """What the owner does before a turn: a new epoch, another policy, or both; public."""

    new_epoch: bool = False
    promises: Promises | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """Turns and owner's acts.

    Attributes:
        promises: what is promised before the first act.
        acts: by the number of turns that were taken before.
    """

    promises: Promises
    strategy: Strategy
    turns: int = 4
    acts: Mapping[int, OwnerAct] = field(default_factory=lambda: MappingProxyType({}))

    def promises_at(self, turn: int) -> Promises:
        """What is promised during the turn with this number, from 0."""
        found = self.promises
        for number, act in sorted(self.acts.items()):
            if number <= turn and act.promises is not None:
                found = act.promises
        return found

    def opens_epoch(self, turn: int) -> bool:
        """Whether a new epoch opens just before this turn."""
        return turn in self.acts and self.acts[turn].new_epoch


class TurnRunner(Protocol):
    """How a system answers one turn, given all that was seen before it."""

    def __call__(
        self, turn: Turn, history: Transcript, promises: Promises, ports: Ports
    ) -> Coroutine[object, None, tuple[Release, ...]]: ...


async def algorithm_1(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """The real thing: `release_view` for each active slot, in the order of the request."""
    reads = [READING.of(promises.layout.slot(name), turn.query) for name in turn.slots]
    return tuple(
        [await release_view(turn.app, turn.query, slot, promises, ports) for slot in reads]
    )


@dataclass(frozen=True, slots=True)
class System:
    """A whole private memory interface; the default one is `tactful_core` on fakes."""

    run_turn: TurnRunner = algorithm_1
    charges: Callable[[tuple[Entry, ...]], InMemoryCharges] = InMemoryCharges
    memory: Callable[[Contents], MemoryReader] = InMemoryRows
    scorer: Scorer = field(default_factory=NamingScorer)

    @property
    def knows_history_by_entries(self) -> bool:
        """Whether a turn depends on earlier ones through the ledger alone, as Algorithm 1 does."""
        return self.run_turn is algorithm_1


@dataclass(frozen=True, slots=True)
class Extremes:
    """How likely and how unlikely write strategies of one class can make something."""

    highest: Fraction = Fraction(1)
    lowest: Fraction = Fraction(1)

    def then(self, step: "Extremes") -> "Extremes":
        return Extremes(self.highest * step.highest, self.lowest * step.lowest)


@dataclass(frozen=True, slots=True)
class Reached:
    """The extremes of a transcript, and of the part of it that belongs to the open epoch."""

    whole: Extremes = field(default_factory=Extremes)
    epoch: Extremes = field(default_factory=Extremes)


Tree = dict[Transcript, Reached]


def one_turn(
    system: System,
    turn: Turn,
    history: Transcript,
    promises: Promises,
    contents: Contents,
    *,
    new_epoch: bool = False,
) -> dict[Seen, Fraction]:
    """The exact distribution of what is seen of a turn, after `history`, under one store."""
    entries = history[-1].entries if history else FIRST_EPOCH

    def run(randomness: Branching) -> Seen:
        charges = system.charges(entries)
        if new_epoch:
            charges.open_next_epoch()
        ports = Ports(charges, system.memory(contents), system.scorer, randomness, KeptNotices())
        try:
            releases = run_now(system.run_turn(turn, history, promises, ports))
        except Exception as problem:  # noqa: BLE001  an app sees that a turn failed, and how
            failure = f"{type(problem).__name__}: {problem}"
            return Seen(turn, (), failure, renumbered(charges.entries))
        return Seen(turn, releases, None, renumbered(charges.entries))

    return distribution_of(run)


def extremes(system: System, course: Course, stores: tuple[Contents, ...]) -> Tree:
    """Every transcript of 1 to `course.turns` turns that some store of the class makes possible."""
    found: Tree = {}
    tree: Tree = {(): Reached()}
    for number in range(course.turns):
        step = _Step(system, course, number, stores)
        fresh = course.opens_epoch(number)
        tree = {
            (*history, seen): Reached(
                so_far.whole.then(now), now if fresh else so_far.epoch.then(now)
            )
            for history, so_far in tree.items()
            for seen, now in step.after(history).items()
        }
        found |= tree
    return found


class _Step:
    """All that can be seen of the turn with one number, found once for equal ledgers."""

    def __init__(
        self, system: System, course: Course, number: int, stores: tuple[Contents, ...]
    ) -> None:
        self._system = system
        self._course = course
        self._number = number
        self._stores = stores
        self._found: dict[object, dict[Seen, Extremes]] = {}

    def after(self, history: Transcript) -> dict[Seen, Extremes]:
        turn = self._course.strategy(history)
        by_entries = self._system.knows_history_by_entries
        key = (turn, history[-1].entries if by_entries and history else history)
        if key not in self._found:
            self._found[key] = self._extremes_of(turn, history)
        return self._found[key]

    def _extremes_of(self, turn: Turn, history: Transcript) -> dict[Seen, Extremes]:
        under = [
            one_turn(
                self._system,
                turn,
                history,
                self._course.promises_at(self._number),
                contents,
                new_epoch=self._course.opens_epoch(self._number),
            )
            for contents in self._stores
        ]
        found = {seen for distribution in under for seen in distribution}
        return {
            seen: Extremes(
                max(distribution.get(seen, Fraction(0)) for distribution in under),
                min(distribution.get(seen, Fraction(0)) for distribution in under),
            )
            for seen in found
        }


def renumbered(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The entries with ids that say their number; a view still names the charge that paid it."""
    ids = {entry.id: numbered_id(number) for number, entry in enumerate(entries, start=1)}
    return tuple(
        replace(entry, id=ids[entry.id], charge=ids.get(entry.charge, _UNKNOWN))
        if isinstance(entry, ViewReleased)
        else replace(entry, id=ids[entry.id])
        for entry in entries
    )


_UNKNOWN = EntryId("a charge that was never written")
