"""What the DP-Fusion paper says that a draw costs: a column for comparison, charged by nobody.

The paper bounds both divergences of `x_i` and `q` by αβ and charges `4β`. With `1 + c =
e^{(α−1)αβ}`, as in `tactful_core.mollification`, that is `(1 + c)^{4/α}` in place of `1 + c`: more
than is needed at α = 2, the same at α = 4, and too little beyond (GUARANTEE §5).
"""

from math import log1p

from tactful_core.fusion import FusionParameters


def published_loss_that_is_no_bound(
    parameters: FusionParameters, touching: int, cells: int
) -> float:
    """The paper's loss of one draw, in nats, for an attribute that `touching` of `cells` touch."""
    excess = (1 + float(parameters.divergence)) ** (4 / parameters.alpha) - 1
    return log1p(excess * touching / cells) / (parameters.alpha - 1)
