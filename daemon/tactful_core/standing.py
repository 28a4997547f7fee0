"""When to draw a view, from which candidates, and when a released one is used again.

Decides the plan of one release from public input, charges and released views alone (C4); using a
released view again is post-processing and costs nothing (C3, GUARANTEE §3). What is *not* here:
what a release costs (`allocation`), whether it still fits (`ledger`), scores.

The rule of `Standing` (docs/decisions/0004):

1. a draw is from groups of views: the generic view, the most relevant others each by itself, and
   all the rest in one. Contents alone decide which group is best. With two candidates, "the
   generic view" and "one of the others", no query has a part in the draw: none can waste it;
2. a slot draws as often as its share is divided (`releases`), and never when the public belief in
   one view already exceeds `e^ε / (1 + e^ε)`;
3. what is released is that the slot's best view is in a group; within the views that are believed
   in most, what the app asks says which one answers, at no cost; it fits where it is at least as
   relevant as the generic view;
4. it is used again where the same shelves are read (`layout.ReadRule`); the draws of a slot are
   shared by all that it may read;
5. where nothing fits and no draw is left, the generic view answers.

The belief starts uniform over the slot's views and is updated by the known probabilities of each
release: it is public, like everything it is made of.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

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
    """Draw one of several groups of views, and charge for it.

    Attributes:
        groups: disjoint, indices into the slot's vocabulary; the first of each answers this turn.
        lasting: whether what is drawn stands for the epoch; then contents alone are judged.
    """

    mechanism: SelectionMechanism
    groups: tuple[tuple[int, ...], ...]
    lasting: bool

    @property
    def candidates(self) -> tuple[int, ...]:
        """The view that each group answers this turn with."""
        return tuple(group[0] for group in self.groups)

    def judged(self, scores: Scores) -> Scores:
        """The scores of the groups, of which each counts for its best view."""
        return (scores.of_contents() if self.lasting else scores).of_groups(self.groups)


@dataclass(frozen=True, slots=True)
class Reuse:
    """Answer with a view of a group that was released before, at no cost."""

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
        relevance: one number a view: how well it suits what the app asks; public.
        ledger: what was charged and released so far.
    """
    rule, everything = promises.allocation, range(len(slot.vocabulary))
    if not isinstance(rule, Standing):
        mechanism = mechanism_of(promises.mechanism, epsilon, len(everything))
        return Draw(mechanism, tuple((view,) for view in everything), lasting=False)
    released = known_releases(slot, ledger)
    if released:
        standing = _standing_view(belief_of(slot, released), relevance)
        if relevance[standing] >= relevance[0]:
            return Reuse(standing)
    if draws_left(rule, slot, epsilon, ledger):
        groups = candidate_groups(relevance, rule.candidates)
        return Draw(mechanism_of(promises.mechanism, epsilon, len(groups)), groups, lasting=True)
    return NothingLeft()


def draws_left(rule: Standing, slot: Slot, epsilon: Units, ledger: Ledger) -> int:
    """How often a slot may still draw in this epoch, as far as the rule goes."""
    if certain_enough(max(belief_of(slot, known_releases(slot, ledger))), epsilon):
        return 0
    return max(0, rule.releases - ledger.charges.get(slot.name, 0))


def release_mechanism(promises: Promises, slot: Slot) -> SelectionMechanism:
    """What a release of the slot is drawn with, whatever is asked; its `charge` is the price.

    Raises:
        ContractError: the slot's charge set is empty, or a cap is too small to be divided.
    """
    rule, views = promises.allocation, len(slot.vocabulary)
    candidates = min(views, rule.candidates) if isinstance(rule, Standing) else views
    return mechanism_of(promises.mechanism, promises.epsilon(slot), candidates)


def candidate_groups(relevance: tuple[float, ...], count: int) -> tuple[tuple[int, ...], ...]:
    """At most `count` groups of all views: generic, the most relevant others alone, the rest."""
    ranked = sorted(range(1, len(relevance)), key=lambda view: (-relevance[view], view))
    alone, rest = ranked[: count - 2], tuple(ranked[count - 2 :])
    groups = ((0,), *((view,) for view in alone), rest)
    return tuple(group for group in groups if group)


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
    """What was released for a slot in this epoch, from the shelves that this turn reads.

    As far as today's vocabulary still has it. Using any of the others would be free as well; but it
    was found where the policy says that this turn should not look.
    """
    names, read = {view.name for view in slot.vocabulary}, frozenset(slot.positions)
    released = ledger.released.get(slot.name, ())
    return tuple(
        each
        for each in released
        if names.issuperset(each.candidates) and ledger.read.get(each.charge, read) == read
    )


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

    The last candidate stands for every view that is not named before it (`candidate_groups`).
    """
    views, named = len(release.candidates), release.candidates[:-1]
    lead = named.index(best) if best in named else views - 1
    return _chances(release.mechanism, release.units, views, lead)[
        release.candidates.index(release.view)
    ]


@lru_cache(maxsize=256)
def _chances(name: Mechanism, epsilon: Units, views: int, lead: int) -> tuple[Fraction, ...]:
    """The distribution over so many candidates of which one leads by all it can."""
    scores = Scores(
        public=(0,) * views,
        private=Secret(tuple(PRIVATE_RANGE * (index == lead) for index in range(views))),
    )
    return mechanism_of(name, epsilon, views).distribution(scores)


def _standing_view(belief: Belief, relevance: tuple[float, ...]) -> int:
    """Of the views that are believed in most, the generic one, or else the most relevant one."""
    most = max(belief)
    believed = [view for view, part in enumerate(belief) if part == most]
    return 0 if 0 in believed else max(believed, key=lambda view: (relevance[view], -view))
