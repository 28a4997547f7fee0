"""A version of the policy, and what answers under it: who may ask, about what, in which views.

Decides from the policy and the question alone. What is *not* here: which version is in force
(`policy_in_force`), the turns that are answered under it (`gate`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tactful.errors import Denied
from tactful.wire import Ask, OfferedView, SlotVocabulary, Vocabulary
from tactful_core.interface import Scorer
from tactful_core.layout import Slot
from tactful_core.promises import Grant, Promises
from tactful_core.values import AppId
from tactfuld.router import Router


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """A version of the policy, and what answers under it.

    Attributes:
        name: what apps see of it: changes with it, tells nothing about it.
    """

    promises: Promises
    router: Router
    scorer: Scorer
    name: str

    def granted(self, app: AppId) -> Grant:
        """What the app may ask about.

        Raises:
            Denied: nothing.
        """
        grant = self.promises.grant(app)
        if grant is None or not grant.slots:
            raise Denied(
                "This app may not ask anything. The owner grants slots under 'apps' in the policy."
            )
        return grant

    def vocabulary(self, app: AppId) -> Vocabulary:
        """The public views of the slots that the app was granted.

        Raises:
            Denied: the policy grants the app nothing.
        """
        grant = self.granted(app)
        granted = [slot for slot in self.promises.layout.slots if slot.name in grant.slots]
        return Vocabulary(slots=tuple(map(_vocabulary, granted)), policy=self.name)

    async def active_slots(
        self, question: Ask, grant: Grant, earlier: tuple[str, ...]
    ) -> tuple[Slot, ...]:
        """The slots that a question is about, each with the shelves that it reads.

        Args:
            earlier: what was asked before in its thread, oldest first.

        Raises:
            Denied: the question names a slot that is not granted.
        """
        return await self.router.active_slots(question.query, grant, question.slots, earlier)


def _vocabulary(slot: Slot) -> SlotVocabulary:
    views = tuple(OfferedView(view=v.name, guidance=v.guidance) for v in slot.vocabulary)
    return SlotVocabulary(slot=slot.name, views=views)
