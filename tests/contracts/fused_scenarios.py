"""Small policies, courses of calls and stores for which fused text is enumerated exactly."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction

from tests.contracts.enumeration import Turn
from tests.contracts.fused_enumeration import (
    Call,
    Course,
    Model,
    Replying,
    Strategy,
    loud_model,
)
from tests.contracts.scenarios import TWO_VIEWS
from tests.fakes.small_policies import (
    COACH,
    FINANCE,
    FOOD,
    HEALTH,
    MEALS,
    figure_two,
)

from tactful_core.fusion import FusionParameters, epsilon_of, loss_units
from tactful_core.promises import Privacy, Promises
from tactful_core.values import Position, Units, units_from_epsilon

DELTA = Fraction(1, 100)

Texts = Mapping[Position, tuple[str, ...]]


def tight(alpha: int) -> FusionParameters:
    """So little of `P` is memory's that charges are hardly above what an adversary can reach."""
    return FusionParameters(alpha, Fraction(1, 8), Fraction(1, 16))


def generous(alpha: int) -> FusionParameters:
    """So much that tails of the likelihood ratio matter."""
    return FusionParameters(alpha, Fraction(7, 8), Fraction(3))


def promises_for(parameters: FusionParameters, draws: int, cap: str) -> Promises:
    """Figure 2 with a fused budget that so many draws at `k_a = k*` use up."""
    promises = figure_two(views=TWO_VIEWS, diabetes_cap=cap, debt_cap=cap)
    rho = Units(draws * loss_units(parameters, 1, 1))
    exact = Decimal(epsilon_of(parameters, rho, DELTA))
    epsilon = units_from_epsilon(exact.quantize(Decimal("0.001"), ROUND_CEILING))
    attributes = tuple(replace(a, fusion=epsilon) for a in promises.layout.attributes)
    return replace(
        promises,
        layout=replace(promises.layout, attributes=attributes),
        privacy=Privacy(DELTA, draws),
    )


def _texts(*choices: tuple[str, ...]) -> Texts:
    return {Position(number): texts for number, texts in enumerate(choices, start=1)}


SHOUTS = _texts(("",), ("", "QQ", "ZZZZ"), ("ZZ", "QQ", ""), ("QQ", "ZZZ"), ("",))
"""For one token, for another, and nothing; of different lengths."""

ENDS = _texts(("",), ("", "XX", "QQ"), ("QQ", "XXXX", ""), ("X",), ("",))
"""For the end of the reply, and against it."""

CROSSWISE = _texts(("QQ", "ZZ"), ("ZZZ", "QQ"), ("QQ", "ZZ"), ("X", "QQ"), ("ZZ", "Q"))
"""Two for each position."""

WITH_VIEWS = _texts(("",), ("QQ budget", "ZZ"), ("ZZ", "budget QQ", "X"), ("", "QQ saving"), ("",))
"""Some of which speak for a view as well."""


def _one_reply(before: tuple[Replying, ...]) -> Call | None:
    return None if before else Call(Turn(MEALS, "dinner", (FOOD,)))


def _three_cells(before: tuple[Replying, ...]) -> Call | None:
    """Two slots: cells of one attribute, of the other, and of both."""
    return None if before else Call(Turn(MEALS, "dinner", (HEALTH, FOOD, FINANCE)), draws=2)


def _goes_away_and_asks_again(before: tuple[Replying, ...]) -> Call | None:
    """Goes away after one token; what it saw decides who asks about what next."""
    match before:
        case ():
            return Call(Turn(MEALS, "dinner", (FOOD,)), leaves_after=1)
        case (first,) if first.visible == (0,):
            return Call(Turn(COACH, "rent", (FINANCE,)), draws=1)
        case (_,):
            return Call(Turn(COACH, "lunch", (FOOD,)), draws=2, leaves_after=0)
        case _:
            return None


def _until_nothing_is_left(before: tuple[Replying, ...]) -> Call | None:
    """Two tokens at a time; the more a reply used, the less the next one may reserve."""
    if len(before) > 1:
        return None
    return Call(Turn(MEALS, f"dinner {len(before)}", (FOOD,)), draws=2)


COURSES: Mapping[str, tuple[Strategy, int, str, Texts]] = {
    "one_reply": (_one_reply, 3, "0.001", SHOUTS),
    "ends_early": (_one_reply, 3, "0.001", ENDS),
    "three_cells": (_three_cells, 2, "0.001", CROSSWISE),
    "goes_away_and_asks_again": (_goes_away_and_asks_again, 4, "0.001", SHOUTS),
    "until_nothing_is_left": (_until_nothing_is_left, 3, "0.001", SHOUTS),
    "views_and_text": (_one_reply, 3, "1.5", WITH_VIEWS),
    "views_then_again": (_goes_away_and_asks_again, 4, "1.5", WITH_VIEWS),
}
"""Each with the draws that its fused budget is for, its caps, and what positions may hold.

Caps of 0.001 leave views hardly anything to say, so that what text says is measured alone.
"""


def course(name: str, parameters: FusionParameters, model: Model = loud_model) -> Course:
    """The course of this name."""
    strategy, draws, cap, texts = COURSES[name]
    promises = promises_for(parameters, draws, cap)
    return Course(name, promises, parameters, strategy, texts, model)
