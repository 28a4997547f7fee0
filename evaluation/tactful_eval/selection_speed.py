"""How long one selection takes at eight views, outside storage and scoring.

Decides microseconds for weights and draw of each mechanism, prepared as the daemon prepares them.
The goal is below 100 µs.
"""

from __future__ import annotations

import time
from statistics import median

from tactful_core.entries import Mechanism
from tactful_core.sampling import SystemRandomness
from tactful_core.scoring import PRIVATE_RANGE, SCORE_ONE, Scores
from tactful_core.selection import SelectionMechanism
from tactful_core.standing import mechanism_of
from tactful_core.values import Secret, Units, units_from_epsilon

VIEWS = 8
EPSILON = Units(units_from_epsilon(2) // 3)


def selection_speed(rounds: int = 60, each: int = 100) -> dict[str, float]:
    """Median microseconds of one selection, by mechanism."""
    scores, randomness = _scores(), SystemRandomness()
    found = {}
    for name in Mechanism:
        mechanism = mechanism_of(name, EPSILON, VIEWS)
        mechanism.prepare()
        times = [_microseconds(mechanism, scores, randomness, each) for _ in range(rounds)]
        found[name.value] = median(times)
    return found


def _microseconds(
    mechanism: SelectionMechanism, scores: Scores, randomness: SystemRandomness, count: int
) -> float:
    started = time.perf_counter()
    for _ in range(count):
        mechanism.select(scores, randomness)
    return (time.perf_counter() - started) / count * 1e6


def _scores() -> Scores:
    public = SCORE_ONE - PRIVATE_RANGE
    return Scores(
        public=tuple(public * view // VIEWS for view in range(VIEWS)),
        private=Secret(tuple(PRIVATE_RANGE * (VIEWS - view) // VIEWS for view in range(VIEWS))),
    )
