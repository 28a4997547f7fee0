"""Views that are drawn, or used again, wrongly on purpose.

The first functions are drawn from by `drawing`; the others are turns under `Standing` that do
something else with a view that was released before. The text says what its author might have
thought. What is *not* here: other broken turns (`broken_turns`).
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from tests.contracts.broken_turns import (
    generic,
    planned_charge,
    released,
    safe_scores,
    slots_of,
)
from tests.contracts.enumeration import Transcript, Turn, TurnRunner, algorithm_1

from tactful_core.entries import Charge
from tactful_core.interface import Ports, Release, Source
from tactful_core.layout import Slot
from tactful_core.ledger import Admitted
from tactful_core.promises import Promises
from tactful_core.sampling import draw
from tactful_core.scoring import Scores
from tactful_core.selection import (
    Exponential,
    PermuteAndFlip,
    RandomizedResponse,
    WeightedExponential,
)
from tactful_core.values import Units

# ---- C2: the private part alone follows contents, and the base measure does not -----------------


def content_as_relevance(scores: Scores, charge: Charge, ports: Ports) -> int:
    """The public part of the score follows contents too: the sensitivity is 1, not 0.6."""
    private = scores.private.reveal()
    public = tuple(2 * p // 3 for p in private)
    return Exponential(charge.units).select(Scores(public, scores.private), ports.randomness)


def base_measure_from_memory(scores: Scores, charge: Charge, ports: Ports) -> int:
    """The base measure is "what the owner usually wants", so it follows contents."""
    measure = tuple(1 + p // 128 for p in scores.private.reveal())
    return WeightedExponential(charge.units, measure).select(scores, ports.randomness)


# ---- C3: views are sampled by a charged mechanism -----------------------------------------------


def argmax(scores: Scores, charge: Charge, ports: Ports) -> int:
    """CappedArgmax of the paper: charged, but not randomised."""
    return scores.best()


def half_the_sensitivity(scores: Scores, charge: Charge, ports: Ports) -> int:
    """`exp(ε u / Δ)`: twice the temperature that the charge pays for."""
    return Exponential(Units(2 * charge.units)).select(scores, ports.randomness)


def weights_rounded_to_zero(scores: Scores, charge: Charge, ports: Ports) -> int:
    """Weights in so few bits that unlikely views vanish under some stores."""
    weights = Exponential(charge.units).weights(scores)
    kept = [i for i, weight in enumerate(weights) if weight * 2 >= max(weights)]
    return kept[draw([weights[i] for i in kept], ports.randomness)]


def flips_as_if_of_bounded_range(scores: Scores, charge: Charge, ports: Ports) -> int:
    """Permute-and-flip at 2 ε: an exponential mechanism of range 2 ε would lose ε for two views."""
    return PermuteAndFlip(Units(2 * charge.units)).select(scores, ports.randomness)


def response_times_measure(scores: Scores, charge: Charge, ports: Ports) -> int:
    """Randomised response, with the public weights of likelier views multiplied in."""
    weights = RandomizedResponse(charge.units).weights(scores)
    liked = [weight * 4**index for index, weight in enumerate(weights)]
    return draw(liked, ports.randomness)


# ---- C4: which views are candidates is public ---------------------------------------------------


def candidates_from_memory(scores: Scores, charge: Charge, ports: Ports) -> int:
    """The two candidates of a randomised response are the two best by score, not by relevance."""
    private = scores.private.reveal()
    totals = [r + p for r, p in zip(scores.public, private, strict=True)]
    best = sorted(sorted(range(len(totals)), key=lambda view: -totals[view])[:2])
    narrowed = scores.of_groups([(view,) for view in best])
    chosen = RandomizedResponse(charge.units).select(narrowed, ports.randomness)
    return best[chosen]


# ---- what was released before -------------------------------------------------------------------

Use = Callable[[Slot, Scores, Release, Charge, Promises, Ports], Awaitable[Release]]
"""What to answer instead of a standing view, with a charge that could be made for it."""


def instead_of_reuse(use: Use) -> TurnRunner:
    """Algorithm 1 with another answer where it would use a released view again."""

    async def run_turn(
        turn: Turn, history: Transcript, promises: Promises, ports: Ports
    ) -> tuple[Release, ...]:
        releases = []
        answered = await algorithm_1(turn, history, promises, ports)
        for slot, release in zip(slots_of(turn, promises), answered, strict=True):
            if release.source is not Source.STANDING:
                releases.append(release)
                continue
            scores = await safe_scores(turn, slot, ports)
            charge = planned_charge(turn, slot, promises, ports)
            releases.append(await use(slot, scores, release, charge, promises, ports))
        return tuple(releases)

    return run_turn


async def redraws_for_nothing(
    slot: Slot, scores: Scores, release: Release, charge: Charge, promises: Promises, ports: Ports
) -> Release:
    """C3: a standing view is refreshed now and then, since the slot has paid already."""
    index = Exponential(charge.units).select(scores, ports.randomness)
    return replace(release, view=slot.vocabulary[index])


async def reuses_where_memory_agrees(
    slot: Slot, scores: Scores, release: Release, charge: Charge, promises: Promises, ports: Ports
) -> Release:
    """C3: a standing view that memory speaks against is not used."""
    agrees = slot.vocabulary[scores.best()] == release.view
    return release if agrees else replace(release, view=slot.generic)


async def lets_memory_choose_in_the_group(
    slot: Slot, scores: Scores, release: Release, charge: Charge, promises: Promises, ports: Ports
) -> Release:
    """C3: of the views that were released together, the one that memory speaks for answers."""
    totals = [r + p for r, p in zip(scores.public, scores.private.reveal(), strict=True)]
    others = range(1, len(totals))
    best = slot.vocabulary[max(others, key=lambda index: totals[index])]
    return release if release.view == slot.generic else replace(release, view=best)


async def releases_again_by_need(
    slot: Slot, scores: Scores, release: Release, charge: Charge, promises: Promises, ports: Ports
) -> Release:
    """C4: a new view is drawn, and paid for, when memory has come to speak for another one."""
    if slot.vocabulary[scores.best()] == release.view:
        return release
    admission = await ports.charges.admit(charge, promises)
    if not isinstance(admission, Admitted):
        return generic(slot, admission.reason)
    drawn = Exponential(charge.units).select(scores, ports.randomness)
    return released(slot, drawn, charge)


async def leave_as_it_is(
    slot: Slot, scores: Scores, release: Release, charge: Charge, promises: Promises, ports: Ports
) -> Release:
    """Nothing is broken: the control of `instead_of_reuse`."""
    return release
