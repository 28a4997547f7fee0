"""How the response model's next token is drawn.

Decides: the public constants of sampling. Not here: seeds (fresh for every request, from
`secrets`), the exact sampler of the mechanism (tactful_core), fusion.

Invariants
- Nothing here depends on memory, scores or an app (GUARANTEE, C6).
"""

from dataclasses import dataclass


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
