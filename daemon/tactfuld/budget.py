"""What is left for a slot, in the only words that an app may hear.

Decides from the policy, the ledger and the question, all of them public; names neither attributes
nor caps. What is *not* here: what is left for an attribute, which only the owner is shown
(`server.ledger_methods`).
"""

from __future__ import annotations

from tactful.wire import AnswerKind, SlotBudget
from tactful_core.allocation import Standing
from tactful_core.layout import Slot
from tactful_core.ledger import Ledger, UnreadableLedger, charges_left
from tactful_core.promises import Promises
from tactful_core.standing import (
    Reuse,
    draws_left,
    known_releases,
    plan_release,
    release_mechanism,
)
from tactful_core.values import AppId


def slot_budget(
    app: AppId,
    slot: Slot,
    promises: Promises,
    ledger: Ledger | UnreadableLedger,
    relevance: tuple[float, ...] | None = None,
) -> SlotBudget:
    """How many fresh answers are left to the app for a slot, and what the next one would be.

    Args:
        relevance: how well each view suits a question; `None` where none is asked yet.
    """
    if isinstance(ledger, UnreadableLedger) or len(slot.vocabulary) == 1:
        return _budget(slot, AnswerKind.GENERIC, 0)
    if not promises.charge_set(slot):
        if promises.layout.is_unprotected(slot.positions):
            return _budget(slot, AnswerKind.FRESH, None)
        return _budget(slot, AnswerKind.GENERIC, 0)
    left = _fresh_left(app, slot, promises, ledger)
    if _reuses(slot, promises, ledger, relevance):
        return _budget(slot, AnswerKind.STANDING, left)
    return _budget(slot, AnswerKind.FRESH if left else AnswerKind.GENERIC, left)


def _budget(slot: Slot, answer: AnswerKind, left: int | None) -> SlotBudget:
    return SlotBudget(slot=slot.name, answer=answer, fresh_left=left)


def _fresh_left(app: AppId, slot: Slot, promises: Promises, ledger: Ledger) -> int:
    price, rule = release_mechanism(promises, slot).charge, promises.allocation
    left = charges_left(ledger, app, promises.charge_set(slot), price, promises)
    if isinstance(rule, Standing):
        left = min(left, draws_left(rule, slot, promises.epsilon(slot), ledger))
    return left


def _reuses(
    slot: Slot, promises: Promises, ledger: Ledger, relevance: tuple[float, ...] | None
) -> bool:
    """Whether a view that was released before would answer: this question, or one that it fits."""
    if not isinstance(promises.allocation, Standing):
        return False
    if relevance is None:
        return bool(known_releases(slot, ledger))
    plan = plan_release(promises, slot, promises.epsilon(slot), relevance, ledger)
    return isinstance(plan, Reuse)
