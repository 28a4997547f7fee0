"""The online rule: `ε = min_{a ∈ Γ} B_a / K`, in whole units, rounded down."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.small_policies import DEBT, DIABETES, attribute, figure_two, slot

from tactful_core.allocation import online_epsilon
from tactful_core.errors import ContractError
from tactful_core.layout import Attribute, Layout
from tactful_core.values import AttributeName, Position, Units

caps = st.decimals("0.001", "24", places=3)


def layout_with(*caps_in_epsilon: Decimal) -> Layout:
    attributes = (attribute(f"a{i}", (1,), str(cap)) for i, cap in enumerate(caps_in_epsilon))
    return Layout((slot("s", (1,), ("v",)),), tuple(attributes))


@given(st.lists(caps, min_size=1, max_size=4), st.integers(1, 16))
def test_the_smallest_cap_is_filled_exactly_by_k_charges(
    in_epsilon: list[Decimal], charges: int
) -> None:
    layout = layout_with(*in_epsilon)
    names = [a.name for a in layout.attributes]
    epsilon = online_epsilon(layout, names, charges)
    assert epsilon * charges == min(a.cap for a in layout.attributes)


@given(st.integers(1, 10**9), st.integers(1, 16))
def test_k_charges_never_exceed_a_cap_of_any_number_of_units(cap: int, charges: int) -> None:
    whole = Attribute(AttributeName("a"), frozenset({Position(1)}), Units(cap))
    layout = Layout((slot("s", (1,), ("v",)),), (whole,))
    if cap < charges:
        with pytest.raises(ContractError):
            online_epsilon(layout, [whole.name], charges)
    else:
        assert cap - charges < online_epsilon(layout, [whole.name], charges) * charges <= cap


def test_only_attributes_of_the_charge_set_count() -> None:
    layout = figure_two(diabetes_cap="2", debt_cap="1").layout
    assert online_epsilon(layout, {DIABETES}, 2) == 720_720_000
    assert online_epsilon(layout, {DIABETES, DEBT}, 2) == 360_360_000


def test_refuses_an_empty_charge_set() -> None:
    with pytest.raises(ContractError, match="nothing may be read"):
        online_epsilon(figure_two().layout, (), 3)


def test_refuses_an_attribute_that_is_not_in_the_layout() -> None:
    with pytest.raises(ContractError):
        online_epsilon(figure_two().layout, {AttributeName("pregnancy")}, 3)
