"""Promises under which text may be fused from every shelf that an attribute covers."""

from dataclasses import replace
from fractions import Fraction

from tactful_core.promises import Privacy, Promises
from tactful_core.values import units_from_epsilon


def fused(promises: Promises, *, epsilon: int = 8, planned_draws: int = 500) -> Promises:
    """The same promises, in which each attribute may lose `epsilon` to fused text as well."""
    attributes = tuple(
        replace(attribute, fusion=units_from_epsilon(epsilon))
        for attribute in promises.layout.attributes
    )
    return replace(
        promises,
        layout=replace(promises.layout, attributes=attributes),
        privacy=Privacy(Fraction(1, 10**5), planned_draws),
    )
