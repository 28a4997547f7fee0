"""Allocation rules: whole units, rounded down; shares that never add up to more than a cap."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.real_numbers import exp_enclosure
from tests.fakes.small_policies import (
    DEBT,
    DIABETES,
    FINANCE,
    FOOD,
    HEALTH,
    attribute,
    figure_two,
    promises_for,
    slot,
)

from tactful_core.allocation import (
    MOST_CHARGES,
    Allocation,
    Online,
    Preallocated,
    Standing,
    release_epsilon,
)
from tactful_core.errors import ContractError
from tactful_core.layout import Attribute, Layout
from tactful_core.promises import Promises
from tactful_core.scoring import PRIVATE_RANGE, Scores
from tactful_core.selection import RandomizedResponse
from tactful_core.values import AttributeName, Position, Secret, SlotName, Units, units_from_epsilon

caps = st.decimals("0.001", "24", places=3)
counts = st.integers(1, MOST_CHARGES)
LAYOUT = figure_two().layout


def layout_with(*caps_in_epsilon: Decimal) -> Layout:
    """One slot whose reads meet an attribute for each cap."""
    attributes = (attribute(f"a{i}", (1,), str(cap)) for i, cap in enumerate(caps_in_epsilon))
    return Layout((slot("s", (1,), ("v",)),), tuple(attributes))


def names(layout: Layout) -> list[AttributeName]:
    return [a.name for a in layout.attributes]


def planned(layout: Layout, count: int) -> Preallocated:
    return Preallocated(dict.fromkeys(names(layout), count))


# ---- online and preallocated: so many charges fill a cap ----------------------------------------

Rule = Callable[[Layout, int], Allocation]

# For one slot, `Standing` is the same division; with several, see below.
DIVIDING = pytest.mark.parametrize(
    "rule",
    [
        pytest.param(lambda layout, count: Online(count), id="online"),
        pytest.param(planned, id="preallocated"),
        pytest.param(lambda layout, count: Standing(releases=count), id="standing"),
    ],
)


@DIVIDING
@given(in_epsilon=st.lists(caps, min_size=1, max_size=4), count=counts)
def test_the_smallest_cap_is_filled_exactly_by_the_planned_charges(
    rule: Rule, in_epsilon: list[Decimal], count: int
) -> None:
    layout = layout_with(*in_epsilon)
    epsilon = release_epsilon(rule(layout, count), layout, layout.slots[0], names(layout))
    assert epsilon * count == min(a.cap for a in layout.attributes)


@DIVIDING
@given(cap=st.integers(1, 10**9), count=counts)
def test_planned_charges_never_exceed_a_cap_of_any_number_of_units(
    rule: Rule, cap: int, count: int
) -> None:
    whole = Attribute(AttributeName("a"), frozenset({Position(1)}), Units(cap))
    layout = Layout((slot("s", (1,), ("v",)),), (whole,))
    if cap < count:
        with pytest.raises(ContractError, match="at least one unit"):
            release_epsilon(rule(layout, count), layout, layout.slots[0], [whole.name])
    else:
        epsilon = release_epsilon(rule(layout, count), layout, layout.slots[0], [whole.name])
        assert cap - count < epsilon * count <= cap


def test_only_attributes_of_the_charge_set_count() -> None:
    layout = figure_two(diabetes_cap="2", debt_cap="1").layout
    food = layout.slot(FOOD)
    assert release_epsilon(Online(2), layout, food, {DIABETES}) == 720_720_000
    assert release_epsilon(Online(2), layout, food, {DIABETES, DEBT}) == 360_360_000


def test_preallocated_plans_for_each_attribute_by_itself() -> None:
    rule = Preallocated({DIABETES: 4, DEBT: 2})
    costs = {
        each.name: release_epsilon(rule, LAYOUT, each, LAYOUT.required_charge_set(each.positions))
        for each in LAYOUT.slots
    }
    assert costs == {HEALTH: 360_360_000, FOOD: 360_360_000, FINANCE: 720_720_000}


def test_preallocated_refuses_an_attribute_for_which_nothing_is_planned() -> None:
    with pytest.raises(ContractError, match="planned for debt"):
        release_epsilon(Preallocated({DIABETES: 4}), LAYOUT, LAYOUT.slot(FINANCE), {DEBT})


# ---- standing: shares of a cap ------------------------------------------------------------------


@st.composite
def shared_promises(draw: st.DrawFn) -> Promises:
    """Up to five slots, groups over any of their positions, weights, and slots charged beyond."""
    count = draw(st.integers(1, 5))
    slots = tuple(slot(f"s{i}", (i,), ("v",)) for i in range(1, count + 1))
    groups = draw(st.lists(st.sets(st.integers(1, count), min_size=1), min_size=1, max_size=4))
    attributes = tuple(attribute(f"a{i}", group, str(draw(caps))) for i, group in enumerate(groups))
    layout = Layout(slots, attributes)
    every = st.sampled_from([each.name for each in slots])
    rule = Standing(
        releases=draw(counts),
        weights=draw(st.dictionaries(every, counts)),
    )
    also = st.frozensets(st.sampled_from(names(layout)))
    return promises_for(layout, allocation=rule, charge_also=draw(st.dictionaries(every, also)))


def costs_of(promises: Promises) -> Mapping[AttributeName, int]:
    """What each attribute pays where every slot makes all its releases; too small caps skipped."""
    assert isinstance(promises.allocation, Standing)
    paid = dict.fromkeys(names(promises.layout), 0)
    for each in promises.layout.slots:
        charge_set = promises.charge_set(each)
        for name in charge_set:
            paid[name] += promises.epsilon(each) * promises.allocation.releases
    return paid


@given(shared_promises())
def test_all_releases_of_all_slots_fit_under_every_cap(promises: Promises) -> None:
    """So whoever is asked first starves nobody, in whatever order slots are asked."""
    paid = costs_of(promises)
    assert all(paid[a.name] <= a.cap for a in promises.layout.attributes)


def shares(rule: Standing, promises: Promises) -> dict[SlotName, int]:
    return {
        each.name: release_epsilon(
            rule, promises.layout, each, promises.charge_set(each), promises.charge_also
        )
        for each in promises.layout.slots
    }


def test_slots_that_share_a_cap_get_equal_parts_of_it() -> None:
    two = units_from_epsilon(2)
    assert shares(Standing(), figure_two()) == dict.fromkeys((HEALTH, FOOD, FINANCE), two // 2)
    assert shares(Standing(releases=2), figure_two())[FOOD] == two // 4


def test_weights_say_in_which_parts() -> None:
    """Food pays the smaller of its two shares to both of its attributes."""
    one = units_from_epsilon(1)
    weighted = Standing(weights={FOOD: 3, FINANCE: 2})
    assert shares(weighted, figure_two(diabetes_cap="4", debt_cap="5")) == {
        HEALTH: one,
        FOOD: 3 * one,
        FINANCE: 2 * one,
    }


def test_a_slot_that_is_charged_beyond_what_it_reads_shares_the_cap() -> None:
    promises = figure_two(charge_also={HEALTH: frozenset({DEBT})})
    third = units_from_epsilon(2) // 3
    assert shares(Standing(), promises) == dict.fromkeys((HEALTH, FOOD, FINANCE), third)


def test_a_slot_that_shares_no_attribute_changes_nothing() -> None:
    layout = Layout(
        (*LAYOUT.slots, slot("work", (6,), ("v",))),
        (*LAYOUT.attributes, attribute("job", (6,), "3")),
    )
    found = shares(Standing(), promises_for(layout))
    assert found[FOOD] == shares(Standing(), figure_two())[FOOD]
    assert found[SlotName("work")] == units_from_epsilon(3)


@pytest.mark.parametrize(("sharing", "expected"), [(1, "0.881"), (2, "0.731"), (3, "0.661")])
def test_the_right_view_of_two_has_the_chance_that_the_guarantee_names(
    sharing: int, expected: str
) -> None:
    """`e^{B/s} / (1 + e^{B/s})` at B = 2 for s slots that share the cap (GUARANTEE §3)."""
    slots = tuple(slot(f"s{i}", (i,), ("v",)) for i in range(1, sharing + 1))
    layout = Layout(slots, (attribute("a", range(1, sharing + 1), "2"),))
    promises = promises_for(layout, allocation=Standing())
    mechanism = RandomizedResponse(promises.epsilon(slots[0]))
    right = Scores((0, 0), Secret((0, PRIVATE_RANGE)))
    chance = mechanism.distribution(right)[1]
    low, high = exp_enclosure(Fraction(2, sharing), digits=40)
    assert low / (1 + low) - Fraction(1, 10**30) < chance < high / (1 + high) + Fraction(1, 10**30)
    assert f"{float(chance):.3f}" == expected


# ---- what is refused ----------------------------------------------------------------------------

RULES: list[Allocation] = [Online(3), Preallocated({DIABETES: 3, DEBT: 3}), Standing()]


@pytest.mark.parametrize("rule", RULES)
def test_refuses_an_empty_charge_set(rule: Allocation) -> None:
    with pytest.raises(ContractError, match="nothing may be read"):
        release_epsilon(rule, LAYOUT, LAYOUT.slot(FOOD), ())


@pytest.mark.parametrize("rule", RULES)
def test_refuses_an_attribute_that_is_not_in_the_layout(rule: Allocation) -> None:
    with pytest.raises(ContractError):
        release_epsilon(rule, LAYOUT, LAYOUT.slot(FOOD), {AttributeName("pregnancy")})


@pytest.mark.parametrize("count", [0, -1, MOST_CHARGES + 1])
def test_refuses_counts_outside_one_to_sixteen(count: int) -> None:
    with pytest.raises(ContractError, match="charges_per_cap"):
        Online(count)
    with pytest.raises(ContractError, match=r"planned\.debt"):
        Preallocated({DIABETES: 1, DEBT: count})
    with pytest.raises(ContractError, match="releases"):
        Standing(releases=count)
    with pytest.raises(ContractError, match=r"weights\.food"):
        Standing(weights={FOOD: count})


@pytest.mark.parametrize("candidates", [1, 0, -2])
def test_refuses_a_choice_of_fewer_than_two_candidates(candidates: int) -> None:
    with pytest.raises(ContractError, match="two candidates"):
        Standing(candidates=candidates)
