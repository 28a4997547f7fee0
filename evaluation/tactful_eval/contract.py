"""The reference numbers of GUARANTEE §4, computed by running the core and three broken variants.

Decides the scenario: every target turn reads one position that two attributes, a and b, both cover;
between target turns the app asks about something that no attribute covers. What is *not* here: the
full contract, which tests enumerate (`tests/contracts`).

- `online`: the core as it is. The others differ from it in one thing each:
- `IncompleteCharge` checks and charges a and b in turn, never both;
- `NoCap` charges, and admits whatever comes;
- `CappedArgmax` keeps the cap and releases the best view without noise.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, replace

from tactful_core.allocation import Online
from tactful_core.entries import (
    Charge,
    Entry,
    EntryId,
    EpochOpened,
    Mechanism,
    UnprotectedRead,
    ViewReleased,
)
from tactful_core.interface import Ports, Release, release_view
from tactful_core.layout import GENERIC, Attribute, Layout, Shelf, Slot, View
from tactful_core.ledger import (
    Admitted,
    Ledger,
    Refusal,
    Refused,
    UnreadableLedger,
    refusal,
    replay,
)
from tactful_core.promises import Grant, Promises
from tactful_core.sampling import SystemRandomness
from tactful_core.scoring import Evidence, Scores, scores_from
from tactful_core.values import (
    AppId,
    AttributeName,
    Position,
    Secret,
    ShelfName,
    SlotName,
    ViewName,
    epsilon_of,
    units_from_epsilon,
)
from tactful_eval.accountant import true_charge
from tactful_eval.benchmark import cases, totals

APP, A, B = AppId("asker"), AttributeName("a"), AttributeName("b")
TARGET, OTHER = SlotName("target"), SlotName("other")
TELLING, SILENT = "telling", ""
"""What the position that both attributes cover holds in M and in M'."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The numbers of GUARANTEE §4 by default; half of the turns are target turns."""

    cap: str = "2"
    charges_per_cap: int = 3
    target_turns: int = 8

    @property
    def turns(self) -> int:
        """`T`."""
        return 2 * self.target_turns

    def promises(self) -> Promises:
        both = frozenset({Position(1)})
        cap = units_from_epsilon(self.cap)
        slots = (_slot(TARGET, 1, "special"), _slot(OTHER, 2, "special"))
        return Promises(
            layout=Layout(slots, (Attribute(A, both, cap), Attribute(B, both, cap))),
            allocation=Online(self.charges_per_cap),
            mechanism=Mechanism.EXPONENTIAL,
            grants=(Grant(APP, frozenset({TARGET, OTHER})),),
            digest="contract",
        )


@dataclass(frozen=True, slots=True)
class Reference:
    """Epsilon that the transcript really cost attribute a; a worst likelihood ratio; an AUC."""

    online: float
    incomplete_charge: float
    capped_argmax: float
    no_cap: float
    score_channel_auc: float


class Charges:
    """A `ChargeStore` in memory, as the core wants it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = [EpochOpened(EntryId("opened"), 1, 0)]

    def snapshot(self) -> Ledger | UnreadableLedger:
        return replay(self.entries)

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        reason = refusal(self.snapshot(), charge, promises)
        return Refused(reason) if reason is not None else self.kept(charge)

    async def record(self, entry: UnprotectedRead | ViewReleased) -> bool:
        self.entries.append(entry)
        return True

    def kept(self, charge: Charge) -> Admitted:
        self.entries.append(charge)
        return Admitted(charge, len(self.entries))


class IncompleteCharge(Charges):
    """Checks and charges one attribute of the charge set, another one each time."""

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        names = sorted(charge.charged)
        paying = names[(len(self.entries) - 1) % len(names)]
        if self.shown(paying) + charge.units > promises.layout.attribute(paying).cap:
            return Refused(Refusal.CAP)
        return self.kept(replace(charge, charged=frozenset({paying})))

    def shown(self, name: AttributeName) -> int:
        """What this ledger believes the attribute to have spent, in units."""
        charges = [entry for entry in self.entries if isinstance(entry, Charge)]
        return sum(charge.units for charge in charges if name in charge.charged)


class NoCap(Charges):
    """Admits everything."""

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        return self.kept(charge)


class Rows:
    """A `MemoryReader` whose every position holds one text."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def open_rows(self, read_set: tuple[Position, ...]) -> Secret[tuple[str, ...]]:
        return Secret((self._text,) * len(read_set))


class Judge:
    """A `Scorer`: what tells speaks for the special view, silence for the generic one."""

    async def relevance(self, query: str, slot: Slot) -> tuple[float, ...]:
        return (0.5,) * len(slot.vocabulary)

    async def evidence(self, slot: Slot, rows: Secret[tuple[str, ...]]) -> Evidence:
        special = float(TELLING in rows.reveal())
        found: tuple[float, ...] = (1.0 - special, special)
        return Evidence(compatibility=Secret(found), specificity=Secret(found))


class Silence:
    """`OwnerNotices` that nobody reads."""

    def scoring_failed(self, slot: SlotName) -> None:
        raise AssertionError("Nothing in this scenario fails to score.")


def reference(scenario: Scenario) -> Reference:
    """All five numbers; the last one is about the allocation benchmark, whatever the scenario."""
    return Reference(
        online=true_cost(scenario, Charges()),
        incomplete_charge=true_cost(scenario, IncompleteCharge()),
        capped_argmax=asyncio.run(argmax_ratio(scenario)),
        no_cap=true_cost(scenario, NoCap()),
        score_channel_auc=score_channel_auc(),
    )


def true_cost(scenario: Scenario, charges: Charges) -> float:
    """The scenario played with this store; what it really cost attribute a, as an epsilon."""
    promises = scenario.promises()
    asyncio.run(_played(scenario, promises, ports_of(charges, TELLING)))
    units = true_charge(charges.entries, promises.layout.attribute(A))
    return epsilon_of(units)


async def argmax_ratio(scenario: Scenario) -> float:
    """The worst likelihood ratio of transcripts if admitted turns release the best view.

    Without noise each store has one transcript, of probability 1.
    """
    seen = [await _best_views(scenario, text) for text in (TELLING, SILENT)]
    return 1.0 if seen[0] == seen[1] else math.inf


def score_channel_auc() -> float:
    """How well the top score alone tells M from M', over all pairs and questions; ties half."""
    telling, neutral = (
        [
            max(totals(case.scores(relevance, telling=which)))
            for case in cases()
            for relevance in case.relevance
        ]
        for which in (True, False)
    )
    wins = sum((high > low) + (high == low) / 2 for high in telling for low in neutral)
    return wins / (len(telling) * len(neutral))


def ports_of(charges: Charges, text: str) -> Ports:
    """The core's ports over this store and a memory of that text."""
    return Ports(charges, Rows(text), Judge(), SystemRandomness(), Silence())


async def _played(scenario: Scenario, promises: Promises, ports: Ports) -> list[Release]:
    """`T` turns, every second one a target turn."""
    slots = (promises.layout.slot(TARGET), promises.layout.slot(OTHER))
    return [
        await release_view(APP, "What now?", slots[turn % 2], promises, ports)
        for turn in range(scenario.turns)
    ]


async def _best_views(scenario: Scenario, text: str) -> list[ViewName]:
    """What the capped argmax shows: the best view wherever the core would have drawn one."""
    promises, charges = scenario.promises(), Charges()
    ports = ports_of(charges, text)
    shown = []
    for release in await _played(scenario, promises, ports):
        slot = promises.layout.slot(release.slot)
        best = await _scores(ports, slot)
        shown.append(slot.vocabulary[best.best()].name if release.charged else GENERIC)
    return shown


async def _scores(ports: Ports, slot: Slot) -> Scores:
    rows = await ports.memory.open_rows(slot.positions)
    relevance = await ports.scorer.relevance("What now?", slot)
    return scores_from(relevance, await ports.scorer.evidence(slot, rows))


def _slot(name: SlotName, position: int, special: str) -> Slot:
    shelf = Shelf(ShelfName(f"{name}.all"), (Position(position),), tokens=8)
    views = (View(GENERIC, "Answer for anybody."), View(ViewName(special), "Answer for some."))
    return Slot(name, "a topic", (shelf,), views)
