"""A `Scorer` for which texts name the views that they speak for.

A query is relevant to the views it names; a row supports the views it names. `low_sugar` speaks
with full strength, `low_sugar=0.5` with half of it, and the strongest voice counts. An empty row,
which is what padding looks like, speaks for none. So every vector of scores can be written down as
the contents of a row, and stores with extreme scores are easily enumerated.
"""

import math

from tactful_core.layout import Slot
from tactful_core.scoring import Evidence
from tactful_core.values import Secret

UNSCORABLE = "unscorable"
"""A row with this word makes the scorer raise `UnscorableTextError`."""


class UnscorableTextError(Exception):
    """Contents on which a scorer fails; the message holds the contents, which must never show."""


class NamingScorer:
    """Compatibility and specificity are both the strongest voice for a view."""

    async def relevance(self, query: str, slot: Slot) -> tuple[float, ...]:
        return _voices((query,), slot)

    async def evidence(self, slot: Slot, rows: Secret[tuple[str, ...]]) -> Evidence:
        texts = rows.reveal()
        if any(UNSCORABLE in text.split() for text in texts):
            raise UnscorableTextError(f"cannot score {texts}")
        voices = _voices(texts, slot)
        return Evidence(Secret(voices), Secret(voices))


def _voices(texts: tuple[str, ...], slot: Slot) -> tuple[float, ...]:
    strengths: dict[str, float] = {}
    for word in " ".join(texts).split():
        name, _, strength = word.partition("=")
        strengths[name] = max(strengths.get(name, -math.inf), float(strength or "1"))
    return tuple(strengths.get(view.name, 0.0) for view in slot.vocabulary)
