"""The public benchmark of slots, stores and questions, as the core sees it.

Decides how `allocation_benchmark.yaml` becomes slots, adjacent stores and exact scores. What is
*not* here: what any rule makes of them (`courses`).

Invariants:

- M and M' differ in one position, which the attribute of every profile covers;
- scores are those of the real scorer, on the core's grid;
- a store's best view is the one with the highest sum of scores over the eight target questions,
  the earlier of equals: defined once for a pair, not for each question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tactful_core.layout import Shelf, Slot, View
from tactful_core.scoring import Evidence, Scores, scores_from
from tactful_core.values import Position, Secret, ShelfName, SlotName, ViewName
from tactfuld.inference.embedder import WordLlamaEmbedder
from tactfuld.scorer import EmbeddingScorer

SOURCE = Path(__file__).with_name("allocation_benchmark.yaml")
TARGET_TURNS = 8
TOKENS = 48

Relevance = tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One slot and one pair of adjacent stores.

    Attributes:
        slot: its only shelf has one position for each row, numbered from 1.
        relevance: for each target question, how relevant each view is to it alone.
        elsewhere: the same for questions that no special view has anything to say about.
        telling, neutral: what the scorer finds in M and in M'.
        best: the index of the view that is best under M.
    """

    topic: str
    slot: Slot
    relevance: tuple[Relevance, ...]
    elsewhere: tuple[Relevance, ...]
    telling: Evidence
    neutral: Evidence
    best: int

    @property
    def name(self) -> str:
        return f"{self.topic} in {self.slot.name}"

    def scores(self, relevance: Relevance, *, telling: bool) -> Scores:
        """Exact scores of all views under M (`telling`) or M'."""
        return scores_from(relevance, self.telling if telling else self.neutral)


@dataclass(frozen=True, slots=True)
class Profile:
    """Somebody with one hidden fact, protected by one attribute that one or more slots read."""

    name: str
    cases: tuple[Case, ...]


def totals(scores: Scores) -> tuple[int, ...]:
    """Public and private part of each view together."""
    return tuple(r + p for r, p in zip(scores.public, scores.private.reveal(), strict=True))


@cache
def cases() -> tuple[Case, ...]:
    """All cases, scored; takes a second or two, once."""
    document = YAML(typ="safe").load(SOURCE.read_text(encoding="utf-8"))
    slots = {name: _slot(name, each) for name, each in document["slots"].items()}
    scorer = EmbeddingScorer(WordLlamaEmbedder.load())
    scorer.prepare(tuple(slots.values()))
    return asyncio.run(_scored(document, slots, scorer))


def profiles(slots_each: int) -> tuple[Profile, ...]:
    """One profile for each case, or one for each topic that has `slots_each` cases."""
    if slots_each == 1:
        return tuple(Profile(case.name, (case,)) for case in cases())
    topics: dict[str, list[Case]] = {}
    for case in cases():
        topics.setdefault(case.topic, []).append(case)
    return tuple(
        Profile(topic, tuple(found)) for topic, found in topics.items() if len(found) == slots_each
    )


async def _scored(
    document: Mapping[str, Any], slots: Mapping[str, Slot], scorer: EmbeddingScorer
) -> tuple[Case, ...]:
    return tuple(
        [
            await _case(scorer, slots[each["slot"]], document["slots"][each["slot"]], each)
            for each in document["cases"]
        ]
    )


def _slot(name: str, source: Mapping[str, Any]) -> Slot:
    rows = 1 + len(source["background"])
    shelf = Shelf(ShelfName(f"{name}.all"), tuple(map(Position, range(1, rows + 1))), TOKENS)
    return Slot(
        name=SlotName(name),
        description=source["description"],
        shelves=(shelf,),
        vocabulary=tuple(
            View(
                name=ViewName(view),
                guidance=texts["guidance"],
                supports=tuple(texts.get("supports", ())),
                examples=tuple(texts.get("examples", ())),
            )
            for view, texts in source["views"].items()
        ),
    )


async def _case(
    scorer: EmbeddingScorer, slot: Slot, shared: Mapping[str, Any], source: Mapping[str, Any]
) -> Case:
    async def relevances(queries: Sequence[str]) -> tuple[Relevance, ...]:
        return tuple([await scorer.relevance(query, slot) for query in queries])

    async def evidence(differing: str) -> Evidence:
        return await scorer.evidence(slot, Secret((differing, *shared["background"])))

    relevance = await relevances(source["queries"])
    telling = await evidence(source["memory"])
    return Case(
        topic=source["topic"],
        slot=slot,
        relevance=relevance,
        elsewhere=await relevances(shared["elsewhere"]),
        telling=telling,
        neutral=await evidence(source["neutral"]),
        best=_best(relevance, telling, len(slot.vocabulary)),
    )


def _best(relevance: tuple[Relevance, ...], evidence: Evidence, views: int) -> int:
    each = [totals(scores_from(one, evidence)) for one in relevance]
    sums = [sum(total[view] for total in each) for view in range(views)]
    return sums.index(max(sums))
