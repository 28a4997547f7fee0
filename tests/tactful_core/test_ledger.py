"""The accountant's algebra: sums only grow, refusals refuse everything, growth is recomputed.

Copies, marks and random histories are in `test_ledger_histories`.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.charge_store import CAP, THIRD, charge_for, read_of, view_for
from tests.fakes.in_memory_charges import FIRST_EPOCH, numbered_id
from tests.fakes.small_policies import (
    COACH,
    DEBT,
    DIABETES,
    FINANCE,
    FOOD,
    HEALTH,
    MEALS,
    attribute,
    figure_two,
    grant,
)

from tactful_core.allocation import Standing
from tactful_core.entries import Charge, Entry, EpochOpened, UnreadableEntry
from tactful_core.errors import ContractError
from tactful_core.layout import Attribute, Layout
from tactful_core.ledger import (
    Ledger,
    Refusal,
    UnreadableLedger,
    charges_left,
    refusal,
    replay,
)
from tactful_core.promises import Promises
from tactful_core.values import AppId, AttributeName, Position, SlotName, Units

PROMISES = figure_two()
LAYOUT = PROMISES.layout
(OPENED,) = FIRST_EPOCH


def epoch(number: int, period: int = 0) -> EpochOpened:
    return EpochOpened(numbered_id(number), number, period)


slots = st.sampled_from([HEALTH, FOOD, FINANCE])
apps = st.sampled_from([MEALS, COACH])
amounts = st.integers(1, CAP).map(Units)
charges = st.builds(
    lambda slot, app, units: charge_for(slot, app=app, units=units), slots, apps, amounts
)
charge_lists = st.lists(charges, max_size=12)


def opened(entries: Sequence[Entry] = ()) -> Ledger:
    return replay([OPENED, *entries])


def admitted(attempts: Sequence[Charge], promises: Promises = PROMISES) -> list[Charge]:
    """Those of the attempted charges that fit, one after the other."""
    written: list[Charge] = []
    for attempt in attempts:
        if refusal(opened(written), attempt, promises) is None:
            written.append(attempt)
    return written


# ---- sums ---------------------------------------------------------------------------------------


@given(charge_lists)
def test_what_is_spent_is_the_sum_of_the_charges_that_name_the_attribute(
    entries: list[Charge],
) -> None:
    for protected in LAYOUT.attributes:
        named = [entry for entry in entries if protected.name in entry.charged]
        ledger = opened(entries)
        assert ledger.spent(protected) == sum(entry.units for entry in named)
        for app in (MEALS, COACH):
            own = sum(entry.units for entry in named if entry.app == app)
            assert ledger.spent(protected, app) == own


@given(st.permutations(range(6)), st.lists(charges, min_size=6, max_size=6))
def test_the_order_of_charges_changes_no_sum(order: list[int], entries: list[Charge]) -> None:
    shuffled = [entries[index] for index in order]
    assert opened(entries).settled == opened(shuffled).settled


@given(charge_lists, st.one_of(charges, st.just(read_of(2)), st.just(view_for(charge_for(FOOD)))))
def test_one_more_entry_never_lowers_a_sum(entries: list[Charge], entry: Entry) -> None:
    before, after = opened(entries), opened([*entries, entry])
    for protected in LAYOUT.attributes:
        assert after.spent(protected) >= before.spent(protected)
        assert after.lifetime_spent(protected) >= before.lifetime_spent(protected)
        assert after.exposed(protected) >= before.exposed(protected)


@given(charge_lists, charges)
def test_an_older_ledger_is_not_changed_by_what_comes_after(
    entries: list[Charge], entry: Charge
) -> None:
    before = opened(entries)
    settled, released = dict(before.settled), dict(before.released)
    before.after(entry).after(view_for(entry))
    assert (dict(before.settled), dict(before.released)) == (settled, released)


@given(charge_lists, charge_lists)
def test_a_new_epoch_starts_at_nothing_and_the_lifetime_goes_on(
    first: list[Charge], second: list[Charge]
) -> None:
    later = [replace(charge, epoch=2) for charge in second]
    ledger = replay([OPENED, *first, epoch(2), *later])
    for protected in LAYOUT.attributes:
        in_first, in_second = opened(first).spent(protected), opened(second).spent(protected)
        assert ledger.spent(protected) == in_second
        assert ledger.lifetime_spent(protected) == in_first + in_second


@given(charge_lists)
def test_charges_are_counted_for_each_slot_in_the_open_epoch(entries: list[Charge]) -> None:
    """What a share is divided into (`Standing`): how often a slot was charged, not how much."""
    ledger = opened(entries)
    for name in (HEALTH, FOOD, FINANCE):
        count = sum(entry.slot == name for entry in entries)
        assert ledger.charges.get(name, 0) == count
    assert replay([OPENED, *entries, epoch(2)]).charges == {}


def test_released_views_are_kept_oldest_first_until_the_epoch_ends() -> None:
    first, second = view_for(charge_for(FOOD)), view_for(charge_for(FOOD), "low_sugar")
    other = view_for(charge_for(HEALTH), "calm")
    ledger = opened([first, other, second])
    assert ledger.released == {FOOD: (first, second), HEALTH: (other,)}
    assert ledger.settled == {}
    assert ledger.after(epoch(2)).released == {}


# ---- admission ----------------------------------------------------------------------------------


@given(charge_lists)
def test_admitted_charges_never_exceed_a_cap(attempts: list[Charge]) -> None:
    ledger = opened(admitted(attempts))
    assert all(ledger.spent(a) <= a.cap for a in LAYOUT.attributes)


@given(charge_lists, st.integers(1, CAP))
def test_admitted_charges_never_exceed_a_quota(attempts: list[Charge], quota: int) -> None:
    (meals, coach) = PROMISES.grants
    limited = replace(PROMISES, grants=(meals, replace(coach, quota={DEBT: Units(quota)})))
    ledger = opened(admitted(attempts, limited))
    assert ledger.spent(LAYOUT.attribute(DEBT), COACH) <= quota


@given(charge_lists, charges)
def test_a_charge_is_refused_exactly_where_some_attribute_has_no_room(
    attempts: list[Charge], charge: Charge
) -> None:
    ledger = opened(admitted(attempts))
    fits = all(
        ledger.spent(LAYOUT.attribute(name)) + charge.units <= LAYOUT.attribute(name).cap
        for name in charge.charged
    )
    assert refusal(ledger, charge, PROMISES) == (None if fits else Refusal.CAP)


def test_the_last_unit_of_a_cap_can_be_spent_and_no_more() -> None:
    all_but_one = opened([charge_for(FOOD, units=Units(CAP - 1))])
    assert refusal(all_but_one, charge_for(FOOD, units=Units(1)), PROMISES) is None
    assert refusal(all_but_one, charge_for(FOOD, units=Units(2)), PROMISES) is Refusal.CAP


@pytest.mark.parametrize("full", [HEALTH, FINANCE])
def test_one_full_attribute_refuses_a_charge_that_meets_two(full: SlotName) -> None:
    ledger = opened([charge_for(full, units=CAP)])
    assert refusal(ledger, charge_for(FOOD, units=Units(1)), PROMISES) is Refusal.CAP


def test_a_quota_refuses_its_app_only() -> None:
    promises = figure_two(coach_quota={"debt": "0.7"})
    ledger = opened([charge_for(FINANCE, app=COACH)])
    assert refusal(ledger, charge_for(FOOD, app=COACH), promises) is Refusal.QUOTA
    assert refusal(ledger, charge_for(FOOD, app=MEALS), promises) is None
    assert refusal(ledger, charge_for(HEALTH, app=COACH), promises) is None


def test_what_other_apps_spend_uses_up_no_quota() -> None:
    promises = figure_two(coach_quota={"debt": "0.7"})
    ledger = opened([charge_for(FINANCE, app=MEALS)] * 2)
    assert refusal(ledger, charge_for(FINANCE, app=COACH), promises) is None


def test_the_cap_is_named_before_the_quota() -> None:
    promises = figure_two(coach_quota={"debt": "0.7"})
    ledger = opened([charge_for(FINANCE, app=COACH, units=CAP)])
    assert refusal(ledger, charge_for(FINANCE, app=COACH), promises) is Refusal.CAP


@pytest.mark.parametrize("releases", [1, 2, 3])
def test_a_slots_share_is_checked_with_the_caps(releases: int) -> None:
    """A plan that is out of date, as after a race, must not use up what is for other slots."""
    promises = figure_two(allocation=Standing(releases=releases))
    one_unit = charge_for(FOOD, units=Units(1))
    written = [charge_for(FOOD, units=Units(1)) for _ in range(releases)]
    assert refusal(opened(written[:-1]), one_unit, promises) is None
    assert refusal(opened(written), one_unit, promises) is Refusal.SHARE
    assert refusal(opened(written), charge_for(HEALTH, units=Units(1)), promises) is None
    assert refusal(opened(written).after(epoch(2)), replace(one_unit, epoch=2), promises) is None


@given(charges)
def test_an_unreadable_ledger_refuses_everything(charge: Charge) -> None:
    assert refusal(UnreadableLedger(), charge, PROMISES) is Refusal.UNREADABLE


@given(charges)
def test_an_exhausted_ledger_refuses_everything_until_the_next_epoch(charge: Charge) -> None:
    exhausted = opened().until_next_epoch()
    assert refusal(exhausted, charge, PROMISES) is Refusal.CAP
    assert refusal(exhausted.after(epoch(2)), replace(charge, epoch=2), PROMISES) is None


@pytest.mark.parametrize("number", [1, 3])
def test_refuses_a_charge_of_an_epoch_that_is_not_open(number: int) -> None:
    ledger = replay([OPENED, epoch(2)])
    assert refusal(ledger, charge_for(FOOD, epoch=number), PROMISES) is Refusal.UNREADABLE


def test_refuses_every_charge_before_the_first_epoch() -> None:
    """Such an entry could not be read back, and would exhaust everything for good."""
    assert refusal(Ledger(), charge_for(FOOD, epoch=0), PROMISES) is Refusal.UNREADABLE


def test_a_larger_charge_set_than_needed_is_allowed_and_charged() -> None:
    generous = replace(charge_for(HEALTH), charged=frozenset({DIABETES, DEBT}))
    assert refusal(opened(), generous, PROMISES) is None
    assert opened([generous]).spent(LAYOUT.attribute(DEBT)) == THIRD


@pytest.mark.parametrize("charged", [frozenset[AttributeName](), frozenset({DIABETES})])
def test_a_smaller_charge_set_is_a_bug_and_not_a_refusal(charged: frozenset[AttributeName]) -> None:
    with pytest.raises(ContractError, match="every attribute"):
        refusal(opened(), replace(charge_for(FOOD), charged=charged), PROMISES)


def test_a_charge_to_nobody_is_a_bug_also_where_nothing_had_to_be_charged() -> None:
    """Shelves that no attribute covers are not read under a charge, and so cost no draw."""
    uncovered = replace(PROMISES, layout=Layout(LAYOUT.slots, (attribute("debt", (4, 5), "2"),)))
    to_nobody = replace(charge_for(HEALTH), charged=frozenset())
    with pytest.raises(ContractError, match="every attribute"):
        refusal(opened(), to_nobody, uncovered)


def test_an_attribute_that_the_policy_does_not_know_is_a_bug() -> None:
    strange = replace(charge_for(HEALTH), charged=frozenset({DIABETES, AttributeName("work")}))
    with pytest.raises(ContractError):
        refusal(opened(), strange, PROMISES)


@pytest.mark.parametrize("units", [0, -1])
def test_a_charge_of_nothing_or_less_is_a_bug(units: int) -> None:
    """A negative charge would be a refund, and a charge of nothing could not be read back."""
    with pytest.raises(ContractError, match="at least one unit"):
        refusal(opened(), charge_for(FOOD, units=Units(units)), PROMISES)


@pytest.mark.parametrize("app", [AppId("stranger"), COACH])
def test_a_charge_for_what_no_grant_allows_is_a_bug(app: AppId) -> None:
    promises = replace(PROMISES, grants=(grant(COACH, (FOOD,)),))
    with pytest.raises(ContractError, match="grants it"):
        refusal(opened(), charge_for(HEALTH, app=app), promises)
    with pytest.raises(ContractError, match="grants it"):
        refusal(UnreadableLedger(), charge_for(HEALTH, app=app), promises)


# ---- how many more ------------------------------------------------------------------------------


def exhaust(ledger: Ledger, charge: Charge, promises: Promises) -> int:
    """How often `charge` is admitted in a row."""
    count = 0
    while refusal(ledger, charge, promises) is None:
        ledger, count = ledger.after(charge), count + 1
    return count


@given(charge_lists, slots, apps, st.integers(CAP // 7, CAP), st.integers(1, CAP))
def test_charges_left_is_how_many_are_admitted_in_a_row(
    attempts: list[Charge], name: SlotName, app: AppId, units: int, quota: int
) -> None:
    meals, coach = PROMISES.grants
    promises = replace(PROMISES, grants=(meals, replace(coach, quota={DEBT: Units(quota)})))
    ledger = opened(admitted(attempts, promises))
    charge = charge_for(name, app=app, units=Units(units))
    left = charges_left(ledger, app, charge.charged, Units(units), promises)
    assert left == exhaust(ledger, charge, promises)


def test_no_charges_are_left_where_nothing_is_admitted() -> None:
    food = LAYOUT.required_charge_set(LAYOUT.slot(FOOD).positions)
    for ledger in (UnreadableLedger(), opened().until_next_epoch(), opened([read_of(3)])):
        assert charges_left(ledger, MEALS, food, Units(1), PROMISES) == 0
    assert charges_left(opened(), AppId("stranger"), food, Units(1), PROMISES) == 0
    assert charges_left(opened(), MEALS, (), Units(1), PROMISES) == 0


# ---- when the policy changes under a ledger -----------------------------------------------------


@given(charge_lists, st.sets(st.integers(1, 5), min_size=1), st.sets(st.integers(1, 5)))
def test_a_group_that_grows_is_charged_for_every_read_that_it_now_meets(
    entries: list[Charge], before: set[int], growth: set[int]
) -> None:
    """Recomputed from the same entries: never less than before, and no entry is rewritten."""
    ledger = opened(entries)
    small, large = attribute("new", before, "2"), attribute("new", before | growth, "2")
    met = [e for e in entries if not e.positions.isdisjoint(large.positions)]
    assert ledger.spent(large) == sum(entry.units for entry in met)
    assert ledger.spent(large) >= ledger.spent(small)


@given(charge_lists, st.sets(st.integers(1, 5), min_size=1))
def test_a_group_that_shrinks_gets_nothing_back(entries: list[Charge], kept: set[int]) -> None:
    """What was charged by name stays charged, whatever the index set becomes."""
    debt = LAYOUT.attribute(DEBT)
    shrunk = replace(debt, positions=frozenset(Position(p) for p in kept))
    assert opened(entries).spent(shrunk) >= opened(entries).spent(debt)


def with_attribute(changed: Attribute) -> Promises:
    others = tuple(a for a in LAYOUT.attributes if a.name != changed.name)
    return replace(PROMISES, layout=Layout(LAYOUT.slots, (*others, changed)))


def test_a_group_that_grew_past_its_cap_is_closed() -> None:
    ledger = opened([charge_for(HEALTH, units=CAP)])
    grown = with_attribute(attribute("debt", (1, 3, 4, 5), "1"))
    assert ledger.spent(grown.layout.attribute(DEBT)) == CAP
    assert refusal(ledger, charge_for(FINANCE, units=Units(1)), grown) is Refusal.CAP


def test_a_cap_lowered_below_what_is_spent_closes_the_attribute() -> None:
    ledger = opened([charge_for(FINANCE, units=Units(2 * THIRD))])
    lowered = with_attribute(attribute("debt", (3, 4, 5), "1"))
    assert refusal(ledger, charge_for(FINANCE, units=Units(1)), lowered) is Refusal.CAP
    assert refusal(ledger, charge_for(FOOD, units=Units(1)), lowered) is Refusal.CAP
    assert refusal(ledger, charge_for(HEALTH, units=Units(1)), lowered) is None


def test_an_unprotected_read_closes_each_attribute_that_covers_it_for_the_epoch() -> None:
    ledger = opened([read_of(3)])
    assert [a.name for a in LAYOUT.attributes if ledger.exposed(a)] == [DIABETES, DEBT]
    assert refusal(ledger, charge_for(FINANCE, units=Units(1)), PROMISES) is Refusal.CAP
    assert not ledger.exposed(attribute("other", (1, 2), "1"))
    assert not replay([OPENED, read_of(3), epoch(2)]).exposed(LAYOUT.attributes[0])


def test_unprotected_reads_add_up() -> None:
    ledger = opened([read_of(1), read_of(4)])
    assert ledger.unprotected == {1, 4}


# ---- entries of an earlier epoch, as they come from another copy --------------------------------


@given(charge_lists, charge_lists)
def test_an_entry_of_an_earlier_epoch_counts_for_the_lifetime_only(
    first: list[Charge], late: list[Charge]
) -> None:
    ledger = replay([OPENED, *first, epoch(2), *late])
    for protected in LAYOUT.attributes:
        assert ledger.spent(protected) == 0
        in_time = replay([OPENED, *first, *late, epoch(2)])
        assert ledger.lifetime_spent(protected) == in_time.lifetime_spent(protected)
    assert ledger.charges == {}


def test_what_was_released_or_read_openly_in_an_earlier_epoch_is_over() -> None:
    late: list[Entry] = [view_for(charge_for(FOOD)), read_of(3)]
    ledger = replay([OPENED, epoch(2), *late])
    assert (ledger.released, ledger.unprotected) == ({}, frozenset())


# ---- entries that cannot follow -----------------------------------------------------------------


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([epoch(2)], id="a first epoch that is not 1"),
        pytest.param([OPENED, OPENED], id="an epoch twice"),
        pytest.param([OPENED, epoch(3)], id="an epoch left out"),
        pytest.param([OPENED, epoch(2), OPENED], id="an epoch again"),
        pytest.param([epoch(1, 20_000), epoch(2, 19_993)], id="a period that goes back"),
        pytest.param([charge_for(FOOD)], id="a charge before any epoch"),
        pytest.param([OPENED, charge_for(FOOD, epoch=2)], id="a charge of a later epoch"),
        pytest.param([OPENED, charge_for(FOOD, epoch=0)], id="a charge of no epoch"),
        pytest.param([read_of(1)], id="a read before any epoch"),
        pytest.param([OPENED, read_of(1, epoch=2)], id="a read of a later epoch"),
        pytest.param([OPENED, view_for(charge_for(FOOD, epoch=2))], id="a view of a later epoch"),
    ],
)
def test_a_ledger_is_unreadable_with(entries: list[Entry]) -> None:
    with pytest.raises(UnreadableEntry):
        replay(entries)


def test_epochs_keep_the_latest_period() -> None:
    assert replay([epoch(1, 0), epoch(2, 19_993), epoch(3, 19_993)]).period == 19_993
