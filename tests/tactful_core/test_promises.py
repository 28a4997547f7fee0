"""Promises fit together or are refused; a charge set is never smaller than what a read meets."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
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
    promises_for,
    slot,
)

from tactful_core.errors import ContractError
from tactful_core.layout import Layout
from tactful_core.promises import Grant
from tactful_core.values import AppId, AttributeName, SlotName, Units

PROMISES = figure_two()
STRANGER = AppId("stranger")


def test_an_app_without_a_grant_has_none() -> None:
    promises = replace(PROMISES, grants=(grant(MEALS, (FOOD,)),))
    assert promises.grant(MEALS) == Grant(MEALS, frozenset({FOOD}), {})
    assert promises.grant(COACH) is None


def test_a_grant_without_quotas_has_an_empty_one() -> None:
    assert dict(Grant(AppId("a"), frozenset()).quota) == {}
    assert grant(MEALS, (FOOD,), {"debt": "0.5"}).quota == {DEBT: Units(360_360_000)}


@pytest.mark.parametrize(
    ("app", "name"),
    [(STRANGER, FOOD), (COACH, HEALTH), (COACH, SlotName("work"))],
)
def test_an_app_may_ask_only_for_slots_of_its_grant(app: AppId, name: SlotName) -> None:
    promises = replace(PROMISES, grants=(grant(COACH, (FOOD,)),))
    promises.require_granted(COACH, FOOD)
    with pytest.raises(ContractError, match="grants it"):
        promises.require_granted(app, name)


def test_refuses_two_grants_for_one_app() -> None:
    twice = (grant(MEALS, (FOOD,)), grant(MEALS, (HEALTH,)))
    with pytest.raises(ContractError):
        replace(PROMISES, grants=twice)


@pytest.mark.parametrize(
    "charge_also",
    [
        {SlotName("work"): frozenset({DEBT})},
        {FOOD: frozenset({AttributeName("pregnancy")})},
    ],
)
def test_refuses_to_charge_what_the_layout_does_not_have(
    charge_also: dict[SlotName, frozenset[AttributeName]],
) -> None:
    with pytest.raises(ContractError):
        figure_two(charge_also=charge_also)


@given(
    st.dictionaries(
        st.sampled_from([HEALTH, FOOD, FINANCE]), st.frozensets(st.sampled_from([DIABETES, DEBT]))
    )
)
def test_a_policy_can_add_to_a_charge_set_and_never_take_away(
    charge_also: dict[SlotName, frozenset[AttributeName]],
) -> None:
    promises = figure_two(charge_also=charge_also)
    for each in promises.layout.slots:
        required = promises.layout.required_charge_set(each.positions)
        added = charge_also.get(each.name, frozenset())
        assert promises.charge_set(each) == required | added


def test_a_slot_that_meets_no_attribute_is_charged_to_nobody() -> None:
    """`charge_also` does not open a shelf that no attribute covers."""
    layout = Layout(
        (slot("diary", (1,), ("v",)), slot("other", (2,), ("v",))), (attribute("worry", (2,), "1"),)
    )
    diary = layout.slots[0]
    also = {diary.name: frozenset({AttributeName("worry")})}
    assert promises_for(layout, charge_also=also).charge_set(diary) == frozenset()


def test_epsilon_is_what_the_allocation_rule_says_for_the_slots_charge_set() -> None:
    promises = figure_two(diabetes_cap="2", debt_cap="1")
    epsilons = {each.name: promises.epsilon(each) for each in promises.layout.slots}
    assert epsilons == {HEALTH: 480_480_000, FOOD: 240_240_000, FINANCE: 240_240_000}
