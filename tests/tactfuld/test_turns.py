"""Turns as the owner sees them: what was chosen, what it cost whom, and the answer as it comes."""

import asyncio

import pytest
from tests.fakes.small_policies import DEBT, DIABETES, FOOD, HEALTH, MEALS, figure_two

from tactful.owner_wire import Selection
from tactful_core.interface import Release, Source
from tactful_core.ledger import Refusal
from tactful_core.values import Units, units_from_epsilon
from tactfuld.open_turn import TurnWatcher
from tactfuld.turns import REASONS, Piece, Started, TurnLog, selection

LAYOUT = figure_two().layout
THIRD = Units(units_from_epsilon(2) // 3)
QUERY = "What is for dinner?"


def charged() -> Release:
    """A drawn view of food, which both attributes paid for."""
    slot = LAYOUT.slot(FOOD)
    return Release(FOOD, slot.vocabulary[2], THIRD, frozenset({DEBT, DIABETES}), None, Source.DRAWN)


def generic(reason: Refusal | None) -> Release:
    """The generic view of health, for nothing."""
    slot = LAYOUT.slot(HEALTH)
    return Release(HEALTH, slot.generic, Units(0), frozenset(), reason, Source.GENERIC)


def happened(log: TurnLog) -> list[Started | Piece | None]:
    """What is queued."""
    found = []
    while not log.happenings.empty():
        found.append(log.happenings.get_nowait())
    return found


def test_charged_release_names_who_paid_in_the_order_of_the_policy() -> None:
    shown = selection(charged(), LAYOUT)
    assert shown.charged == ("diabetes", "debt")
    assert shown.epsilon == pytest.approx(2 / 3)
    assert (shown.slot, shown.view, shown.fallback, shown.reason) == ("food", "budget", False, None)


@pytest.mark.parametrize("refusal", Refusal)
def test_refused_release_says_why_and_charges_nobody(refusal: Refusal) -> None:
    shown = selection(generic(refusal), LAYOUT)
    assert shown == Selection(
        slot="health",
        view="generic",
        epsilon=0.0,
        charged=(),
        fallback=True,
        reason=REASONS[refusal],
    )
    assert shown.reason


@pytest.mark.parametrize(
    ("source", "word"), [(Source.STANDING, "earlier"), (Source.UNPROTECTED, "unprotected")]
)
def test_release_that_nobody_paid_for_says_why(source: Source, word: str) -> None:
    view = LAYOUT.slot(FOOD).vocabulary[2]
    shown = selection(Release(FOOD, view, Units(0), frozenset(), None, source), LAYOUT)
    assert not shown.fallback
    assert word in (shown.reason or "")


def test_fallback_without_a_refusal_has_no_reason() -> None:
    assert selection(generic(None), LAYOUT).reason is None


def test_turn_has_its_selections_at_once_and_its_answer_at_the_end() -> None:
    log = TurnLog(LAYOUT)
    watcher: TurnWatcher = log
    watcher.started(7, MEALS, QUERY, (generic(Refusal.CAP), charged()))
    (turn,) = log.turns
    assert (turn.turn, turn.app, turn.query, turn.answer) == (7, "meals", QUERY, "")
    assert [chosen.slot for chosen in turn.selections] == ["health", "food"]
    watcher.text(7, "Lentil ")
    watcher.text(7, "soup.")
    watcher.finished(7, "Lentil soup.")
    assert [turn.answer for turn in log.turns] == ["Lentil soup."]
    assert happened(log) == [Started(turn), Piece(7, "Lentil "), Piece(7, "soup.")]


def test_turns_keep_their_order_and_those_that_failed_have_no_answer() -> None:
    log = TurnLog(LAYOUT)
    for number in (3, 5, 8):
        log.started(number, MEALS, QUERY, ())
    log.finished(8, "Late.")
    log.finished(3, "Early.")
    assert [(turn.turn, turn.answer) for turn in log.turns] == [
        (3, "Early."),
        (5, ""),
        (8, "Late."),
    ]


def test_turn_that_began_before_the_log_is_left_out() -> None:
    log = TurnLog(LAYOUT)
    log.text(1, "of another message")
    log.finished(1, "of another message")
    assert log.turns == ()
    assert happened(log) == []


async def test_watcher_never_waits_for_whoever_shows_it() -> None:
    log = TurnLog(LAYOUT)
    log.started(1, MEALS, QUERY, ())
    for _ in range(10_000):
        log.text(1, "word ")
    assert log.happenings.qsize() == 10_001
    assert asyncio.all_tasks() == {asyncio.current_task()}
