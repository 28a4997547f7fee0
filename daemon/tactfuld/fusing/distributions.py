"""From the logits of all rows to what a fused token is drawn from: the sampling controls.

Decides temperature and repeat penalty of fused text. What is *not* here: how rows are mixed and a
token drawn (`tactful_core.fusion`), where logits come from (`inference`).

Invariants (GUARANTEE §5):

- every control acts on every row in the same way, before rows are mixed, and nothing acts on the
  mixture: a row's masses are a function of its own logits and of public values alone;
- the controls are public constants, and the token ids that were released or are barred;
- the full vocabulary stays but for public token ids that are barred in every row: no cut-off by
  likelihood, which could hide mass that memory put there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Controls:
    """Public constants of how a fused token is drawn.

    Attributes:
        temperature: above 0. Higher than that of other answers: the sharper the public row is, the
            less of memory may be mixed into it.
        repeat_penalty: what a released token's logit is divided by (multiplied, if negative).
        repeat_window: how many released tokens the penalty looks back on.
        skip_below: entropy of the public row in nats, after these controls, below which memory has
            no part in a draw.
    """

    temperature: float = 0.5
    repeat_penalty: float = 1.1
    repeat_window: int = 128
    skip_below: float = 0.1

    def __post_init__(self) -> None:
        if not self.temperature > 0 or not self.repeat_penalty > 0:
            raise ValueError("Temperature and repeat penalty of fused text must be above 0.")


def masses(
    logits: NDArray[np.float32],
    released: Sequence[int],
    controls: Controls,
    barred: Sequence[int] = (),
) -> NDArray[np.float64]:
    """What each token weighs in each row, not normalised: the largest of a row weighs 1.

    Args:
        logits: shape (1 + m, |V|).
        released: token ids of the reply so far.
        barred: public token ids that no row may say; those beyond |V| are said by none anyway.

    Returns:
        shape (1 + m, |V|).
    """
    scores = logits.astype(np.float64)
    window = controls.repeat_window
    repeated = sorted(set(released[-window:])) if window else []
    if repeated:
        old = scores[:, repeated]
        penalty = controls.repeat_penalty
        scores[:, repeated] = np.where(old > 0, old / penalty, old * penalty)
    silent = [each for each in barred if each < scores.shape[1]]
    if silent:
        scores[:, silent] = -np.inf
    scores -= scores.max(axis=1, keepdims=True)
    scores /= controls.temperature
    np.exp(scores, out=scores)
    return scores
