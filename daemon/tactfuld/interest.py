"""What an app has been asking about, for rules that last longer than one question.

Decides how the relevance of a slot's views to several questions of one app becomes one number a
view: the mean over its newest questions. What is *not* here: relevance to one question (`scorer`),
and what follows from it (`tactful_core.standing`).

A single question often fits many views ("What shall we have for dinner?"); a few of them rarely do.

Invariants:

- an app's own questions count and nothing else (C4): no other app's, no memory, nothing released;
- forgotten when the daemon stops or the policy changes; never written anywhere.
"""

from __future__ import annotations

from collections import deque

from tactful_core.interface import Scorer
from tactful_core.layout import Slot
from tactful_core.scoring import Evidence
from tactful_core.values import AppId, Secret, SlotName

NEWEST = 8
"""So many questions of an app about a slot count."""

Relevance = tuple[float, ...]


class Interest:
    """The newest questions of every app about every slot, as the relevance of each view to them."""

    def __init__(self) -> None:
        self._asked: dict[tuple[AppId, SlotName], deque[Relevance]] = {}

    def asked(self, app: AppId, slot: SlotName, relevance: Relevance) -> None:
        """Remembers a question."""
        self._asked.setdefault((app, slot), deque(maxlen=NEWEST - 1)).append(relevance)

    def including(self, app: AppId, slot: SlotName, relevance: Relevance) -> Relevance:
        """The mean of what is remembered and of one more question, which is not remembered yet."""
        several = (*self._asked.get((app, slot), ()), relevance)
        return tuple(sum(of_view) / len(several) for of_view in zip(*several, strict=True))


class InterestedScorer:
    """A `Scorer` for one app: a query counts together with the app's earlier ones.

    Args:
        remembers: whether its queries count for the app's later ones.
    """

    def __init__(
        self, scorer: Scorer, interest: Interest, app: AppId, *, remembers: bool = True
    ) -> None:
        self._scorer = scorer
        self._interest = interest
        self._app = app
        self._remembers = remembers

    async def relevance(self, query: str, slot: Slot) -> Relevance:
        """The mean over this query and the app's earlier ones."""
        alone = await self._scorer.relevance(query, slot)
        mean = self._interest.including(self._app, slot.name, alone)
        if self._remembers:
            self._interest.asked(self._app, slot.name, alone)
        return mean

    async def evidence(self, slot: Slot, rows: Secret[tuple[str, ...]]) -> Evidence:
        """What the scorer finds; questions do not count."""
        return await self._scorer.evidence(slot, rows)
