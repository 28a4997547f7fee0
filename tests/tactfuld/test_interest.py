"""An app's own questions about a slot count together; nobody else's do."""

import pytest
from tests.fakes.naming_scorer import NamingScorer
from tests.fakes.small_policies import COACH, FINANCE, FOOD, MEALS, figure_two

from tactful_core.values import AppId, Secret
from tactfuld.interest import NEWEST, Interest, InterestedScorer

SLOT = figure_two().layout.slot(FOOD)


def scorer_for(app: AppId, interest: Interest, *, remembers: bool = True) -> InterestedScorer:
    return InterestedScorer(NamingScorer(), interest, app, remembers=remembers)


def test_relevance_is_the_mean_over_an_apps_questions() -> None:
    interest = Interest()
    assert interest.including(MEALS, FOOD, (0.5, 1.0)) == (0.5, 1.0)
    interest.asked(MEALS, FOOD, (0.5, 1.0))
    assert interest.including(MEALS, FOOD, (0.5, 0.0)) == (0.5, 0.5)


def test_only_the_newest_questions_count() -> None:
    interest = Interest()
    for _ in range(3 * NEWEST):
        interest.asked(MEALS, FOOD, (1.0,))
    for number in range(1, NEWEST):
        interest.asked(MEALS, FOOD, (0.0,))
        assert interest.including(MEALS, FOOD, (0.0,))[0] == pytest.approx(
            max(0, NEWEST - 1 - number) / NEWEST
        )


def test_other_apps_and_other_slots_do_not_count() -> None:
    interest = Interest()
    interest.asked(COACH, FOOD, (1.0,))
    interest.asked(MEALS, FINANCE, (1.0,))
    assert interest.including(MEALS, FOOD, (0.0,)) == (0.0,)


async def test_a_query_counts_for_the_next_one_of_the_same_app() -> None:
    interest, names = Interest(), [view.name for view in SLOT.vocabulary]
    first = await scorer_for(MEALS, interest).relevance(names[1], SLOT)
    second = await scorer_for(MEALS, interest).relevance(names[-1], SLOT)
    assert first[1] == 1.0
    assert second[1] == second[-1] == 0.5
    assert (await scorer_for(COACH, interest).relevance(names[-1], SLOT))[1] == 0.0


async def test_asking_what_an_answer_would_cost_is_not_remembered() -> None:
    interest, names = Interest(), [view.name for view in SLOT.vocabulary]
    await scorer_for(MEALS, interest, remembers=False).relevance(names[1], SLOT)
    assert (await scorer_for(MEALS, interest).relevance(names[-1], SLOT))[1] == 0.0


async def test_questions_do_not_change_what_contents_speak_for() -> None:
    interest, texts = Interest(), (str(SLOT.vocabulary[1].name),)
    rows: Secret[tuple[str, ...]] = Secret(texts)
    interest.asked(MEALS, FOOD, (1.0,) * len(SLOT.vocabulary))
    found = await scorer_for(MEALS, interest).evidence(SLOT, rows)
    plain = await NamingScorer().evidence(SLOT, rows)
    assert found.compatibility.reveal() == plain.compatibility.reveal()
