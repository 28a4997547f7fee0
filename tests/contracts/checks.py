"""What every private memory interface must pass: the contract C1 to C7 as decidable checks.

Decides whether a system (`enumeration.System`) keeps the promise on small policies. Each check
yields a sentence for whatever it finds wrong. What is *not* here: the systems, the real one
(`test_contract`) and those broken on purpose (`mutants`).

The central check is sharper than Theorem 1: the likelihood ratio of each transcript, over all
adjacent pairs of write strategies, is at most `e^{L_a}` for what the ledger says *that transcript*
cost, in the open epoch and over all epochs. With `L_a ≤ B_a` it implies the theorem, and with
`L_a = 0` it is Lemma 1: equal rationals.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from tests.contracts.certified_exp import exp_at_least
from tests.contracts.charge_store import charge_for
from tests.contracts.enumeration import Extremes, System, Transcript, Turn, extremes, one_turn
from tests.contracts.scenarios import Scenario
from tests.fakes.event_log import EventLog
from tests.fakes.fixed_randomness import HighestTicket
from tests.fakes.in_memory_charges import FIRST_EPOCH, InMemoryCharges
from tests.fakes.kept_notices import KeptNotices
from tests.fakes.running import Pause, interleave, run_now
from tests.fakes.small_policies import (
    COACH,
    DEBT,
    FINANCE,
    FOOD,
    HEALTH,
    MEALS,
    figure_two,
)

from tactful_core.allocation import Online, Standing
from tactful_core.entries import Charge, Entry, UnprotectedRead, ViewReleased
from tactful_core.interface import ChargeStore, Ports, Release
from tactful_core.layout import GENERIC, Attribute
from tactful_core.ledger import Admitted, Ledger, Refused, UnreadableLedger, replay
from tactful_core.promises import Promises
from tactful_core.values import UNITS_PER_EPSILON, Position, Units

Check = Callable[[System], Iterable[str]]

FOOD_QUESTION = Turn(MEALS, "dinner", (FOOD,))
ONE_CHARGE = Online(1)


# ---- the likelihood ratio -----------------------------------------------------------------------


def unpaid_differences(system: System, scenario: Scenario, attribute: Attribute) -> Iterator[str]:
    """What is wrong with one attribute's exact likelihood ratios, transcript by transcript.

    `attribute` is what it is in the end, after all that the owner changed.
    """
    where = f"{scenario.name}, {attribute.name}"
    tree = extremes(system, scenario.course, scenario.stores(attribute.name))
    for transcript, found in tree.items():
        yield from (
            f"{where}: {problem}" for problem in _above_cap(transcript, scenario, attribute)
        )
        ledger = replay(transcript[-1].entries)
        spent = ledger.spent(attribute)
        # After a read without protection every ratio is allowed: its loss is infinite.
        if not ledger.exposed(attribute) and not _within(found.epoch, spent):
            yield f"{where}: {_ratio(found.epoch)} exceeds e^L for the {spent} units charged."
        lifetime, open_reads = ledger.lifetime_spent(attribute), _open_reads(transcript)
        if open_reads.isdisjoint(attribute.positions) and not _within(found.whole, lifetime):
            yield f"{where}: {_ratio(found.whole)} exceeds e^L for the lifetime's charges."


def ratio_within_charges(scenarios: Iterable[Scenario]) -> Check:
    """Theorem 1 and Lemma 1 for every attribute of every scenario."""

    def check(system: System) -> Iterator[str]:
        for scenario in scenarios:
            for attribute in scenario.attributes:
                yield from unpaid_differences(system, scenario, attribute)

    return check


def _above_cap(transcript: Transcript, scenario: Scenario, final: Attribute) -> Iterator[str]:
    """Whether the last turn took an attribute, as it was then, above its cap.

    What was spent before can be above it, by an act of the owner; then nothing may be added.
    """
    course, number = scenario.course, len(transcript) - 1
    layout = course.promises_at(number).layout
    now = replay(transcript[-1].entries)
    if now.epoch != 1 + sum(course.opens_epoch(turn) for turn in range(number + 1)):
        yield "an epoch was opened that the owner did not open."
    before = replay(transcript[-2].entries if len(transcript) > 1 else FIRST_EPOCH)
    for attribute in layout.attributes:
        earlier = before.spent(attribute) if before.epoch == now.epoch else 0
        spent = now.spent(attribute)
        if attribute.name == final.name and spent > max(earlier, attribute.cap):
            yield f"{spent} units are charged under a cap of {attribute.cap}."


def _open_reads(transcript: Transcript) -> frozenset[Position]:
    """All positions that were ever read without protection."""
    reads = (e.positions for e in transcript[-1].entries if isinstance(e, UnprotectedRead))
    return frozenset[Position]().union(*reads)


def _within(found: Extremes, loss: Units) -> bool:
    bound = exp_at_least(Fraction(loss, UNITS_PER_EPSILON))
    return found.highest <= bound * found.lowest


def _ratio(found: Extremes) -> str:
    if found.lowest == 0:
        return "an infinite likelihood ratio"
    return f"a likelihood ratio of {float(found.highest / found.lowest):.6g}"


# ---- C5: one durable transaction before anything is read ----------------------------------------


def charge_precedes_reading(system: System) -> Iterator[str]:
    """Nothing is read before its charge is written, and nothing at all where it was refused."""
    log = EventLog()
    charges = system.charges(FIRST_EPOCH)
    ports = log.around(_ports(system, charges))
    for refused in (False, True):
        log.events.clear()
        run_now(system.run_turn(FOOD_QUESTION, (), figure_two(allocation=ONE_CHARGE), ports))
        read = _first(log.events, "rows opened", "view drawn")
        if refused and read < len(log.events):
            yield "A refused request opened rows or drew a view."
        if not refused and not _first(log.events, "charge written") < read:
            yield "Rows were opened or a view drawn before the charge was written."


def refusal_charges_nobody(system: System) -> Iterator[str]:
    """Where debt is full and diabetes is not, a question about food charges neither."""
    promises = figure_two(allocation=ONE_CHARGE)
    cap = promises.layout.attribute(DEBT).cap
    yield from _refused(system, FOOD_QUESTION, (*FIRST_EPOCH, _finance_charge(cap)), promises)


def quota_is_kept(system: System) -> Iterator[str]:
    """An app whose quota is used up gets the generic view, and nobody is charged."""
    promises = figure_two(coach_quota={"debt": "1"})
    used = (*FIRST_EPOCH, _finance_charge(Units(UNITS_PER_EPSILON)))
    yield from _refused(system, Turn(COACH, "dinner", (FOOD,)), used, promises)


def unreadable_ledger_admits_nothing(system: System) -> Iterator[str]:
    """A ledger that cannot be read counts as exhausted for every attribute."""
    charges = system.charges(FIRST_EPOCH)
    charges.lose_a_row()
    turn = Turn(MEALS, "dinner", (HEALTH, FOOD, FINANCE))
    releases = run_now(system.run_turn(turn, (), figure_two(), _ports(system, charges)))
    if not _all_generic(releases) or charges.entries != FIRST_EPOCH:
        yield "An unreadable ledger admitted a charge."


def interleaved_requests_stay_within_caps(system: System) -> Iterator[str]:
    """Two requests at once never overspend, however their steps interleave."""
    promises = figure_two(allocation=ONE_CHARGE)
    for order in product((0, 1), repeat=6):
        ledger = replay(_after_two_at_once(system, promises, order).entries)
        if any(ledger.spent(a) > a.cap for a in promises.layout.attributes):
            yield f"Two requests, interleaved as {order}, overspent a cap."


def a_share_is_for_one_slot(system: System) -> Iterator[str]:
    """Two requests at once do not use up what other slots may spend (`Standing`)."""
    promises = figure_two(allocation=Standing())
    finance = Turn(MEALS, "rent", (FINANCE,))
    for order in product((0, 1), repeat=6):
        charges = _after_two_at_once(system, promises, order)
        run_now(system.run_turn(finance, (), promises, _ports(system, charges)))
        if FINANCE not in replay(charges.entries).charges:
            yield f"Two requests for food, interleaved as {order}, left finance nothing."


# ---- C3: what is used again was drawn and paid for ----------------------------------------------


def standing_views_are_paid_once(system: System) -> Iterator[str]:
    """With `Standing`, a view that is not generic is of a group that a written charge bought."""
    promises = figure_two(allocation=Standing())
    charges = system.charges(FIRST_EPOCH)
    for app in (MEALS, COACH, MEALS):
        turn = Turn(app, "budget", (FOOD, HEALTH))
        releases = run_now(system.run_turn(turn, (), promises, _ports(system, charges)))
        paid = {entry.id for entry in charges.entries if isinstance(entry, Charge)}
        bought = {
            entry.slot
            for entry in charges.entries
            if isinstance(entry, ViewReleased) and entry.charge in paid and entry.view != GENERIC
        }
        for release in releases:
            if release.view.name != GENERIC and release.slot not in bought:
                yield f"A view of {release.slot} was released that no charge had bought."


# ---- C4: an app's own queries, and views released to any of them --------------------------------


def only_own_queries_count(system: System) -> Iterator[str]:
    """What an app gets does not depend on the text of another app's query.

    Released views of all apps may count, and a standing view is released together with the public
    set that it was drawn from; so only histories that released the same are compared.
    """
    for promises in (figure_two(), figure_two(allocation=Standing(candidates=3))):
        chances: dict[object, list[dict[tuple[Release, ...], Fraction]]] = {}
        for text in ("budget", "low_sugar"):
            for first in one_turn(system, Turn(COACH, text, (FOOD,)), (), promises, {}):
                second = one_turn(system, FOOD_QUESTION, (first,), promises, {})
                after = {seen.releases: chance for seen, chance in second.items()}
                chances.setdefault((first.releases, first.entries), []).append(after)
        if any(after != group[0] for group in chances.values() for after in group):
            yield "The text of another app's query changed the chance of a view."


# ---- all of them --------------------------------------------------------------------------------

SINGLE_TURN_CHECKS: tuple[Check, ...] = (
    charge_precedes_reading,
    refusal_charges_nobody,
    quota_is_kept,
    unreadable_ledger_admits_nothing,
    interleaved_requests_stay_within_caps,
    a_share_is_for_one_slot,
    standing_views_are_paid_once,
    only_own_queries_count,
)


def _refused(
    system: System, turn: Turn, entries: tuple[Entry, ...], promises: Promises
) -> Iterator[str]:
    charges = system.charges(entries)
    releases = run_now(system.run_turn(turn, (), promises, _ports(system, charges)))
    if charges.entries != entries:
        yield "A request that did not fit was charged to somebody."
    if not _all_generic(releases):
        yield "A request that did not fit was not answered by the generic view."


def _after_two_at_once(
    system: System, promises: Promises, order: tuple[int, ...]
) -> InMemoryCharges:
    """The store after two apps asked about food, with their steps interleaved in this order."""
    charges = system.charges(FIRST_EPOCH)
    ports = _ports(system, _SlowCharges(charges))
    turns = [Turn(app, "dinner", (FOOD,)) for app in (MEALS, COACH)]
    interleave([system.run_turn(turn, (), promises, ports) for turn in turns], order)
    return charges


@dataclass(frozen=True, slots=True)
class _SlowCharges:
    """A store in front of which requests wait, so that others come in between."""

    inner: ChargeStore

    def snapshot(self) -> Ledger | UnreadableLedger:
        return self.inner.snapshot()

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        await Pause()
        return await self.inner.admit(charge, promises)

    async def record(self, entry: UnprotectedRead | ViewReleased) -> bool:
        await Pause()
        return await self.inner.record(entry)


def _ports(system: System, charges: ChargeStore) -> Ports:
    rows = system.memory({Position(p): "budget" for p in range(1, 6)})
    return Ports(charges, rows, system.scorer, HighestTicket(), KeptNotices())


def _finance_charge(units: Units) -> Charge:
    return charge_for(FINANCE, app=COACH, units=units)


def _all_generic(releases: tuple[Release, ...]) -> bool:
    return all(release.view.name == GENERIC for release in releases)


def _first(events: list[str], *wanted: str) -> int:
    """The index of the first event of these kinds, or the number of events."""
    return next((i for i, event in enumerate(events) if event in wanted), len(events))
