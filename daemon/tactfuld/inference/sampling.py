"""How the response model's next token is drawn.

Decides: the public constants of sampling, and the draw itself. Not here: seeds (fresh for every
request, from `secrets`), the exact sampler of the mechanism and fused draws (tactful_core).

The draw is numpy's and not a chain of llama.cpp's samplers: that sorts the whole vocabulary for the
nucleus, which took a tenth of a token's time for one stream and as much again for each more. The
tokens that `min_p` leaves are a handful, and those of them that are in the nucleus are the same.

Invariants
- Nothing here depends on memory, scores or an app (GUARANTEE, C6).
- A draw is a function of the logits, of what was drawn before, and of the seed.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sampling:
    """Temperature (0 is greedy), nucleus mass, least relative probability, repeat penalty.

    The low temperature is for small models, whose less likely tokens are seldom good ones.
    `repeat_window` counts reply tokens that the penalty looks back on.
    """

    temperature: float = 0.15
    top_p: float = 0.9
    min_p: float = 0.05
    repeat_penalty: float = 1.1
    repeat_window: int = 128


class Sampler:
    """Draws the tokens of one reply, one after the other."""

    def __init__(self, sampling: Sampling, seed: int) -> None:
        self._sampling: Final = sampling
        self._random: Final = np.random.default_rng(seed)
        self._recent: Final[deque[int]] = deque(maxlen=max(1, sampling.repeat_window))

    def draw(self, logits: Logits) -> int:
        """Return the next token id; `logits` has shape (vocabulary,) and is left as it is."""
        wanted = penalised(logits, self._recent, self._sampling.repeat_penalty)
        token = self._draw(wanted)
        self._recent.append(token)
        return token

    def _draw(self, logits: Logits) -> int:
        if self._sampling.temperature == 0.0:
            return int(logits.argmax())
        tokens, chances = candidates(logits, self._sampling)
        weights = np.cumsum(chances ** (1 / self._sampling.temperature))
        return int(tokens[np.searchsorted(weights, self._random.random() * weights[-1])])


def penalised(logits: Logits, recent: Iterable[int], penalty: float) -> Logits:
    """`logits` with those of `recent` tokens made less likely; itself where there is no penalty.

    Positive ones are divided by `penalty`, the others multiplied (Keskar et al. 2019, as llama.cpp
    has it).
    """
    seen = list(set(recent))
    if penalty == 1.0 or not seen:
        return logits
    changed = logits.copy()
    old = changed[seen]
    changed[seen] = np.where(old > 0, old / penalty, old * penalty)
    return changed


def candidates(
    logits: Logits, sampling: Sampling
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """Token ids that may be drawn, likeliest first, and their chances relative to the likeliest.

    They are the smallest set of likeliest tokens with at least `top_p` of all mass, less those
    under `min_p` of the likeliest.
    """
    top = float(logits.max())
    least = top + math.log(sampling.min_p) if sampling.min_p > 0 else -math.inf
    kept = np.flatnonzero(logits >= least)
    values = logits[kept]
    order = np.argsort(-values, kind="stable")
    tokens = kept[order]
    chances = np.exp(values[order].astype(np.float64) - top)
    if sampling.top_p < 1.0:
        mass = float(np.exp(logits - np.float32(top)).sum(dtype=np.float64))
        inside = int(np.searchsorted(np.cumsum(chances), sampling.top_p * mass)) + 1
        tokens, chances = tokens[:inside], chances[:inside]
    return tokens, chances
