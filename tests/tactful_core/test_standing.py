"""The plan of a release: when to draw, from which groups, and when a released view is used again.

Everything here is public: `plan_release` is given no scores, so contents cannot matter; what the
plan costs over whole transcripts is in `tests.contracts`.
"""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.charge_store import charge_for
from tests.fakes.in_memory_charges import FIRST_EPOCH
from tests.fakes.small_policies import COACH, FINANCE, FOOD, HEALTH, MEALS, figure_two, slot

from tactful_core.allocation import Allocation, Online, Preallocated, Standing
from tactful_core.entries import Charge, Entry, EpochOpened, Mechanism, ViewReleased, new_entry_id
from tactful_core.ledger import Ledger, replay
from tactful_core.promises import Promises
from tactful_core.scoring import PRIVATE_RANGE, Scores
from tactful_core.selection import certain_enough
from tactful_core.standing import (
    Draw,
    NothingLeft,
    Plan,
    Reuse,
    belief_of,
    candidate_groups,
    draws_left,
    known_releases,
    mechanism_of,
    plan_release,
    release_mechanism,
)
from tactful_core.values import AppId, AttributeName, Secret, ShelfName, Units

FOUR_VIEWS = ("low_sugar", "budget", "festive")
"""With the generic view, four."""
STANDING = figure_two(
    allocation=Standing(),
    mechanism=Mechanism.RANDOMIZED_RESPONSE,
    views={HEALTH: ("v",), FOOD: FOUR_VIEWS, FINANCE: ("v",)},
)
FOOD_SLOT = STANDING.layout.slot(FOOD)
NAMES = tuple(view.name for view in FOOD_SLOT.vocabulary)
GENERIC, LOW_SUGAR, BUDGET, FESTIVE = range(4)
NOTHING = replay(FIRST_EPOCH)
relevances = st.tuples(*[st.sampled_from([0.0, 0.25, 0.5, 1.0])] * 4)


def twice(candidates: int = 2) -> Promises:
    return replace(STANDING, allocation=Standing(candidates=candidates, releases=2))


def release_of(
    drawn: int, candidates: tuple[int, ...], promises: Promises = STANDING, app: AppId = MEALS
) -> list[Entry]:
    """The charge and the view of one release of food."""
    charge = replace(
        charge_for(FOOD, app=app, units=promises.epsilon(FOOD_SLOT)), mechanism=promises.mechanism
    )
    view = ViewReleased(
        id=new_entry_id(),
        epoch=1,
        charge=charge.id,
        slot=FOOD,
        mechanism=promises.mechanism,
        candidates=tuple(NAMES[index] for index in candidates),
        view=NAMES[drawn],
        units=charge.units,
    )
    return [charge, view]


def after(*entries: list[Entry]) -> Ledger:
    return replay([*FIRST_EPOCH, *(entry for some in entries for entry in some)])


def plan(
    relevance: tuple[float, ...], ledger: Ledger = NOTHING, promises: Promises = STANDING
) -> Plan:
    return plan_release(promises, FOOD_SLOT, promises.epsilon(FOOD_SLOT), relevance, ledger)


# ---- every rule ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule", [Online(3), Preallocated({AttributeName("diabetes"): 3, AttributeName("debt"): 3})]
)
@pytest.mark.parametrize("mechanism", Mechanism)
@given(relevance=relevances)
def test_the_rules_of_the_paper_draw_one_of_all_views_each_time(
    rule: Allocation, mechanism: Mechanism, relevance: tuple[float, ...]
) -> None:
    promises = replace(STANDING, allocation=rule, mechanism=mechanism)
    ledger = after(release_of(BUDGET, (GENERIC, BUDGET), promises))
    drawn = plan(relevance, ledger, promises)
    epsilon = promises.epsilon(FOOD_SLOT)
    assert drawn == Draw(mechanism_of(mechanism, epsilon, 4), ((0,), (1,), (2,), (3,)), False)


@pytest.mark.parametrize("mechanism", Mechanism)
@pytest.mark.parametrize("candidates", [2, 3, 4, 16])
@given(relevance=relevances)
def test_a_draw_is_with_the_mechanism_of_the_policy_at_the_price_that_is_quoted(
    mechanism: Mechanism, candidates: int, relevance: tuple[float, ...]
) -> None:
    """Whatever is asked: the price is a function of the policy, and within the slot's ε."""
    promises = replace(STANDING, mechanism=mechanism, allocation=Standing(candidates=candidates))
    drawn = plan(relevance, promises=promises)
    assert isinstance(drawn, Draw)
    assert drawn.mechanism == release_mechanism(promises, FOOD_SLOT)
    assert promises.epsilon(FOOD_SLOT) - 2 <= drawn.mechanism.charge <= promises.epsilon(FOOD_SLOT)


# ---- the groups ---------------------------------------------------------------------------------


@given(relevance=relevances, count=st.integers(2, 6))
def test_groups_hold_every_view_once_and_the_generic_one_by_itself(
    relevance: tuple[float, ...], count: int
) -> None:
    groups = candidate_groups(relevance, count)
    assert sorted(view for group in groups for view in group) == [0, 1, 2, 3]
    assert groups[0] == (0,)
    assert len(groups) == min(count, 4)
    assert all(len(group) == 1 for group in groups[:-1])


@given(relevance=relevances, count=st.integers(2, 6))
def test_the_more_relevant_views_come_first(relevance: tuple[float, ...], count: int) -> None:
    ranked = [view for group in candidate_groups(relevance, count) for view in group][1:]
    assert ranked == sorted(ranked, key=lambda view: (-relevance[view], view))


def test_two_candidates_are_the_generic_view_and_one_of_the_others() -> None:
    assert candidate_groups((0.0, 0.25, 1.0, 0.5), 2) == ((0,), (2, 3, 1))


def test_three_candidates_name_the_most_relevant_view() -> None:
    assert candidate_groups((1.0, 0.25, 1.0, 0.5), 3) == ((0,), (2,), (3, 1))


def test_a_vocabulary_of_two_has_two_groups() -> None:
    assert candidate_groups((0.0, 1.0), 3) == ((0,), (1,))


@given(relevances, st.tuples(*[st.integers(0, PRIVATE_RANGE)] * 4))
def test_what_stands_for_the_epoch_is_judged_by_contents_alone(
    relevance: tuple[float, ...], private: tuple[int, ...]
) -> None:
    """No query steers the draw: a group counts for its best view, and relevance for nothing."""
    drawn = plan(relevance)
    assert isinstance(drawn, Draw)
    judged = drawn.judged(Scores((1, 2, 3, 4), Secret(private)))
    assert judged.public == (0, 0)
    assert judged.private.reveal() == (private[0], max(private[1:]))


@given(relevances, st.tuples(*[st.integers(0, PRIVATE_RANGE)] * 4))
def test_what_holds_for_one_turn_is_judged_by_relevance_too(
    relevance: tuple[float, ...], private: tuple[int, ...]
) -> None:
    drawn = plan(relevance, promises=replace(STANDING, allocation=Online(3)))
    assert isinstance(drawn, Draw)
    judged = drawn.judged(Scores((1, 2, 3, 4), Secret(private)))
    assert (judged.public, judged.private.reveal()) == ((1, 2, 3, 4), private)


# ---- the belief ---------------------------------------------------------------------------------


def by_hand(releases: list[ViewReleased]) -> tuple[Fraction, ...]:
    """Bayes' rule over "the best view is i and contents speak for it alone", multiplied out."""
    chances = []
    for best in range(len(NAMES)):
        chance = Fraction(1, len(NAMES))
        for each in releases:
            mechanism = mechanism_of(each.mechanism, each.units, len(each.candidates))
            first = [NAMES[best] == name for name in each.candidates[:-1]]
            leads = [*first, not any(first)]
            scores = Scores(
                (0,) * len(leads), Secret(tuple(PRIVATE_RANGE if lead else 0 for lead in leads))
            )
            chance *= mechanism.distribution(scores)[each.candidates.index(each.view)]
        chances.append(chance)
    return tuple(chance / sum(chances) for chance in chances)


@st.composite
def released(draw: st.DrawFn, most: int = 4) -> list[ViewReleased]:
    """Releases of food by any mechanism, from any public groups, at several ε."""
    found = []
    for _ in range(draw(st.integers(0, most))):
        others = draw(st.permutations([LOW_SUGAR, BUDGET, FESTIVE]))
        candidates = (GENERIC, *others[: draw(st.integers(1, 3))])
        promises = replace(
            STANDING,
            mechanism=draw(st.sampled_from(Mechanism)),
            allocation=Standing(releases=draw(st.integers(1, 4))),
        )
        _, view = release_of(draw(st.sampled_from(candidates)), candidates, promises)
        assert isinstance(view, ViewReleased)
        found.append(view)
    return found


def test_the_belief_starts_uniform() -> None:
    assert belief_of(FOOD_SLOT, ()) == (Fraction(1, 4),) * 4


@given(released())
def test_the_belief_is_bayes_rule_exactly(views: list[ViewReleased]) -> None:
    belief = belief_of(FOOD_SLOT, tuple(views))
    assert belief == by_hand(views)
    assert sum(belief) == 1
    assert min(belief) > 0


@given(released())
def test_the_order_of_releases_does_not_change_the_belief(views: list[ViewReleased]) -> None:
    assert belief_of(FOOD_SLOT, tuple(views)) == belief_of(FOOD_SLOT, tuple(reversed(views)))


@pytest.mark.parametrize("mechanism", Mechanism)
def test_what_was_drawn_is_believed_in_more(mechanism: Mechanism) -> None:
    promises = replace(STANDING, mechanism=mechanism)
    for drawn in (GENERIC, BUDGET, LOW_SUGAR):
        _, view = release_of(drawn, (GENERIC, BUDGET, LOW_SUGAR), promises)
        assert isinstance(view, ViewReleased)
        belief = belief_of(FOOD_SLOT, (view,))
        others = [belief[index] for index in (GENERIC, BUDGET, LOW_SUGAR) if index != drawn]
        assert belief[drawn] > max(others)
        assert belief[FESTIVE] == belief[LOW_SUGAR], "the last group holds it as well"


def test_with_two_views_the_belief_is_the_chance_that_the_guarantee_names() -> None:
    """One draw makes `e^ε : 1` of a coin."""
    two = slot(FOOD, (2, 3), ("budget",))
    _, view = release_of(BUDGET, (GENERIC, BUDGET))
    assert isinstance(view, ViewReleased)
    generic, budget = belief_of(two, (view,))
    mechanism = mechanism_of(view.mechanism, view.units, 2)
    assert (generic, budget) == mechanism.distribution(Scores((0, 0), Secret((0, 1))))


def test_views_that_left_the_vocabulary_take_their_releases_along() -> None:
    """A release that named one of them says nothing about the views that are left."""
    smaller = slot(FOOD, (2, 3), ("low_sugar", "festive"))
    ledger = after(release_of(BUDGET, (GENERIC, BUDGET)), release_of(GENERIC, (GENERIC, LOW_SUGAR)))
    kept = known_releases(smaller, ledger)
    assert [view.candidates for view in kept] == [("generic", "low_sugar")]
    assert belief_of(smaller, kept)[0] > Fraction(1, 3)
    assert len(known_releases(FOOD_SLOT, ledger)) == 2


def test_a_view_that_joins_the_vocabulary_belongs_to_the_last_group() -> None:
    larger = slot(FOOD, (2, 3), (*FOUR_VIEWS, "new"))
    (view,) = known_releases(larger, after(release_of(BUDGET, (GENERIC, BUDGET))))
    belief = belief_of(larger, (view,))
    assert belief[-1] == belief[BUDGET] > belief[GENERIC]


# ---- when to draw, when to use again ------------------------------------------------------------


@given(relevances)
def test_the_first_question_of_an_epoch_draws(relevance: tuple[float, ...]) -> None:
    assert isinstance(plan(relevance), Draw)
    later = after(release_of(GENERIC, (GENERIC, BUDGET))).after(EpochOpened(new_entry_id(), 2, 0))
    assert isinstance(plan(relevance, later), Draw)


@given(relevances)
def test_a_generic_view_that_was_drawn_stands_for_every_question(
    relevance: tuple[float, ...],
) -> None:
    ledger = after(release_of(GENERIC, (GENERIC, BUDGET)))
    assert plan(relevance, ledger) == Reuse(GENERIC)


@given(relevances)
def test_of_a_group_that_was_drawn_the_most_relevant_view_answers_if_it_fits(
    relevance: tuple[float, ...],
) -> None:
    """At least as relevant as the generic view; the earlier of equals; else nothing is left."""
    ledger = after(release_of(BUDGET, (GENERIC, BUDGET)))
    best = max(relevance[1:])
    if best >= relevance[0]:
        assert plan(relevance, ledger) == Reuse(1 + relevance[1:].index(best))
    else:
        assert plan(relevance, ledger) == NothingLeft()


@given(relevances, st.sampled_from([2, 3]))
def test_where_no_released_view_fits_a_slot_draws_as_often_as_its_share_is_divided(
    relevance: tuple[float, ...], candidates: int
) -> None:
    promises = twice(candidates)
    question = (1.0, 0.0, 0.0, 0.0)
    one = release_of(BUDGET, (GENERIC, BUDGET), promises)
    assert isinstance(plan(question, after(one), promises), Draw)
    two = release_of(BUDGET, (GENERIC, LOW_SUGAR, BUDGET), promises, app=COACH)
    assert plan(question, after(one, two), promises) == NothingLeft()


@given(relevances)
def test_where_releases_contradict_each_other_the_generic_view_stands(
    relevance: tuple[float, ...],
) -> None:
    """Generic and the others are believed in equally, and no question prefers one of them."""
    promises = twice()
    ledger = after(
        release_of(BUDGET, (GENERIC, BUDGET), promises),
        release_of(GENERIC, (GENERIC, BUDGET), promises),
    )
    assert len(set(belief_of(FOOD_SLOT, known_releases(FOOD_SLOT, ledger)))) == 1
    assert plan(relevance, ledger, promises) == Reuse(GENERIC)


def test_a_charge_whose_view_never_came_uses_up_the_share() -> None:
    """A crash between the charge and the draw is not refunded."""
    (charge, _) = release_of(BUDGET, (GENERIC, BUDGET))
    assert plan((0.0, 0.0, 1.0, 0.0), after([charge])) == NothingLeft()


def test_releases_of_other_slots_are_not_used() -> None:
    other = [
        replace(entry, slot=HEALTH)
        for entry in release_of(BUDGET, (GENERIC, BUDGET))
        if isinstance(entry, Charge | ViewReleased)
    ]
    assert len(other) == 2
    assert isinstance(plan((0.0, 0.0, 1.0, 0.0), replay([*FIRST_EPOCH, *other])), Draw)


@given(released(most=3), relevances)
def test_it_never_draws_when_the_belief_exceeds_what_one_draw_could_make_of_a_coin(
    views: list[ViewReleased], relevance: tuple[float, ...]
) -> None:
    promises = replace(STANDING, allocation=Standing(releases=16))
    epsilon = promises.epsilon(FOOD_SLOT)
    entries: list[Entry] = list(views)
    ledger = after(entries)
    certain = certain_enough(max(belief_of(FOOD_SLOT, tuple(views))), epsilon)
    found = plan(relevance, ledger, promises)
    assert draws_left(Standing(releases=16), FOOD_SLOT, epsilon, ledger) == (0 if certain else 16)
    assert not (certain and isinstance(found, Draw))


def test_two_agreeing_releases_are_certain_enough_where_one_is_not() -> None:
    promises = replace(twice(), allocation=Standing(releases=3))
    question = (1.0, 0.0, 0.0, 0.0)
    two = slot(FOOD, (2, 3), ("budget",))
    one, other = (release_of(BUDGET, (GENERIC, BUDGET), promises) for _ in range(2))

    def found(ledger: Ledger) -> Plan:
        return plan_release(promises, two, promises.epsilon(two), question[:2], ledger)

    assert isinstance(found(after(one)), Draw)
    assert found(after(one, other)) == NothingLeft()


# ---- C4: whose questions count ------------------------------------------------------------------


@given(st.lists(st.sampled_from([MEALS, COACH]), min_size=1, max_size=3), relevances)
def test_who_asked_before_does_not_matter(apps: list[AppId], relevance: tuple[float, ...]) -> None:
    promises = replace(STANDING, allocation=Standing(releases=4))
    by_some = after(*(release_of(BUDGET, (GENERIC, BUDGET), promises, app=app) for app in apps))
    by_one = after(*(release_of(BUDGET, (GENERIC, BUDGET), promises) for _ in apps))
    assert plan(relevance, by_some, promises) == plan(relevance, by_one, promises)


@given(st.permutations([LOW_SUGAR, BUDGET, FESTIVE]), relevances)
def test_with_two_candidates_the_question_that_was_drawn_for_leaves_no_trace(
    others: list[int], relevance: tuple[float, ...]
) -> None:
    """Which of the other views that question preferred changes neither belief nor plan."""
    for drawn_group in (GENERIC, others[0]):
        ledger = after(release_of(drawn_group, (GENERIC, others[0])))
        alike = BUDGET if drawn_group else GENERIC
        expected = plan(relevance, after(release_of(alike, (GENERIC, BUDGET))))
        assert plan(relevance, ledger) == expected


@pytest.mark.parametrize("mechanism", Mechanism)
def test_a_mechanism_is_made_as_the_policy_names_it(mechanism: Mechanism) -> None:
    made = mechanism_of(mechanism, Units(480_480_000), 3)
    assert type(made).__name__.lower() == mechanism.value.replace("_", "")


# --- read rules ---------------------------------------------------------------------------------


def split_food() -> Promises:
    """Food on two shelves, each a position."""
    shelf = FOOD_SLOT.shelves[0]
    shelves = tuple(
        replace(shelf, name=ShelfName(f"food.{p}"), positions=(p,)) for p in shelf.positions
    )
    split = replace(FOOD_SLOT, shelves=shelves)
    slots = tuple(split if each.name == FOOD else each for each in STANDING.layout.slots)
    return replace(
        STANDING,
        layout=replace(STANDING.layout, slots=slots),
        allocation=Standing(releases=2),
    )


def test_a_released_view_is_used_again_where_the_same_shelves_are_read() -> None:
    promises = split_food()
    whole = promises.layout.slot(FOOD)
    part = whole.reading({ShelfName("food.2")})
    of_the_part = release_of(BUDGET, (GENERIC, BUDGET), promises)
    assert isinstance(of_the_part[0], Charge)
    of_the_part[0] = replace(of_the_part[0], positions=frozenset(part.positions))
    ledger = after(of_the_part)
    assert len(known_releases(part, ledger)) == 1
    assert known_releases(whole, ledger) == ()
    fits = (0.0, 0.0, 1.0, 0.0)
    epsilon = promises.epsilon(whole)
    assert isinstance(plan_release(promises, part, epsilon, fits, ledger), Reuse)
    assert isinstance(plan_release(promises, whole, epsilon, fits, ledger), Draw)


def test_all_reads_of_a_slot_share_its_draws() -> None:
    promises = replace(split_food(), allocation=Standing(releases=1))
    whole = promises.layout.slot(FOOD)
    ledger = after(release_of(BUDGET, (GENERIC, BUDGET), promises))
    part = whole.reading({ShelfName("food.2")})
    plan = plan_release(promises, part, promises.epsilon(part), (0.0, 0.0, 1.0, 0.0), ledger)
    assert isinstance(plan, NothingLeft)


def test_a_part_of_a_slot_costs_no_attribute_more_than_the_slots_share() -> None:
    promises = split_food()
    whole = promises.layout.slot(FOOD)
    for shelf in whole.shelves:
        part = whole.reading({shelf.name})
        for name in promises.charge_set(part):
            share = promises.layout.attribute(name).cap // 2
            assert promises.epsilon(part) * 2 <= share
