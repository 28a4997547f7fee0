"""Algorithm 1, turn by turn: what is charged, what is read, what is released, and in which order.

Likelihood ratios over whole transcripts are in `tests.contracts`.
"""

from asyncio import CancelledError
from dataclasses import replace
from fractions import Fraction
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.branching import distribution_of
from tests.contracts.charge_store import charge_for
from tests.fakes.event_log import EventLog
from tests.fakes.fixed_randomness import ChosenTickets, HighestTicket
from tests.fakes.in_memory_charges import FIRST_EPOCH, InMemoryCharges
from tests.fakes.in_memory_rows import BrokenRows, InMemoryRows
from tests.fakes.kept_notices import KeptNotices
from tests.fakes.naming_scorer import UNSCORABLE, NamingScorer
from tests.fakes.running import run_now
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
    grant,
    promises_for,
    slot,
)

from tactful_core.allocation import Allocation, Online, Standing
from tactful_core.entries import (
    Charge,
    Entry,
    EntryId,
    Mechanism,
    UnprotectedRead,
    ViewReleased,
)
from tactful_core.errors import ContractError
from tactful_core.interface import MemoryReader, Ports, Release, Scorer, Source, release_view
from tactful_core.layout import GENERIC, Layout, Slot
from tactful_core.ledger import Refusal
from tactful_core.promises import Promises
from tactful_core.sampling import Randomness, SystemRandomness
from tactful_core.scoring import Evidence, neutral_scores, scores_from
from tactful_core.selection import Exponential, RandomizedResponse
from tactful_core.standing import release_mechanism
from tactful_core.values import (
    AppId,
    Position,
    Secret,
    ShelfName,
    SlotName,
    Units,
    ViewName,
    epsilon_of,
    units_from_epsilon,
)

FIGURE_TWO = figure_two()
TWO = units_from_epsilon(2)
THIRD = Units(TWO // 3)


NO_ROWS = InMemoryRows()


def ports_of(
    charges: InMemoryCharges,
    *,
    memory: MemoryReader = NO_ROWS,
    scorer: Scorer | None = None,
    randomness: Randomness | None = None,
    notices: KeptNotices | None = None,
) -> Ports:
    """All ports; what is not given never fails, and draws the last view."""
    return Ports(
        charges,
        memory,
        scorer or NamingScorer(),
        randomness or HighestTicket(),
        notices or KeptNotices(),
    )


def ask(
    name: SlotName,
    ports: Ports,
    *,
    app: AppId = MEALS,
    query: str = "dinner",
    promises: Promises = FIGURE_TWO,
) -> Release:
    return run_now(release_view(app, query, promises.layout.slot(name), promises, ports))


def spent(charges: InMemoryCharges) -> dict[str, str]:
    """What the ledgers of Figure 2 show, in epsilon with six decimals."""
    return {
        a.name: f"{epsilon_of(charges.ledger.spent(a)):.6f}" for a in FIGURE_TWO.layout.attributes
    }


SAME = EntryId("the same")


def written(charges: InMemoryCharges) -> list[Entry]:
    """What was written after the first epoch was opened, with ids that can be compared."""
    return [replace(entry, id=SAME) for entry in charges.entries[len(FIRST_EPOCH) :]]


def chances(
    memory: MemoryReader, scorer: Scorer | None = None, query: str = "dinner"
) -> dict[ViewName, Fraction]:
    """The exact distribution of a food view under one store."""
    return distribution_of(
        lambda randomness: (
            ask(
                FOOD,
                ports_of(InMemoryCharges(), memory=memory, scorer=scorer, randomness=randomness),
                query=query,
            ).view.name
        )
    )


# ---- one admitted release -----------------------------------------------------------------------


def test_an_admitted_release_is_a_view_with_what_it_cost() -> None:
    charges = InMemoryCharges()
    release = ask(FOOD, ports_of(charges))
    assert release == Release(
        slot=FOOD,
        view=FIGURE_TWO.layout.slot(FOOD).vocabulary[-1],
        units=THIRD,
        charged=frozenset({DIABETES, DEBT}),
        refusal=None,
        source=Source.DRAWN,
    )


def test_the_entry_holds_the_read_set_the_charge_set_and_the_policy() -> None:
    charges = InMemoryCharges()
    charges.open_next_epoch()
    ask(FOOD, ports_of(charges), app=COACH)
    assert charges.entries[-1] == Charge(
        id=charges.entries[-1].id,
        epoch=2,
        app=COACH,
        slot=FOOD,
        mechanism=Mechanism.EXPONENTIAL,
        positions=frozenset({Position(2), Position(3)}),
        charged=frozenset({DIABETES, DEBT}),
        units=THIRD,
        policy="figure-2",
    )


def test_the_view_is_drawn_by_the_exponential_mechanism_at_the_charged_epsilon() -> None:
    votes: Secret[tuple[float, ...]] = Secret((0.0, 0.0, 1.0))
    scores = scores_from((0.0, 1.0, 0.0), Evidence(votes, votes))
    expected = Exponential(THIRD).distribution(scores)
    found = chances(InMemoryRows({Position(3): "budget"}), query="a low_sugar dinner")
    assert tuple(found[v.name] for v in FIGURE_TWO.layout.slot(FOOD).vocabulary) == expected


def test_only_rows_of_the_read_set_are_opened_in_order() -> None:
    asked: list[tuple[Position, ...]] = []

    class Watched(InMemoryRows):
        async def open_rows(self, read_set: tuple[Position, ...]) -> Secret[tuple[str, ...]]:
            asked.append(read_set)
            return await super().open_rows(read_set)

    ask(FINANCE, ports_of(InMemoryCharges(), memory=Watched()))
    assert asked == [(4, 5)]


@given(st.integers(0, 1 << 128), st.text(max_size=30), st.sampled_from([HEALTH, FOOD, FINANCE]))
def test_whatever_is_drawn_is_a_view_of_the_public_vocabulary(
    ticket: int, row: str, name: SlotName
) -> None:
    """Any text in any row, even one that the scorer cannot read, leads to one of the views."""
    memory = InMemoryRows({Position(p): row for p in range(1, 6)})
    randomness = ChosenTickets([ticket])
    release = ask(name, ports_of(InMemoryCharges(), memory=memory, randomness=randomness))
    assert release.view in FIGURE_TWO.layout.slot(name).vocabulary


# ---- running out --------------------------------------------------------------------------------


def test_three_food_questions_are_charged_and_the_rest_are_generic() -> None:
    """`B = 2` and three charges per cap: spent exactly 2.000000, and never above on the way."""
    charges = InMemoryCharges()
    ports = ports_of(charges, randomness=SystemRandomness())
    seen = []
    for _ in range(10):
        release = ask(FOOD, ports)
        seen.append((release.fallback, release.units, release.refusal))
        assert all(
            charges.ledger.spent(attribute) <= attribute.cap == TWO
            for attribute in FIGURE_TWO.layout.attributes
        )
    assert seen[:3] == [(False, THIRD, None)] * 3
    assert seen[3:] == [(True, 0, Refusal.CAP)] * 7
    assert spent(charges) == {"diabetes": "2.000000", "debt": "2.000000"}
    assert {charges.ledger.spent(a) for a in FIGURE_TWO.layout.attributes} == {TWO}
    assert len(charges.entries) == 1 + 3


def test_figure_two_diabetes_runs_out_first_while_finance_still_charges_debt() -> None:
    charges = InMemoryCharges()
    ports = ports_of(charges)
    story = [
        (FOOD, False, {"diabetes": "0.666667", "debt": "0.666667"}),
        (HEALTH, False, {"diabetes": "1.333333", "debt": "0.666667"}),
        (HEALTH, False, {"diabetes": "2.000000", "debt": "0.666667"}),
        (FOOD, True, {"diabetes": "2.000000", "debt": "0.666667"}),
        (FINANCE, False, {"diabetes": "2.000000", "debt": "1.333333"}),
        (FOOD, True, {"diabetes": "2.000000", "debt": "1.333333"}),
        (FINANCE, False, {"diabetes": "2.000000", "debt": "2.000000"}),
        (FINANCE, True, {"diabetes": "2.000000", "debt": "2.000000"}),
    ]
    for name, fallback, ledgers in story:
        release = ask(name, ports)
        assert (release.slot, release.fallback) == (name, fallback)
        assert (release.view.name == GENERIC) == fallback
        assert spent(charges) == ledgers


def test_two_apps_share_one_cap() -> None:
    charges = InMemoryCharges()
    ports = ports_of(charges)
    fallbacks = [ask(FOOD, ports, app=app).fallback for app in (MEALS, COACH, MEALS, COACH)]
    assert fallbacks == [False, False, False, True]


def generic_without_charge(release: Release, reason: Refusal | None) -> bool:
    generic = FIGURE_TWO.layout.slot(release.slot).generic
    expected = Release(release.slot, generic, Units(0), frozenset(), reason, Source.GENERIC)
    return release == expected and release.fallback


def test_where_debt_is_full_food_charges_nobody() -> None:
    charges = InMemoryCharges([*FIRST_EPOCH, charge_for(FINANCE, units=TWO)])
    assert generic_without_charge(ask(FOOD, ports_of(charges)), Refusal.CAP)
    assert spent(charges) == {"diabetes": "0.000000", "debt": "2.000000"}
    assert not ask(HEALTH, ports_of(charges)).fallback


def test_where_a_quota_is_full_nobody_is_charged() -> None:
    promises = figure_two(coach_quota={"diabetes": "0.5"})
    charges = InMemoryCharges()
    release = ask(FOOD, ports_of(charges), app=COACH, promises=promises)
    assert generic_without_charge(release, Refusal.QUOTA)
    assert charges.entries == FIRST_EPOCH


def test_where_the_ledger_is_unreadable_everything_is_generic() -> None:
    charges = InMemoryCharges()
    charges.lose_a_row()
    for name in (HEALTH, FOOD, FINANCE):
        assert generic_without_charge(ask(name, ports_of(charges)), Refusal.UNREADABLE)
    assert charges.entries == FIRST_EPOCH


# ---- the order of things ------------------------------------------------------------------------


def events_of(ports: Ports, name: SlotName = FOOD, promises: Promises = FIGURE_TWO) -> list[str]:
    log = EventLog()
    ask(name, log.around(ports), promises=promises)
    return log.events


def test_the_charge_is_durable_before_any_row_is_opened() -> None:
    assert events_of(ports_of(InMemoryCharges())) == [
        "relevance found",
        "charge written",
        "rows opened",
        "rows scored",
        "view drawn",
    ]


def test_where_it_is_refused_no_row_is_opened_and_nothing_is_drawn() -> None:
    full = InMemoryCharges([*FIRST_EPOCH, charge_for(FINANCE, units=TWO)])
    assert events_of(ports_of(full)) == ["relevance found", "refused"]


# ---- contents that cannot be scored -------------------------------------------------------------


class TalkativePadding(NamingScorer):
    """A scorer to which an empty row speaks for the generic view, as ours does."""

    async def evidence(self, slot: Slot, rows: Secret[tuple[str, ...]]) -> Evidence:
        texts = tuple(text or GENERIC for text in rows.reveal())
        return await super().evidence(slot, Secret(texts))


FAILING = [
    pytest.param(BrokenRows(), id="rows that do not open"),
    pytest.param(InMemoryRows({Position(2): UNSCORABLE}), id="a text that cannot be scored"),
    pytest.param(InMemoryRows({Position(3): "budget=much"}), id="a text that is misread"),
]


@pytest.mark.parametrize("memory", FAILING)
def test_a_failure_after_admission_keeps_the_charge_and_tells_the_owner_alone(
    memory: MemoryReader,
) -> None:
    charges, notices = InMemoryCharges(), KeptNotices()
    release = ask(FOOD, ports_of(charges, memory=memory, notices=notices))
    assert notices.failed_slots == [FOOD]
    assert (release.units, release.charged) == (THIRD, frozenset({DIABETES, DEBT}))
    assert (release.refusal, release.fallback) == (None, False)
    assert written(charges) == [charge_for(FOOD, entry_id=SAME)]


@pytest.mark.parametrize("memory", FAILING)
def test_a_failure_changes_nothing_of_what_follows(memory: MemoryReader) -> None:
    """The view is still drawn, once, from as many tickets as weights of a real score make."""
    events = events_of(ports_of(InMemoryCharges(), memory=memory))
    assert [e for e in events if e not in ("owner told", "rows scored")] == [
        "relevance found",
        "charge written",
        "rows opened",
        "view drawn",
    ]


@pytest.mark.parametrize("memory", FAILING)
@pytest.mark.parametrize("scorer", [NamingScorer(), TalkativePadding()])
def test_a_failure_counts_as_contents_that_speak_for_no_view(
    memory: MemoryReader, scorer: Scorer
) -> None:
    """Neutral scores: the private part is 0 for every view, and the query still counts."""
    query = "a low_sugar dinner"
    neutral = Exponential(THIRD).distribution(neutral_scores((0.0, 1.0, 0.0)))
    names = [view.name for view in FIGURE_TWO.layout.slot(FOOD).vocabulary]
    assert chances(memory, scorer, query) == dict(zip(names, neutral, strict=True))


@pytest.mark.parametrize("memory", FAILING)
def test_a_failure_is_like_padding_only_where_padding_speaks_for_no_view(
    memory: MemoryReader,
) -> None:
    """Both are allowed (either is one of the stores); this says which of them holds when."""
    assert chances(memory, NamingScorer()) == chances(NO_ROWS, NamingScorer())
    assert chances(memory, TalkativePadding()) != chances(NO_ROWS, TalkativePadding())


class BadEvidence(NamingScorer):
    """Returns what it is told, whatever the contents."""

    def __init__(self, evidence: object) -> None:
        self._evidence = evidence

    async def evidence(self, slot: Slot, rows: Secret[tuple[str, ...]]) -> Evidence:
        return cast(Evidence, self._evidence)


def evidence_with(compatibility: tuple[float, ...], specificity: tuple[float, ...]) -> Evidence:
    return Evidence(Secret(compatibility), Secret(specificity))


NOTHING = (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param(evidence_with((1.0,), (1.0,)), id="one number for three views"),
        pytest.param(evidence_with((1.0,) * 4, (1.0,) * 4), id="four numbers for three views"),
        pytest.param(evidence_with((1.0,) * 3, ()), id="no specificity"),
        pytest.param("no evidence at all", id="another type"),
    ],
)
def test_evidence_of_the_wrong_shape_counts_as_a_failure(evidence: object) -> None:
    """Otherwise contents could change how many views there are to draw from (C1)."""
    found = chances(NO_ROWS, BadEvidence(evidence))
    assert found == chances(BrokenRows())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -3.0, 7])
def test_numbers_out_of_range_are_clipped_and_no_failure(value: float) -> None:
    notices = KeptNotices()
    scorer = BadEvidence(evidence_with((value,) * 3, (value,) * 3))
    ask(FOOD, ports_of(InMemoryCharges(), scorer=scorer, notices=notices))
    assert notices.failed_slots == []
    assert chances(NO_ROWS, scorer) == dict.fromkeys(chances(NO_ROWS), Fraction(1, 3))


def test_a_cancelled_request_keeps_its_charge_and_is_no_failure() -> None:
    class Cancelled(InMemoryRows):
        async def open_rows(self, read_set: tuple[Position, ...]) -> Secret[tuple[str, ...]]:
            raise CancelledError

    charges, notices = InMemoryCharges(), KeptNotices()
    with pytest.raises(CancelledError):
        ask(FOOD, ports_of(charges, memory=Cancelled(), notices=notices))
    assert written(charges) == [charge_for(FOOD, entry_id=SAME)]
    assert notices.failed_slots == []


@pytest.mark.parametrize("views", [0, 2, 4])
def test_relevance_for_another_number_of_views_is_a_bug_that_charges_nobody(views: int) -> None:
    class Miscounting(NamingScorer):
        async def relevance(self, query: str, slot: Slot) -> tuple[float, ...]:
            return (0.5,) * views

    charges = InMemoryCharges()
    with pytest.raises(ContractError, match="every view"):
        ask(FOOD, ports_of(charges, scorer=Miscounting()))
    assert charges.entries == FIRST_EPOCH


# ---- slots that no attribute covers -------------------------------------------------------------


def diary(*, unprotected: bool) -> Promises:
    """One slot that reads position 1, which no attribute covers."""
    layout = Layout(
        (slot("diary", (1,), ("poetic",), unprotected=unprotected), slot("other", (2,), ("v",))),
        (attribute("worry", (2,), "2"),),
    )
    return promises_for(layout, digest="diary")


DIARY = SlotName("diary")
POETIC = InMemoryRows({Position(1): "poetic"})


def test_uncovered_shelves_are_not_read_and_answer_generically() -> None:
    charges = InMemoryCharges()
    promises = diary(unprotected=False)
    assert events_of(ports_of(charges), DIARY, promises) == ["relevance found"]
    release = ask(DIARY, ports_of(charges, memory=POETIC), promises=promises)
    assert (release.view.name, release.fallback, release.refusal) == (GENERIC, True, None)
    assert charges.entries == FIRST_EPOCH


def test_unprotected_shelves_release_the_best_view_for_nothing_and_leave_an_entry() -> None:
    charges = InMemoryCharges()
    promises = diary(unprotected=True)
    release = ask(DIARY, ports_of(charges, memory=POETIC), promises=promises)
    assert (release.view.name, release.units, release.charged) == ("poetic", 0, frozenset())
    assert (release.fallback, release.refusal) == (False, None)
    assert release.source is Source.UNPROTECTED
    read = UnprotectedRead(SAME, 1, MEALS, DIARY, frozenset({Position(1)}), "diary")
    assert written(charges) == [read]


def test_an_unprotected_read_is_recorded_before_rows_are_opened() -> None:
    events = events_of(ports_of(InMemoryCharges()), DIARY, diary(unprotected=True))
    assert events == ["relevance found", "read recorded", "rows opened", "rows scored"]


def test_unprotected_shelves_are_not_read_where_the_ledger_is_unreadable() -> None:
    charges = InMemoryCharges()
    charges.lose_a_row()
    promises = diary(unprotected=True)
    events = events_of(ports_of(charges), DIARY, promises)
    assert events == ["relevance found"]
    release = ask(DIARY, ports_of(charges, memory=POETIC), promises=promises)
    assert (release.view.name, release.refusal) == (GENERIC, Refusal.UNREADABLE)


def test_the_owners_word_does_not_free_a_shelf_that_an_attribute_covers() -> None:
    layout = Layout(
        (slot("diary", (1,), ("poetic",), unprotected=True),), (attribute("worry", (1,), "2"),)
    )
    charges = InMemoryCharges()
    promises = promises_for(layout)
    release = ask(DIARY, ports_of(charges, memory=POETIC), promises=promises)
    assert release.charged == {"worry"}
    assert release.units == THIRD


class ForgetfulCharges(InMemoryCharges):
    """A ledger that became unreadable between the look at it and the record of a read."""

    async def record(self, entry: UnprotectedRead | ViewReleased) -> bool:
        return False


def test_unprotected_shelves_are_not_read_where_the_read_could_not_be_recorded() -> None:
    events = events_of(ports_of(ForgetfulCharges()), DIARY, diary(unprotected=True))
    assert events == ["relevance found", "read not recorded"]


# ---- whose slots --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "promises",
    [
        pytest.param(FIGURE_TWO, id="a charged slot"),
        pytest.param(replace(FIGURE_TWO, allocation=Standing()), id="a standing view"),
        pytest.param(diary(unprotected=True), id="an unprotected shelf"),
    ],
)
def test_an_app_that_was_not_granted_a_slot_is_a_bug_on_every_path(promises: Promises) -> None:
    """Also where nothing would be charged: a view that stands, or a shelf without protection."""
    (name, *_) = (each.name for each in promises.layout.slots)
    charges = InMemoryCharges()
    ask(name, ports_of(charges), promises=promises)
    before = charges.entries
    only_meals = replace(promises, grants=(grant(MEALS, (name,)),))
    with pytest.raises(ContractError, match="grants it"):
        ask(name, ports_of(charges), app=COACH, promises=only_meals)
    assert charges.entries == before


def test_a_slot_with_one_view_is_answered_without_a_charge_or_a_read() -> None:
    layout = Layout((slot("only", (1,), ()),), (attribute("worry", (1,), "2"),))
    events = events_of(ports_of(InMemoryCharges()), SlotName("only"), promises_for(layout))
    assert events == ["relevance found"]


# ---- standing views -----------------------------------------------------------------------------

STANDING = figure_two(allocation=Standing(), mechanism=Mechanism.RANDOMIZED_RESPONSE)


def test_a_view_is_drawn_once_and_then_used_again_for_nothing() -> None:
    charges = InMemoryCharges()
    ports = ports_of(charges, memory=InMemoryRows({Position(2): "budget"}))
    first = ask(FOOD, ports, query="budget", promises=STANDING)
    again = ask(FOOD, ports, query="budget", promises=STANDING, app=COACH)
    assert (first.source, first.units, first.view.name) == (Source.DRAWN, TWO // 2, "budget")
    assert (again.source, again.units, again.charged) == (Source.STANDING, 0, frozenset())
    assert (again.view, again.refusal, again.fallback) == (first.view, None, False)
    assert [type(entry) for entry in written(charges)] == [Charge, ViewReleased]


def test_the_entry_of_a_view_names_its_charge_and_what_it_was_drawn_from() -> None:
    charges = InMemoryCharges()
    ask(FOOD, ports_of(charges), query="budget", promises=STANDING)
    _, charge, view = charges.entries
    assert isinstance(charge, Charge)
    assert view == ViewReleased(
        id=view.id,
        epoch=1,
        charge=charge.id,
        slot=FOOD,
        mechanism=Mechanism.RANDOMIZED_RESPONSE,
        candidates=(ViewName(GENERIC), ViewName("budget")),
        view=ViewName("budget"),
        units=charge.units,
    )
    assert charge.id != view.id


def test_a_view_is_recorded_after_its_draw_and_used_again_without_a_read() -> None:
    charges = InMemoryCharges()
    first = events_of(ports_of(charges), promises=STANDING)
    assert first == [
        "relevance found",
        "charge written",
        "rows opened",
        "rows scored",
        "view drawn",
        "view recorded",
    ]
    assert events_of(ports_of(charges), promises=STANDING) == ["relevance found"]


def test_the_rules_of_the_paper_record_no_view() -> None:
    charges = InMemoryCharges()
    ask(FOOD, ports_of(charges))
    assert [type(entry) for entry in written(charges)] == [Charge]


def test_where_a_standing_view_does_not_fit_and_the_share_is_used_up_it_is_generic() -> None:
    charges = InMemoryCharges()
    ask(FOOD, ports_of(charges), query="budget", promises=STANDING)
    before = charges.entries
    release = ask(FOOD, ports_of(charges), query=GENERIC, promises=STANDING)
    assert generic_without_charge(release, Refusal.SHARE)
    assert charges.entries == before
    assert ask(FOOD, ports_of(charges), query="budget", promises=STANDING).view.name == "budget"


def test_a_share_leaves_the_other_slots_theirs() -> None:
    """Food first, as often as it likes; health and finance still get a view of their own."""
    charges = InMemoryCharges()
    ports = ports_of(charges)
    for query in ("budget", GENERIC, "low_sugar", GENERIC):
        ask(FOOD, ports, query=query, promises=STANDING)
    for name in (HEALTH, FINANCE):
        assert ask(name, ports, promises=STANDING).source is Source.DRAWN
    assert spent(charges) == {"diabetes": "2.000000", "debt": "2.000000"}


def test_a_standing_view_ends_with_its_epoch() -> None:
    charges = InMemoryCharges()
    ask(FOOD, ports_of(charges), promises=STANDING)
    charges.open_next_epoch()
    assert ask(FOOD, ports_of(charges), promises=STANDING).source is Source.DRAWN


def test_a_standing_view_is_not_used_where_the_ledger_is_unreadable() -> None:
    charges = InMemoryCharges()
    ask(FOOD, ports_of(charges), query="budget", promises=STANDING)
    charges.lose_a_row()
    release = ask(FOOD, ports_of(charges), query="budget", promises=STANDING)
    assert generic_without_charge(release, Refusal.UNREADABLE)


@pytest.mark.parametrize("memory", FAILING)
def test_a_failure_draws_a_standing_view_from_contents_that_speak_for_none(
    memory: MemoryReader,
) -> None:
    """The first candidate leads by the public rule for ties, and the charge stays."""
    found = distribution_of(
        lambda randomness: (
            ask(
                FOOD,
                ports_of(InMemoryCharges(), memory=memory, randomness=randomness),
                query="budget",
                promises=STANDING,
            ).view.name
        )
    )
    chances = RandomizedResponse(STANDING.epsilon(STANDING.layout.slot(FOOD))).distribution(
        neutral_scores((0.0, 0.0))
    )
    assert found == {ViewName(GENERIC): chances[0], ViewName("budget"): chances[1]}


@pytest.mark.parametrize("mechanism", Mechanism)
@pytest.mark.parametrize("allocation", [Online(3), Standing(candidates=3)])
def test_the_charge_is_that_of_the_mechanism_of_the_policy(
    mechanism: Mechanism, allocation: Allocation
) -> None:
    promises = figure_two(mechanism=mechanism, allocation=allocation)
    charges = InMemoryCharges()
    release = ask(FOOD, ports_of(charges), promises=promises)
    charge = charges.entries[1]
    assert isinstance(charge, Charge)
    expected = release_mechanism(promises, promises.layout.slot(FOOD))
    assert (charge.mechanism, charge.units) == (mechanism, expected.charge)
    assert release.units == expected.charge


def test_a_slot_is_charged_to_what_the_policy_adds() -> None:
    promises = figure_two(charge_also={HEALTH: frozenset({DEBT})}, debt_cap="1")
    charges = InMemoryCharges()
    release = ask(HEALTH, ports_of(charges), promises=promises)
    assert release.charged == {DIABETES, DEBT}
    assert release.units == units_from_epsilon(1) // 3
    assert charges.ledger.spent(promises.layout.attribute(DEBT)) == release.units


# --- what is read -------------------------------------------------------------------------------


def two_shelves() -> Promises:
    """Food on two shelves: the first implies diabetes, the second debt as well."""
    food = FIGURE_TWO.layout.slot(FOOD)
    shelves = tuple(
        replace(food.shelves[0], name=ShelfName(f"food.{p}"), positions=(p,))
        for p in food.positions
    )
    slots = tuple(
        replace(food, shelves=shelves) if each.name == FOOD else each
        for each in FIGURE_TWO.layout.slots
    )
    return replace(FIGURE_TWO, layout=replace(FIGURE_TWO.layout, slots=slots))


def test_a_part_of_a_slot_is_read_and_charged_by_what_covers_the_part() -> None:
    promises = two_shelves()
    part = promises.layout.slot(FOOD).reading({ShelfName("food.2")})
    charges, rows = InMemoryCharges(FIRST_EPOCH), NotingRows()
    ports = ports_of(charges, memory=rows)
    release = run_now(release_view(MEALS, "dinner", part, promises, ports))
    assert rows.read == [(2,)]
    assert release.charged == {DIABETES}
    (charge,) = (entry for entry in charges.entries if isinstance(entry, Charge))
    assert charge.positions == {2}
    assert charge.charged == {DIABETES}


def test_a_slot_with_positions_of_another_is_refused_before_anything_is_charged() -> None:
    promises = two_shelves()
    food, health = promises.layout.slot(FOOD), promises.layout.slot(HEALTH)
    mixed = replace(food, shelves=(*food.shelves, *health.shelves))
    charges = InMemoryCharges(FIRST_EPOCH)
    with pytest.raises(ContractError, match="own positions"):
        run_now(release_view(MEALS, "dinner", mixed, promises, ports_of(charges)))
    assert charges.entries == FIRST_EPOCH


class NotingRows:
    """Empty rows that note which of them were asked for."""

    def __init__(self) -> None:
        self.read: list[tuple[Position, ...]] = []

    async def open_rows(self, read_set: tuple[Position, ...]) -> Secret[tuple[str, ...]]:
        self.read.append(read_set)
        return Secret(("",) * len(read_set))
