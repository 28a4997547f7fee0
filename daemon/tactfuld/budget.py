"""What is left for a slot, in the only words that an app may hear.

Decides from the policy and the ledger, both public; names neither attributes nor caps. What is
*not* here: what is left for an attribute, which only the owner is shown (`server.owner_methods`).
"""

from __future__ import annotations

from tactful.wire import AnswerKind, SlotBudget
from tactful_core.allocation import Standing, release_epsilon
from tactful_core.layout import Slot
from tactful_core.ledger import Ledger, UnreadableLedger, charges_left
from tactful_core.promises import Promises
from tactful_core.standing import known_releases
from tactful_core.values import AppId


def slot_budget(
    app: AppId, slot: Slot, promises: Promises, ledger: Ledger | UnreadableLedger
) -> SlotBudget:
    """How many fresh answers are left to the app for a slot, and what the next one would be."""
    left = _fresh_left(app, slot, promises, ledger)
    return SlotBudget(
        slot=slot.name, answer=_next_answer(slot, promises, ledger, left), fresh_left=left
    )


def _fresh_left(
    app: AppId, slot: Slot, promises: Promises, ledger: Ledger | UnreadableLedger
) -> int:
    charge_set = promises.charge_set(slot)
    if not charge_set or len(slot.vocabulary) == 1 or isinstance(ledger, UnreadableLedger):
        return 0
    epsilon = release_epsilon(promises.allocation, promises.layout, slot, charge_set)
    left = charges_left(ledger, app, charge_set, epsilon, promises)
    rule = promises.allocation
    if isinstance(rule, Standing):
        left = min(left, max(0, rule.releases - ledger.charges.get(slot.name, 0)))
    return left


def _next_answer(
    slot: Slot, promises: Promises, ledger: Ledger | UnreadableLedger, left: int
) -> AnswerKind:
    if isinstance(ledger, UnreadableLedger):
        return AnswerKind.GENERIC
    if isinstance(promises.allocation, Standing) and known_releases(slot, ledger):
        return AnswerKind.STANDING
    return AnswerKind.FRESH if left else AnswerKind.GENERIC
