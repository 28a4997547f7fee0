"""When to draw a view, from which candidates, and when a released one is used again.

Decides the plan of one release from public input, charges and released views alone (C4); using a
released view again is post-processing and costs nothing (C3, GUARANTEE §3). What is *not* here:
what a release costs (`allocation`), whether it still fits (`ledger`), scores.

The rule of `Standing`:

1. candidates are the views that suit the query best, by public relevance;
2. a slot draws as often as its share is divided (`releases`), and never when the public belief in
   one view already exceeds `e^ε / (1 + e^ε)`;
3. the standing view is the released one with the highest belief; it fits a query that it suits at
   least as well as the generic view does; where it fits it is used, at no cost;
4. where it does not fit and no draw is left, the generic view answers.

The belief starts uniform over the slot's views and is updated by the known probabilities of each
release: it is public, like everything it is made of.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tactful_core.allocation import Standing
from tactful_core.entries import Mechanism, ViewReleased
from tactful_core.layout import Slot
from tactful_core.ledger import Ledger
from tactful_core.promises import Promises
from tactful_core.scoring import PRIVATE_RANGE, Scores
from tactful_core.selection import (
    Exponential,
    PermuteAndFlip,
    RandomizedResponse,
    SelectionMechanism,
    WeightedExponential,
    certain_enough,
)
from tactful_core.values import Secret, Units, ViewName

Belief = tuple[Fraction, ...]
"""The public probability that each view of a slot is its best one, given what was released."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Draw one of `candidates`, indices into the slot's vocabulary, and charge for it."""

    mechanism: SelectionMechanism
    candidates: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reuse:
    """Answer with a view that was released before, at no cost."""

    view: int


@dataclass(frozen=True, slots=True)
class NothingLeft:
    """No released view fits, and the slot's share is used up."""


Plan = Draw | Reuse | NothingLeft


def plan_release(
    promises: Promises,
    slot: Slot,
    epsilon: Units,
    relevance: tuple[float, ...],
    ledger: Ledger,
) -> Plan:
    """Whether to draw for this turn, and from what.

    Args:
        relevance: one number a view: how well it suits this query; public.
        ledger: what was charged and released so far.
    """
    rule, everything = promises.allocation, tuple(range(len(slot.vocabulary)))
    if not isinstance(rule, Standing):
        return Draw(mechanism_of(promises.mechanism, epsilon, len(everything)), everything)
    released = known_releases(slot, ledger)
    belief = belief_of(slot, released)
    standing = _standing_view(slot, released, belief)
    fits = standing is not None and relevance[standing] >= relevance[0]
    if standing is not None and fits:
        return Reuse(standing)
    if ledger.charges.get(slot.name, 0) < rule.releases and not certain_enough(
        max(belief), epsilon
    ):
        candidates = candidate_views(relevance, rule.candidates)
        return Draw(mechanism_of(promises.mechanism, epsilon, len(candidates)), candidates)
    return NothingLeft()


def candidate_views(relevance: tuple[float, ...], count: int) -> tuple[int, ...]:
    """The views that suit the query best, in the order of the vocabulary; the earlier of equals."""
    ranked = sorted(range(len(relevance)), key=lambda view: (-relevance[view], view))
    return tuple(sorted(ranked[:count]))


def mechanism_of(name: Mechanism, epsilon: Units, views: int) -> SelectionMechanism:
    """The mechanism of that name for a choice among `views` views."""
    match name:
        case Mechanism.EXPONENTIAL:
            return Exponential(epsilon)
        case Mechanism.WEIGHTED_EXPONENTIAL:
            return WeightedExponential(epsilon, (1,) * views)
        case Mechanism.PERMUTE_AND_FLIP:
            return PermuteAndFlip(epsilon)
        case Mechanism.RANDOMIZED_RESPONSE:
            return RandomizedResponse(epsilon)


def known_releases(slot: Slot, ledger: Ledger) -> tuple[ViewReleased, ...]:
    """What was released for a slot in this epoch, as far as today's vocabulary still has it."""
    names = {view.name for view in slot.vocabulary}
    released = ledger.released.get(slot.name, ())
    return tuple(each for each in released if names.issuperset(each.candidates))


def belief_of(slot: Slot, released: tuple[ViewReleased, ...]) -> Belief:
    """Bayes' rule from a uniform prior; each release speaks with its known probabilities."""
    weights = [Fraction(1)] * len(slot.vocabulary)
    for release in released:
        for index, view in enumerate(slot.vocabulary):
            weights[index] *= _likelihood(release, view.name)
    total = sum(weights)
    return tuple(weight / total for weight in weights)


def _likelihood(release: ViewReleased, best: ViewName) -> Fraction:
    """The probability of what was released if `best` were the slot's best view, by all it can lead.

    A best view that was no candidate says nothing about which one is drawn.
    """
    views = len(release.candidates)
    if best not in release.candidates:
        return Fraction(1, views)
    lead = release.candidates.index(best)
    scores = Scores(
        public=(0,) * views,
        private=Secret(tuple(PRIVATE_RANGE * (index == lead) for index in range(views))),
    )
    mechanism = mechanism_of(release.mechanism, release.units, views)
    return mechanism.distribution(scores)[release.candidates.index(release.view)]


def _standing_view(slot: Slot, released: tuple[ViewReleased, ...], belief: Belief) -> int | None:
    """The released view with the highest belief; the earlier of equals; `None` before the first."""
    names = {each.view for each in released}
    indices = [index for index, view in enumerate(slot.vocabulary) if view.name in names]
    return max(indices, key=lambda index: (belief[index], -index), default=None)
