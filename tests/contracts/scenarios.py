"""Small policies, adaptive strategies of colluding apps, and all stores that adjacency allows.

Decides what is enumerated. What is *not* here: how (`enumeration`), and what must hold (`checks`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from types import MappingProxyType

from tests.contracts.enumeration import Course, OwnerAct, Strategy, Transcript, Turn
from tests.fakes.in_memory_rows import Contents
from tests.fakes.naming_scorer import UNSCORABLE
from tests.fakes.small_policies import (
    COACH,
    DEBT,
    DIABETES,
    FINANCE,
    FOOD,
    HEALTH,
    MEALS,
    attribute,
    figure_two,
    promises_for,
    slot,
)

from tactful_core.allocation import Allocation, Online, Preallocated, Standing
from tactful_core.entries import Mechanism
from tactful_core.layout import GENERIC, Attribute, Layout, ReadRule
from tactful_core.promises import Promises
from tactful_core.values import AppId, AttributeName, Position, ShelfName, SlotName

TWO_VIEWS = {HEALTH: ("active",), FOOD: ("budget",), FINANCE: ("saving",)}
THREE_FOR_FOOD = {HEALTH: ("active",), FOOD: ("low_sugar", "budget"), FINANCE: ("saving",)}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One course of turns, and what each position may hold.

    Attributes:
        texts: what the owner may write at each position; the first one is what a position holds
            where adjacent stores must agree.
    """

    name: str
    course: Course
    texts: Mapping[Position, tuple[str, ...]]

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """What is protected in the end."""
        return self.course.promises_at(self.course.turns).layout.attributes

    def stores(self, attribute_name: AttributeName) -> tuple[Contents, ...]:
        """All contents that differ at most inside `I_a`, as it is in the end."""
        (inside,) = (a.positions for a in self.attributes if a.name == attribute_name)
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


# ---- by hand: groups, queries and quotas of every kind ------------------------------------------


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


def _figure_two(name: str, promises: Promises, strategy: Strategy) -> Scenario:
    return Scenario(name, Course(promises, strategy), _figure_two_texts(promises))


def _crowded() -> Scenario:
    only = SlotName("only")
    layout = Layout(
        slots=(slot(only, (1,), ("v1", "v2", "v3", "v4")),),
        attributes=(attribute("worry", (1,), "4"),),
    )
    return Scenario(
        "many_views_and_a_lopsided_query",
        Course(promises_for(layout, allocation=Online(2)), _crowded_then_again),
        {Position(1): every_vote(layout, only)},
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
    return Scenario(
        "nested_and_equal_groups",
        Course(promises_for(layout, allocation=Online(4)), _nested_groups, turns=3),
        {
            Position(1): ("", "v1", UNSCORABLE),
            Position(2): ("", GENERIC),
            Position(3): opposite_votes(layout, SlotName("right")),
            Position(4): ("v1",),
        },
    )


# ---- a policy that changes ----------------------------------------------------------------------

LEFT, RIGHT, DIARY = SlotName("left"), SlotName("right"), SlotName("diary")
WORRY, OTHER, SECRET = AttributeName("worry"), AttributeName("other"), AttributeName("secret")


def _before_and_after_growth(history: Transcript) -> Turn:
    """Left twice and the diary, which is open at first; then everything, before and in an epoch."""
    last = _last_view(history)
    slots = ((LEFT,), (LEFT, DIARY), (RIGHT, LEFT), (LEFT, RIGHT))[len(history)]
    return Turn(MEALS, last, slots)


def _growing() -> Scenario:
    """`worry` comes to cover what was read, `secret` what was read openly; `other` is lowered."""
    before = Layout(
        slots=(
            slot(LEFT, (1,), ("v1",)),
            slot(RIGHT, (2,), ("v1", "v2")),
            slot(DIARY, (3,), ("v1",), unprotected=True),
        ),
        attributes=(attribute(WORRY, (2,), "1.5"), attribute(OTHER, (1,), "2")),
    )
    after = Layout(
        slots=(*before.slots[:2], slot(DIARY, (3,), ("v1",))),
        attributes=(
            attribute(WORRY, (1, 2), "1.5"),
            attribute(OTHER, (1,), "1"),
            attribute(SECRET, (2, 3), "4"),
        ),
    )
    promises = promises_for(before, allocation=Online(2))
    acts = {2: OwnerAct(promises=replace(promises, layout=after)), 3: OwnerAct(new_epoch=True)}
    return Scenario(
        "groups_that_grow",
        Course(promises, _before_and_after_growth, acts=MappingProxyType(acts)),
        {
            Position(1): ("", "v1", GENERIC),
            Position(2): opposite_votes(before, RIGHT),
            Position(3): ("", "v1"),
        },
    )


# ---- read rules ---------------------------------------------------------------------------------


def _with_read_rules(promises: Promises) -> Promises:
    """Food has two shelves; a question about lunch reads the diet alone, and charges no debt."""
    layout = promises.layout
    food = layout.slot(FOOD)
    diet, groceries = ShelfName("food.diet"), ShelfName("food.groceries")
    shelves = (
        replace(food.shelves[0], name=diet, positions=(Position(2),)),
        replace(food.shelves[0], name=groceries, positions=(Position(3),)),
    )
    rules = (ReadRule(("lunch",), (diet,)), ReadRule(("shopping",), (groceries,)))
    split = replace(food, shelves=shelves, reads=rules)
    slots = tuple(split if slot.name == FOOD else slot for slot in layout.slots)
    return replace(promises, layout=replace(layout, slots=slots))


def _lunch_then_more(history: Transcript) -> Turn:
    """A part, then another part or the whole, by what was seen; the parts again at the end."""
    last = _last_view(history)
    if not history:
        return Turn(MEALS, "lunch budget", (FOOD,))
    if len(history) == 1:
        return Turn(COACH, "dinner" if last == GENERIC else f"lunch {last}", (FOOD, FINANCE))
    return Turn(MEALS, "shopping" if last == GENERIC else "lunch generic", (FOOD,))


def _by_rules(name: str, allocation: Allocation) -> Scenario:
    promises = _with_read_rules(figure_two(views=THREE_FOR_FOOD, allocation=allocation))
    return _figure_two(name, promises, _lunch_then_more)


SCENARIOS = (
    _figure_two("one_slot_a_turn", figure_two(), _meals_follows_what_it_saw),
    _figure_two("two_slots_a_turn", figure_two(views=TWO_VIEWS, debt_cap="1.5"), _two_slots_a_turn),
    _figure_two(
        "colluding_apps_with_quotas",
        figure_two(views=TWO_VIEWS, allocation=Online(6), coach_quota={"debt": "0.5"}),
        _colluding_apps,
    ),
    _crowded(),
    _nested(),
    _growing(),
    _by_rules("read_rules", Online(3)),
    _by_rules("read_rules_standing", Standing(releases=2)),
)


# ---- every mechanism with every allocation rule -------------------------------------------------

RULES: Mapping[str, Allocation] = {
    "online": Online(3),
    "preallocated": Preallocated({DIABETES: 2, DEBT: 3}),
    "standing": Standing(candidates=2),
    "standing_twice": Standing(candidates=2, releases=2, weights={FOOD: 2}),
    "standing_all": Standing(candidates=3, releases=2),
}


def _two_apps_over_two_epochs(history: Transcript) -> Turn:
    """One slot, then two at once for the other app, then what has not been seen; then food again.

    Some queries speak for the generic view alone, so that other standing views do not fit.
    """
    last = _last_view(history)
    other = "budget" if last in (GENERIC, "low_sugar") else "low_sugar"
    if len(history) == 0:
        return Turn(MEALS, "budget", (FOOD,))
    if len(history) == 1:
        return Turn(COACH, "generic active", (FOOD, HEALTH))
    if len(history) == 2:
        slots = (FOOD,) if last == "active" else (FINANCE, FOOD)
        return Turn(MEALS, f"generic {other}" if last == GENERIC else "generic saving", slots)
    return Turn(COACH, other, (FOOD,))


def _of_the_matrix(mechanism: Mechanism, name: str) -> Scenario:
    """Health is charged to debt as well, the coach has a quota, an epoch opens before turn 4."""
    promises = figure_two(
        views=THREE_FOR_FOOD,
        mechanism=mechanism,
        allocation=RULES[name],
        coach_quota={"debt": "1.1"},
        charge_also={HEALTH: frozenset({DEBT})},
    )
    acts = {3: OwnerAct(new_epoch=True)}
    return Scenario(
        f"{mechanism.value}-{name}",
        Course(promises, _two_apps_over_two_epochs, acts=MappingProxyType(acts)),
        {
            Position(1): ("active", GENERIC),
            Position(2): opposite_votes(promises.layout, FOOD)[1:-2],
            Position(3): ("", UNSCORABLE),
            Position(4): ("saving", GENERIC),
            Position(5): ("",),
        },
    )


MATRIX = tuple(_of_the_matrix(mechanism, name) for mechanism in Mechanism for name in RULES)


# ---- where mutants are tried --------------------------------------------------------------------


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


def _food_again_and_again(history: Transcript) -> Turn:
    """One view is relevant at first, then the generic one alone, then all but that."""
    queries = ("budget", "generic", "low_sugar budget")
    return Turn(MEALS, queries[len(history)], (FOOD,))


def _arena(name: str, strategy: Strategy, promises: Promises) -> Scenario:
    return Scenario(
        name,
        Course(promises, strategy, turns=3),
        {
            Position(1): ("", "active"),
            Position(2): (*opposite_votes(promises.layout, FOOD), "saving"),
            Position(3): ("", "budget"),
            Position(4): ("", "saving", UNSCORABLE),
            Position(5): ("saving", ""),
        },
    )


ARENA = (
    _arena("pressing_on", _presses_on, figure_two(allocation=Online(1))),
    _arena("finance_first", _finance_first, figure_two(allocation=Online(2), debt_cap="0.5")),
    _arena(
        "standing",
        _food_again_and_again,
        figure_two(allocation=Standing(), mechanism=Mechanism.RANDOMIZED_RESPONSE),
    ),
    _arena("standing_twice", _food_again_and_again, figure_two(allocation=Standing(releases=2))),
    _arena("read_rules", _lunch_then_more, _with_read_rules(figure_two(allocation=Online(2)))),
)
"""Where mutants are tried: fewer stores, and ε large enough that one draw too many shows."""
