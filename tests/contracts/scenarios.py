"""Small policies, adaptive strategies of colluding apps, and all stores that adjacency allows.

Decides what is enumerated. What is *not* here: how (`enumeration`), and what must hold (`checks`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, combinations, product

from tests.contracts.enumeration import Strategy, Transcript, Turn
from tests.fakes.in_memory_rows import Contents
from tests.fakes.naming_scorer import UNSCORABLE
from tests.fakes.small_policies import (
    COACH,
    FINANCE,
    FOOD,
    HEALTH,
    MEALS,
    attribute,
    figure_two,
    grant,
    slot,
)

from tactful_core.layout import GENERIC, Layout, Promises
from tactful_core.values import AppId, AttributeName, Position, SlotName

TWO_VIEWS = {HEALTH: ("active",), FOOD: ("budget",), FINANCE: ("saving",)}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One policy, one strategy, and what each position may hold.

    Attributes:
        texts: what the owner may write at each position; the first one is what a position holds
            where adjacent stores must agree.
    """

    name: str
    promises: Promises
    strategy: Strategy
    texts: Mapping[Position, tuple[str, ...]]
    turns: int = 4

    def stores(self, attribute_name: AttributeName) -> tuple[Contents, ...]:
        """All contents that differ at most inside `I_a`."""
        inside = self.promises.layout.attribute(attribute_name).positions
        choices = [
            texts if position in inside else texts[:1] for position, texts in self.texts.items()
        ]
        return tuple(dict(zip(self.texts, chosen, strict=True)) for chosen in product(*choices))


def every_vote(layout: Layout, name: SlotName) -> tuple[str, ...]:
    """Texts that make every extreme vector of scores, then one that cannot be scored."""
    names = [view.name for view in layout.slot(name).vocabulary]
    subsets = chain.from_iterable(combinations(names, size) for size in range(len(names) + 1))
    return (*(" ".join(subset) for subset in subsets), UNSCORABLE)


def opposite_votes(layout: Layout, name: SlotName) -> tuple[str, ...]:
    """Texts for the worst cases: for each view, one for it alone and one for all the others.

    Then nothing at all, what cannot be scored, and a vote in between.
    """
    names = [view.name for view in layout.slot(name).vocabulary]
    alone = tuple(names)
    against = tuple(" ".join(n for n in names if n != view) for view in names)
    return ("", *dict.fromkeys(alone + against), f"{names[-1]}=0.5", UNSCORABLE)


def _last_view(history: Transcript, default: str = GENERIC) -> str:
    seen = [release.view.name for step in history for release in step.releases]
    return seen[-1] if seen else default


def _meals_follows_what_it_saw(history: Transcript) -> Turn:
    """Food first; a generic answer leads to finance, anything else to health or food again."""
    last = _last_view(history, default="start")
    if last == "start":
        return Turn(MEALS, "dinner", (FOOD,))
    if last == GENERIC:
        return Turn(MEALS, "rent generic", (FINANCE,))
    if len(history) == 1:
        return Turn(MEALS, f"exercise {last}", (HEALTH,))
    return Turn(MEALS, f"lunch {last}", (FOOD,))


def _two_slots_a_turn(history: Transcript) -> Turn:
    """Health with food, then food with finance, the pair chosen by the view seen last."""
    last = _last_view(history)
    slots = (HEALTH, FOOD) if last in (GENERIC, "active") else (FOOD, FINANCE)
    return Turn(MEALS, last, slots)


def _colluding_apps(history: Transcript) -> Turn:
    """Two apps in turn; each asks for what the other one just saw, sometimes for two slots."""
    app: AppId = MEALS if len(history) % 2 == 0 else COACH
    last = _last_view(history)
    if app == COACH and last != GENERIC:
        return Turn(app, last, (FOOD,), cancelled=True)
    return Turn(app, f"budget {last}", (FOOD, FINANCE) if len(history) == 2 else (FOOD,))


def _crowded_then_again(history: Transcript) -> Turn:
    """One slot with many views; the query makes every view but the last one relevant."""
    last = _last_view(history)
    against = " ".join(v for v in ("v1", "v2", "v3", "v4") if v != last)
    return Turn(MEALS, against, (SlotName("only"),))


def _nested_groups(history: Transcript) -> Turn:
    last = _last_view(history)
    if last == GENERIC:
        return Turn(MEALS, "v1", (SlotName("left"), SlotName("right")))
    return Turn(COACH, last, (SlotName("right"), SlotName("free")))


def _figure_two_texts(promises: Promises) -> dict[Position, tuple[str, ...]]:
    layout = promises.layout
    return {
        Position(1): ("", *(v.name for v in layout.slot(HEALTH).vocabulary)),
        Position(2): opposite_votes(layout, FOOD),
        Position(3): ("", layout.slot(FOOD).vocabulary[-1].name),
        Position(4): opposite_votes(layout, FINANCE),
        Position(5): ("", GENERIC),
    }


def _figure_two_single() -> Scenario:
    promises = figure_two()
    return Scenario(
        "one_slot_a_turn",
        promises,
        _meals_follows_what_it_saw,
        _figure_two_texts(promises),
    )


def _figure_two_pairs() -> Scenario:
    promises = figure_two(views=TWO_VIEWS, debt_cap="1.5")
    return Scenario("two_slots_a_turn", promises, _two_slots_a_turn, _figure_two_texts(promises))


def _figure_two_collusion() -> Scenario:
    promises = figure_two(views=TWO_VIEWS, charges_per_cap=6, coach_quota={"debt": "0.5"})
    return Scenario(
        "colluding_apps_with_quotas",
        promises,
        _colluding_apps,
        _figure_two_texts(promises),
    )


def _crowded() -> Scenario:
    layout = Layout(
        slots=(slot("only", (1,), ("v1", "v2", "v3", "v4")),),
        attributes=(attribute("worry", (1,), "4"),),
    )
    promises = Promises(layout, 2, (grant(MEALS, ("only",)),), "crowded")
    return Scenario(
        "many_views_and_a_lopsided_query",
        promises,
        _crowded_then_again,
        {Position(1): every_vote(layout, SlotName("only"))},
    )


def _nested() -> Scenario:
    layout = Layout(
        slots=(
            slot("left", (1, 2), ("v1",)),
            slot("right", (3,), ("v1", "v2")),
            slot("free", (4,), ("v1",), unprotected=True),
        ),
        attributes=(
            attribute("inner", (2, 3), "0.5"),
            attribute("outer", (1, 2, 3), "1"),
            attribute("same_as_outer", (1, 2, 3), "2"),
        ),
    )
    everything = ("left", "right", "free")
    promises = Promises(layout, 4, (grant(MEALS, everything), grant(COACH, everything)), "nested")
    return Scenario(
        "nested_and_equal_groups",
        promises,
        _nested_groups,
        {
            Position(1): ("", "v1", UNSCORABLE),
            Position(2): ("", GENERIC),
            Position(3): opposite_votes(layout, SlotName("right")),
            Position(4): ("v1",),
        },
        turns=3,
    )


def _presses_on(history: Transcript) -> Turn:
    """Food for one app, which goes away; then food and health for another; then for both again."""
    if not history:
        return Turn(COACH, "budget", (FOOD,), cancelled=True)
    if len(history) == 1:
        return Turn(MEALS, _last_view(history), (HEALTH, FOOD))
    return Turn(COACH, "dinner", (FOOD,))


def _finance_first(history: Transcript) -> Turn:
    """Finance, then health and food at once, then food again."""
    slots = ((FINANCE,), (HEALTH, FOOD), (FOOD,))[len(history)]
    return Turn(MEALS, _last_view(history), slots)


def _arena(name: str, strategy: Strategy, promises: Promises) -> Scenario:
    layout = promises.layout
    return Scenario(
        name,
        promises,
        strategy,
        {
            Position(1): ("", "active"),
            Position(2): (*opposite_votes(layout, FOOD), "saving"),
            Position(3): ("", "budget"),
            Position(4): ("", "saving", UNSCORABLE),
            Position(5): ("saving", ""),
        },
        turns=3,
    )


SCENARIOS = (
    _figure_two_single(),
    _figure_two_pairs(),
    _figure_two_collusion(),
    _crowded(),
    _nested(),
)

ARENA = (
    _arena("pressing_on", _presses_on, figure_two(charges_per_cap=1)),
    _arena("finance_first", _finance_first, figure_two(charges_per_cap=2, debt_cap="0.5")),
)
"""Where mutants are tried: fewer stores, and ε large enough that one draw too many shows."""
