"""What every private memory interface must pass: the contract C1 to C7 as decidable checks.

Decides whether a system (`enumeration.System`) keeps the promise on small policies. Each check
yields a sentence for whatever it finds wrong. What is *not* here: the systems, the real one
(`test_contract`) and those broken on purpose (`mutants`).

The central check is sharper than Theorem 1: the likelihood ratio of each transcript, over all
adjacent pairs of write strategies, is at most `e^{L_a}` for what the ledger says *that transcript*
cost. With `L_a ≤ B_a` it implies the theorem, and with `L_a = 0` it is Lemma 1: equal rationals.
"""

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import product

from tests.contracts.certified_exp import exp_at_least
from tests.contracts.enumeration import Extremes, System, Turn, extremes, one_turn
from tests.contracts.scenarios import Scenario
from tests.fakes.event_log import EventLog
from tests.fakes.fixed_randomness import HighestTicket
from tests.fakes.in_memory_charges import FIRST_EPOCH, InMemoryCharges
from tests.fakes.kept_notices import KeptNotices
from tests.fakes.running import interleave, run_now
from tests.fakes.small_policies import (
    COACH,
    DEBT,
    FINANCE,
    FOOD,
    HEALTH,
    MEALS,
    figure_two,
)

from tactful_core.entries import Charge, Entry, Mechanism
from tactful_core.interface import Ports, Release
from tactful_core.layout import GENERIC, Attribute, Promises
from tactful_core.ledger import replay
from tactful_core.values import UNITS_PER_EPSILON, Position, Units

Check = Callable[[System], Iterable[str]]

FOOD_QUESTION = Turn(MEALS, "dinner", (FOOD,))


# ---- the likelihood ratio -----------------------------------------------------------------------


def unpaid_differences(system: System, scenario: Scenario, attribute: Attribute) -> Iterator[str]:
    """What is wrong with one attribute's exact likelihood ratios, transcript by transcript."""
    tree = extremes(
        system,
        scenario.strategy,
        scenario.stores(attribute.name),
        scenario.promises,
        scenario.turns,
    )
    where = f"{scenario.name}, {attribute.name}"
    for transcript, found in tree.items():
        spent = replay(transcript[-1].entries).spent(attribute)
        if spent > attribute.cap:
            yield f"{where}: {spent} units are charged under a cap of {attribute.cap}."
        if not _within(found, spent):
            yield f"{where}: {_ratio(found)} exceeds e^L for the {spent} units charged."
        if not _within(found, attribute.cap):
            yield f"{where}: {_ratio(found)} exceeds e^B."


def ratio_within_charges(scenarios: Iterable[Scenario]) -> Check:
    """Theorem 1 and Lemma 1 for every attribute of every scenario."""

    def check(system: System) -> Iterator[str]:
        for scenario in scenarios:
            for attribute in scenario.promises.layout.attributes:
                yield from unpaid_differences(system, scenario, attribute)

    return check


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
        run_now(system.run_turn(FOOD_QUESTION, (), figure_two(charges_per_cap=1), ports))
        read = _first(log.events, "rows opened", "view drawn")
        if refused and read < len(log.events):
            yield "A refused request opened rows or drew a view."
        if not refused and not _first(log.events, "charge written") < read:
            yield "Rows were opened or a view drawn before the charge was written."


def refusal_charges_nobody(system: System) -> Iterator[str]:
    """Where debt is full and diabetes is not, a question about food charges neither."""
    promises = figure_two(charges_per_cap=1)
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
    promises = figure_two(charges_per_cap=1)
    for order in product((0, 1), repeat=6):
        charges = system.charges(FIRST_EPOCH)
        requests = [
            system.run_turn(Turn(app, "dinner", (FOOD,)), (), promises, _ports(system, charges))
            for app in (MEALS, COACH)
        ]
        interleave(requests, order)
        ledger = replay(charges.entries)
        if any(ledger.spent(a) > a.cap for a in promises.layout.attributes):
            yield f"Two requests, interleaved as {order}, overspent a cap."


# ---- C4: an app's own queries, and views released to any of them --------------------------------


def only_own_queries_count(system: System) -> Iterator[str]:
    """What an app gets does not depend on the text of another app's query."""
    promises = figure_two()
    # Released views of all apps may count, so only histories that released the same are compared.
    chances: dict[tuple[Release, ...], list[dict[tuple[Release, ...], Fraction]]] = {}
    for text in ("budget", "low_sugar"):
        for first in one_turn(system, Turn(COACH, text, (FOOD,)), (), promises, {}):
            second = one_turn(system, FOOD_QUESTION, (first,), promises, {})
            after = {seen.releases: chance for seen, chance in second.items()}
            chances.setdefault(first.releases, []).append(after)
    if any(after != group[0] for group in chances.values() for after in group):
        yield "The text of another app's query changed the chance of a view."


# ---- all of them --------------------------------------------------------------------------------

SINGLE_TURN_CHECKS: tuple[Check, ...] = (
    charge_precedes_reading,
    refusal_charges_nobody,
    quota_is_kept,
    unreadable_ledger_admits_nothing,
    interleaved_requests_stay_within_caps,
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


def _ports(system: System, charges: InMemoryCharges) -> Ports:
    rows = system.memory({Position(p): "budget" for p in range(1, 6)})
    return Ports(charges, rows, system.scorer, HighestTicket(), KeptNotices())


def _finance_charge(units: Units) -> Charge:
    return Charge(
        epoch=1,
        app=COACH,
        slot=FINANCE,
        mechanism=Mechanism.EXPONENTIAL,
        positions=frozenset({Position(4), Position(5)}),
        charged=frozenset({DEBT}),
        units=units,
        policy="figure-2",
    )


def _all_generic(releases: tuple[Release, ...]) -> bool:
    return all(release.view.name == GENERIC for release in releases)


def _first(events: list[str], *wanted: str) -> int:
    """The index of the first event of these kinds, or the number of events."""
    return next((i for i, event in enumerate(events) if event in wanted), len(events))
