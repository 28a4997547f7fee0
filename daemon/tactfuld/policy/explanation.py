"""What a policy makes of one question of an app, from public input alone.

Decides what `tactful policy explain` says about slots that a question is about: what is read, who
pays how much, how good a draw is, and what answers once nothing is left. What is *not* here: which
slots those are (`tactfuld.router`), what is left today (`tactfuld.budget`), words for people.

Invariant: memory, ledgers and scores have no part in it; two owners with one policy are told the
same.
"""

from __future__ import annotations

from dataclasses import dataclass

from tactful_core.allocation import Standing
from tactful_core.layout import Slot
from tactful_core.ledger import Ledger, charges_left
from tactful_core.promises import Promises
from tactful_core.scoring import PRIVATE_RANGE, Scores
from tactful_core.standing import draws_left, release_mechanism
from tactful_core.values import AppId, Secret, epsilon_of


@dataclass(frozen=True, slots=True)
class Payer:
    """An attribute that a release is charged to, with its cap in epsilon."""

    attribute: str
    cap: float


@dataclass(frozen=True, slots=True)
class Release:
    """A draw of a view.

    Attributes:
        epsilon: what one costs every payer.
        payers: the charge set.
        most: how many there can be in an epoch in which nobody else asks.
        lasting: whether what is drawn answers for the rest of the epoch, at no further cost.
        candidates: how many views, or groups of views, a draw chooses from.
        right: the probability of drawing the best one where memory speaks for it as clearly as it
            can, and the question for none more than for another.
    """

    epsilon: float
    payers: tuple[Payer, ...]
    most: int
    lasting: bool
    candidates: int
    right: float


@dataclass(frozen=True, slots=True)
class Explained:
    """One slot that the question is about.

    Attributes:
        shelves: the read set; nothing is read where `release` is absent and it is protected.
        release: `None` where nothing is drawn: one view only, or nothing to be charged.
        unprotected: the owner's word that reading it costs nothing.
        generic: how it is answered once nothing is left.
    """

    slot: str
    shelves: tuple[str, ...]
    positions: int
    unprotected: bool
    views: int
    generic: str
    release: Release | None


def explained(promises: Promises, app: AppId, slot: Slot) -> Explained:
    """What a turn does with one slot, whose shelves are those that the turn reads."""
    return Explained(
        slot=slot.name,
        shelves=tuple(shelf.name for shelf in slot.shelves),
        positions=len(slot.positions),
        unprotected=promises.layout.is_unprotected(slot.positions),
        views=len(slot.vocabulary),
        generic=slot.generic.guidance,
        release=_release(promises, app, slot),
    )


def _release(promises: Promises, app: AppId, slot: Slot) -> Release | None:
    charge_set = promises.charge_set(slot)
    if not charge_set or len(slot.vocabulary) == 1:
        return None
    rule, mechanism = promises.allocation, release_mechanism(promises, slot)
    views = len(slot.vocabulary)
    candidates = min(views, rule.candidates) if isinstance(rule, Standing) else views
    most = charges_left(Ledger(), app, charge_set, mechanism.charge, promises)
    if isinstance(rule, Standing):
        most = min(most, draws_left(rule, slot, promises.epsilon(slot), Ledger()))
    clear = Scores(
        public=(0,) * candidates,
        private=Secret(tuple(PRIVATE_RANGE * (view == 0) for view in range(candidates))),
    )
    return Release(
        epsilon=epsilon_of(mechanism.charge),
        payers=tuple(
            Payer(attribute.name, epsilon_of(attribute.cap))
            for attribute in promises.layout.attributes
            if attribute.name in charge_set
        ),
        most=most,
        lasting=isinstance(rule, Standing),
        candidates=candidates,
        right=float(mechanism.distribution(clear)[0]),
    )
