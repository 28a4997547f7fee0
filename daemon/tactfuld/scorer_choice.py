"""Which scorer judges views: the one that the settings choose.

Decides how it is made and that the owner hears what it costs. What is *not* here: what scorers do
(`scorer`, `model_scorer`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tactful_core.layout import Slot
from tactfuld.clock import Clock
from tactfuld.inference.embedder import Embedder
from tactfuld.inference.errors import EngineClosed, InferenceError
from tactfuld.inference.judging import Judge
from tactfuld.model_scorer import ModelScorer, Seconds
from tactfuld.notices import Notices
from tactfuld.scorer import EmbeddingScorer
from tactfuld.settings import ScorerName

SUBJECT = "scorer"
"""What notices about it are about."""


@dataclass(frozen=True, slots=True)
class ScorerChoice:
    """Makes scorers, one for each version of the policy."""

    name: ScorerName
    embedder: Embedder
    judge: Judge
    clock: Clock
    notices: Notices
    deadline_ms: int

    def prepared(self, slots: tuple[Slot, ...]) -> EmbeddingScorer | ModelScorer:
        """A scorer for these slots; slow, off the event loop."""
        scorer: EmbeddingScorer | ModelScorer = EmbeddingScorer(self.embedder)
        if self.name == "model":
            scorer = ModelScorer(EmbeddingScorer(self.embedder), self.judge, self.clock, self)
        scorer.prepare(slots)
        return scorer

    async def measure(self, scorer: object) -> None:
        """Measures a scorer by the model once that is loaded; what keeps it from that is told."""
        if not isinstance(scorer, ModelScorer):
            return
        try:
            await scorer.measure()
        except EngineClosed:
            return
        except InferenceError as error:
            self.notices.replace(
                SUBJECT,
                f"Views cannot be scored by the model; until they can, they are drawn as if "
                f"nothing were filed, and the charges stand. {error}",
            )

    def scoring_takes(self, seconds: Seconds) -> None:
        """Says how long it takes, and that this is longer than a turn's fixed time."""
        slow = {name: taken for name, taken in seconds.items() if taken * 1000 > self.deadline_ms}
        if not slow:
            self.notices.replace(SUBJECT, None)
            return
        each = ", ".join(f"{name} {taken:.1f}" for name, taken in slow.items())
        self.notices.replace(
            SUBJECT,
            f"With `scorer: model` a turn that draws a view takes so many seconds for each slot "
            f"that it draws for: {each}. That is more than turn.deadline_ms ({self.deadline_ms}), "
            "so such a turn ends at a later multiple of it. `scorer: embedding` takes "
            "milliseconds.",
        )

    def scoring_missed(self) -> None:
        """Says that a judgement took longer than was measured."""
        self.notices.add(
            "Scoring views by the model took longer than was measured when it was loaded; the "
            "answer was held back to the next multiple of that time. If this happens often, set "
            "`scorer: embedding`, or leave the model more of the processor."
        )
