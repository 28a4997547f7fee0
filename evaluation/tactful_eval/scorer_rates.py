"""How often the best view by contents is the right one, by embeddings and by a model, at what cost.

Decides what is counted, with intervals, and what a release costs. What is *not* here: the cases
(`scorer_cases`), the scorers (`tactfuld.scorer`, `tactfuld.model_scorer`).

Invariants:

- both scorers judge the same cases; only contents count, questions and chance do not;
- what a model said of a case is kept under a hash of the model file and all that it was shown, so
  a run that was stopped goes on, and whatever changes is asked anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from tactful_core.layout import Slot
from tactful_core.scoring import Evidence, scores_from
from tactful_core.values import Secret
from tactful_eval.answer_rates import Rate
from tactful_eval.scorer_cases import Case
from tactful_policies import starter_text
from tactfuld.inference.embedder import WordLlamaEmbedder
from tactfuld.inference.engine import BATCH, available_cores
from tactfuld.inference.footprint import preflight
from tactfuld.inference.judging import Judgement, Note, Plan, judge, plan
from tactfuld.model_scorer import capacities, evidence_from, judgement
from tactfuld.policy.loading import parse_policy
from tactfuld.scorer import EmbeddingScorer

if TYPE_CHECKING:
    from tactfuld.inference.llama_api import LlamaModel

CONTEXT: Final = 2048

Judging = Callable[[Slot, tuple[str, ...]], Evidence]
"""Evidence of a slot's views in some rows."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one scorer made of one case.

    Attributes:
        best: the right view is the best of all.
        special: it is the best of the special ones.
        generic: the generic view is the best of all in the opposite rows.
        apart: it has a higher part in the rows than in the opposite ones; half if equal.
    """

    best: bool
    special: bool
    generic: bool
    apart: float


@dataclass(frozen=True, slots=True)
class ScorerRates:
    """One scorer on one set of cases."""

    best: Rate
    special: Rate
    generic: Rate
    apart: float


def found(case: Case, judging: Judging) -> Found:
    """One case."""
    views = [view.name for view in case.slot.vocabulary]
    right = views.index(case.right)
    evidence, opposite = (judging(case.slot, rows) for rows in (case.rows, case.opposite))
    parts, others = evidence.compatibility.reveal(), opposite.compatibility.reveal()
    nothing = (0.0,) * len(views)
    difference = parts[right] - others[right]
    return Found(
        best=scores_from(nothing, evidence).best() == right,
        special=parts[right] > 0 and parts[right] == max(parts[1:]),
        generic=scores_from(nothing, opposite).best() == 0,
        apart=0.5 if difference == 0 else float(difference > 0),
    )


def scorer_rates(cases: Sequence[Case], judging: Judging) -> ScorerRates:
    """One scorer on all cases of a set."""
    results = [found(case, judging) for case in cases]
    of = len(results)
    return ScorerRates(
        best=Rate(sum(each.best for each in results), of),
        special=Rate(sum(each.special for each in results), of),
        generic=Rate(sum(each.generic for each in results), of),
        apart=sum(each.apart for each in results) / of,
    )


class EmbeddingJudging:
    """What the embedding scorer finds."""

    def __init__(self) -> None:
        self._embedder = WordLlamaEmbedder.load()

    def __call__(self, slot: Slot, rows: tuple[str, ...]) -> Evidence:
        return asyncio.run(self._prepared(slot).evidence(slot, Secret(rows)))

    def cost_ms(self) -> float:
        """Milliseconds that the largest slot takes, full; median of nine."""
        slot = largest_slot()
        scorer = self._prepared(slot)
        rows = Secret(tuple("word " * size for size in capacities(slot)))
        times = []
        for _ in range(9):
            started = time.perf_counter()
            asyncio.run(scorer.evidence(slot, rows))
            times.append(1000 * (time.perf_counter() - started))
        return median(times)

    def _prepared(self, slot: Slot) -> EmbeddingScorer:
        scorer = EmbeddingScorer(self._embedder)
        scorer.prepare((slot,))
        return scorer


@dataclass(frozen=True, slots=True)
class ModelCost:
    """Tokens that judging the largest slot of the everyday policy computes, and milliseconds of it.

    `processor` counts the work of all cores, `wall` depends on what else they do.
    """

    slot: str
    tokens: int
    wall_ms: float
    processor_ms: float


class ModelJudging:
    """What the model scorer finds with one loaded model; `kept` is a file of what it said before.

    The fixed time that the daemon puts around it is left out.
    """

    def __init__(self, model: LlamaModel, fingerprint: str, kept: Path | None) -> None:
        self._model = model
        self._fingerprint = fingerprint
        self._path = kept
        self._said: dict[str, tuple[float, ...]] = {}
        if kept is not None and kept.exists():
            for line in kept.read_text("utf-8").splitlines():
                record = json.loads(line)
                self._said[record["key"]] = tuple(record["odds"])

    def __call__(self, slot: Slot, rows: tuple[str, ...]) -> Evidence:
        asked, sizes = judgement(slot), capacities(slot)
        notes = tuple(Note(text, size) for text, size in zip(rows, sizes, strict=True))
        return evidence_from(slot, self._odds(asked, notes), self._odds(asked, ()))

    def cost(self, at_most: int = 1500) -> ModelCost:
        """Of the largest slot, from the part of it that takes at most so many tokens."""
        slot = largest_slot()
        asked, sizes = judgement(slot), capacities(slot)
        plans = [self._plan(asked, sizes[:count]) for count in range(1, len(sizes))]
        part = max((each for each in plans if each.tokens <= at_most), key=lambda each: each.tokens)
        notes = tuple(Note("word " * size, size) for size in sizes[: len(part.capacities)])
        started, worked = time.perf_counter(), time.process_time()
        judge(self._model, part, notes)
        wall, work = time.perf_counter() - started, time.process_time() - worked
        whole = self._plan(asked, sizes).tokens
        factor = 1000 * whole / part.tokens
        return ModelCost(str(slot.name), whole, factor * wall, factor * work)

    def _plan(self, asked: Judgement, sizes: Sequence[int]) -> Plan:
        return plan(self._model, asked, sizes, self._model.context_length)

    def _odds(self, asked: Judgement, notes: tuple[Note, ...]) -> tuple[float, ...]:
        shown = [asdict(asked), [asdict(note) for note in notes], self._fingerprint]
        key = hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()
        if key not in self._said:
            shape = self._plan(asked, [note.capacity for note in notes])
            self._said[key] = judge(self._model, shape, notes)
            self._append({"key": key, "odds": self._said[key]})
        return self._said[key]

    def _append(self, record: dict[str, object]) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(record) + "\n")


@contextmanager
def open_judging(path: Path, threads: int | None, kept: Path | None) -> Iterator[ModelJudging]:
    """Hold the model at `path`."""
    preflight(path, CONTEXT)
    from tactfuld.inference.llama_api import LlamaModel, LoadRequest

    model = LlamaModel(
        LoadRequest(path, CONTEXT, BATCH, threads or available_cores(), lambda _done: True)
    )
    try:
        with path.open("rb") as stream:
            fingerprint = hashlib.file_digest(stream, "sha256").hexdigest()
        yield ModelJudging(model, fingerprint, kept)
    finally:
        model.close()


def largest_slot() -> Slot:
    """The slot of the everyday policy with most room."""
    slots = parse_policy(starter_text("everyday"), source="everyday").layout.slots
    return max(slots, key=lambda slot: sum(capacities(slot)))
