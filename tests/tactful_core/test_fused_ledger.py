"""What fused text adds up to, against books that are kept beside it; and mutants of the ledger.

`expected` is written from GUARANTEE §1 and §5 alone, with other arithmetic. A mutant is the ledger
with one of its rules taken away; `STORIES` must tell each of them from the ledger.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from decimal import ROUND_CEILING, Context, Decimal
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.contracts.reservation_store import PARAMETERS, cell, fused_promises, reservation
from tests.fakes.in_memory_charges import numbered_id
from tests.fakes.small_policies import COACH, DEBT, MEALS, attribute

from tactful_core import fused_ledger
from tactful_core.entries import (
    Cell,
    Entry,
    EntryId,
    EpochOpened,
    FusedReserved,
    FusedSettled,
    UnreadableEntry,
    new_entry_id,
)
from tactful_core.fused_ledger import FusedAccount, FusedSums, draw_loss, widest_of
from tactful_core.fusion import HIGHEST_ALPHA, FusionParameters, epsilon_of
from tactful_core.layout import Attribute
from tactful_core.ledger import (
    Ledger,
    Refusal,
    draws_left,
    fused_cap,
    mark_of,
    replay,
    reservation_refusal,
    united,
)
from tactful_core.mixtures import STEPS
from tactful_core.values import UNITS_PER_EPSILON, AppId, AttributeName, Position

PROMISES = fused_promises()
ATTRIBUTES = PROMISES.layout.attributes
OPENED = EpochOpened(numbered_id(1), 1, 0, PARAMETERS)
OTHER = FusionParameters.in_steps(2, STEPS // 4, STEPS // 100)

_EXACT = Context(prec=60)

parameters = st.builds(
    FusionParameters.in_steps,
    st.integers(2, HIGHEST_ALPHA),
    st.integers(1, STEPS - 1),
    st.integers(1, 2 * STEPS),
)


# ---- the books ----------------------------------------------------------------------------------


def loss(given: FusionParameters, touching: int, widest: int) -> int:
    """`ln(1 + c·max((k/k*)², (k/k*)^α)) / (α − 1)` in units; each of the two steps rounded up."""
    if touching == 0:
        return 0
    share = Decimal(touching) / Decimal(widest)
    worst = max(_EXACT.power(share, 2), _EXACT.power(share, given.alpha))
    c = Decimal(given.divergence.numerator) / Decimal(given.divergence.denominator)
    exact = _EXACT.multiply(_EXACT.ln(1 + c * worst), UNITS_PER_EPSILON)
    return math.ceil(exact.to_integral_value(rounding=ROUND_CEILING) / (given.alpha - 1))


def touching(entry: FusedReserved, counted: Attribute) -> int:
    return sum(
        counted.name in each.charged or bool(each.positions & counted.positions)
        for each in entry.cells
    )


def expected(entries: Sequence[Entry], counted: Attribute, app: AppId | None = None) -> int:
    """`ρ_a` of the last epoch: what was settled, and the whole of what was not."""
    last = max(entry.epoch for entry in entries if isinstance(entry, EpochOpened))
    made = [entry for entry in entries if isinstance(entry, FusedReserved)]
    return sum(
        _cost(entries, entry, counted)
        for entry in made
        if entry.epoch == last and app in (None, entry.app)
    )


def expected_lifetime(entries: Sequence[Entry], counted: Attribute) -> int:
    """The same over all epochs, each draw at the order of its own."""
    made = [entry for entry in entries if isinstance(entry, FusedReserved)]
    return sum(_cost(entries, entry, counted) for entry in made)


def _cost(entries: Sequence[Entry], made: FusedReserved, counted: Attribute) -> int:
    fusion = {e.epoch: e.fusion for e in entries if isinstance(e, EpochOpened)}[made.epoch]
    assert fusion is not None
    draws = {e.reservation: e.draws for e in entries if isinstance(e, FusedSettled)}
    charged = [name for each in made.cells for name in each.charged]
    widest = max(charged.count(name) for name in set(charged))
    return draws.get(made.id, made.draws) * loss(fusion, touching(made, counted), widest)


def epoch(number: int, given: FusionParameters | None = PARAMETERS) -> EpochOpened:
    return EpochOpened(numbered_id(number), number, 0, given)


def settled(made: FusedReserved, draws: int) -> FusedSettled:
    return FusedSettled(new_entry_id(), made.epoch, made.id, draws)


def rho(ledger: Ledger) -> dict[AttributeName, int]:
    return {a.name: ledger.fused.spent(a) for a in ATTRIBUTES}


# ---- what one draw costs ------------------------------------------------------------------------


@given(parameters, st.integers(0, 8), st.integers(1, 8))
def test_a_draw_costs_what_the_distance_formula_says(
    given: FusionParameters, touching: int, widest: int
) -> None:
    """Also beyond `k*`, where `(k/k*)^α` is what counts: a group that grew (GUARANTEE §1, §3)."""
    found = draw_loss(given, touching, widest)
    assert loss(given, touching, widest) <= found <= loss(given, touching, widest) + 1


def test_beyond_the_widest_a_draw_costs_more_than_the_square() -> None:
    c, alpha = float(PARAMETERS.divergence), PARAMETERS.alpha
    square = math.log1p(c * 2**2) / (alpha - 1) * UNITS_PER_EPSILON
    assert draw_loss(PARAMETERS, 2, 1) > square * 2


def test_the_widest_is_that_of_the_attribute_charged_for_most_cells() -> None:
    assert widest_of([cell(1), cell(4), cell(5)]) == 2
    assert widest_of([cell(1), cell(4)]) == 1
    assert widest_of([cell(1), cell(2), cell(3)]) == 3
    assert widest_of([Cell(frozenset({Position(9)}), frozenset())]) == 0


# ---- stories ------------------------------------------------------------------------------------

Story = tuple[list[Entry], tuple[Attribute, ...]]


def overlapping() -> Story:
    """Two attributes, four cells, one of them both's: `k_debt = 2 < k* = 3`."""
    made = reservation(cell(1), cell(2), cell(3), cell(4), draws=9)
    return [OPENED, made, settled(made, 6)], ATTRIBUTES


def left_open() -> Story:
    """A crash: nobody says what was drawn."""
    done, left = reservation(draws=5), reservation(cell(4), draws=7)
    return [OPENED, done, left, settled(done, 2)], ATTRIBUTES


def grown() -> Story:
    """Afterwards debt turns out to be implied by what health says: it touches more than `k*`."""
    made = reservation(cell(1), cell(4), draws=4)
    more = attribute(DEBT, (1, 3, 4, 5), "2")
    appeared = attribute("job", (1, 4), "2")
    return [OPENED, made, settled(made, 4)], (ATTRIBUTES[0], more, appeared)


def two_apps() -> Story:
    mine, theirs = reservation(draws=3), reservation(draws=8, app=COACH)
    return [OPENED, mine, theirs, settled(theirs, 1), settled(mine, 0)], ATTRIBUTES


def another_epoch() -> Story:
    """What the epoch before left open is none of this one's."""
    left, made = reservation(draws=3), replace(reservation(draws=8), epoch=2)
    return [OPENED, left, epoch(2, OTHER), made, settled(made, 8)], ATTRIBUTES


STORIES = (overlapping, left_open, grown, two_apps, another_epoch)


def keeps_the_books() -> bool:
    """Whether the ledger comes to what the books say in every story."""
    for story in STORIES:
        entries, attributes = story()
        ledger = replay(entries)
        for counted in attributes:
            spent = [ledger.fused.spent(counted, app) for app in (None, MEALS, COACH)]
            if spent != [expected(entries, counted, app) for app in (None, MEALS, COACH)]:
                return False
            if ledger.fused.lifetime_spent(counted) != expected_lifetime(entries, counted):
                return False
    return True


def test_the_ledger_keeps_the_books() -> None:
    assert keeps_the_books()


def _settled_below(self: FusedSums, entry: FusedSettled) -> FusedSums:
    return _SETTLE(self, replace(entry, draws=max(0, entry.draws - 1)))


def _refunded(self: FusedSums, number: int, given: FusionParameters | None) -> FusedSums:
    """As if streams that nobody settled before the epoch ended had drawn nothing."""
    return _OPENED(replace(self, open={}), number, given)


def _square(given: FusionParameters, touching: int, widest: int) -> int:
    return draw_loss(given, min(touching, widest), widest)


_SETTLE, _OPENED = FusedSums.settle, FusedSums.opened
MUTANTS: Mapping[str, Callable[[], AbstractContextManager[object]]] = {
    "an open reservation is not counted": lambda: patch.object(
        FusedSums, "draws", lambda self: self.settled
    ),
    "a crash refunds": lambda: patch.object(FusedSums, "opened", _refunded),
    "settled to one draw less than were made": lambda: patch.object(
        FusedSums, "settle", _settled_below
    ),
    "k* is ignored": lambda: patch.object(fused_ledger, "widest_of", lambda _cells: 1),
    "every attribute pays as the widest": lambda: patch.object(
        FusedAccount, "loss", lambda self, _a: draw_loss(self.parameters, 1, 1)
    ),
    "a grown group pays only up to k*": lambda: patch.object(fused_ledger, "draw_loss", _square),
    "a grown group pays what was charged": lambda: patch.object(
        FusedAccount,
        "loss",
        lambda self, a: self._loss(a.name in each.charged for each in self.cells),
    ),
    "settling leaves the reservation open": lambda: patch.object(
        fused_ledger, "without", lambda mapping, _key: mapping
    ),
    "an epoch keeps what the one before left open": lambda: patch.object(
        FusedSums,
        "opened",
        lambda self, number, given: replace(
            self, parameters={**self.parameters, number: given}, now=given, settled={}
        ),
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_the_stories_tell_every_mutant(
    mutant: Callable[[], AbstractContextManager[object]],
) -> None:
    with mutant():
        assert not keeps_the_books()


# ---- entries that cannot be ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([epoch(1, None), reservation()], id="an epoch without parameters"),
        pytest.param(
            [OPENED, reservation(Cell(frozenset({Position(1)}), frozenset()))], id="a free cell"
        ),
        pytest.param([OPENED, settled(reservation(), 1)], id="nothing was reserved"),
        pytest.param([OPENED, replace(reservation(), epoch=2)], id="an epoch to come"),
    ],
)
def test_draws_that_could_not_be_made_are_unreadable(entries: list[Entry]) -> None:
    with pytest.raises(UnreadableEntry):
        replay(entries)


def test_more_than_was_reserved_is_unreadable() -> None:
    made = reservation(draws=4)
    with pytest.raises(UnreadableEntry):
        replay([OPENED, made, settled(made, 5)])


# ---- marks --------------------------------------------------------------------------------------


@st.composite
def fused_entries(draw: st.DrawFn, most: int = 5) -> list[Entry]:
    """Reservations of the first epoch, some of them settled at some later time."""
    entries: list[Entry] = []
    still_open: list[FusedReserved] = []
    groups = [(cell(1), cell(4, 5)), (cell(2), cell(3)), (cell(4),), (cell(1), cell(2), cell(3))]
    for _ in range(draw(st.integers(0, most))):
        if draw(st.booleans()) and still_open:
            made = still_open.pop(draw(st.integers(0, len(still_open) - 1)))
            entries.append(settled(made, draw(st.integers(0, made.draws))))
        else:
            cells = draw(st.sampled_from(groups))
            made = reservation(
                *cells, draws=draw(st.integers(1, 40)), app=draw(st.sampled_from([MEALS, COACH]))
            )
            entries.append(made)
            still_open.append(made)
    return entries


@given(fused_entries(most=8), st.integers(0, 8))
def test_an_old_database_put_back_is_never_less_than_what_was_spent(
    entries: list[Entry], lost: int
) -> None:
    """A settlement that is gone leaves its reservation open; both count, which is more."""
    whole = replay([OPENED, *entries])
    mark = mark_of(whole, 1 + len(entries), ATTRIBUTES)
    kept = entries[: max(0, len(entries) - lost)]
    restored = replay([OPENED, *kept]).not_below(mark, ATTRIBUTES)
    assert all(rho(restored)[name] >= amount for name, amount in rho(whole).items())
    if not any(isinstance(gone, FusedSettled) for gone in entries[len(kept) :]):
        assert rho(restored) == rho(whole)
    for counted in ATTRIBUTES:
        before = whole.fused.lifetime_spent(counted)
        assert restored.fused.lifetime_spent(counted) >= before


@given(fused_entries(most=8), st.integers(0, 8))
def test_a_mark_that_lags_behind_changes_nothing(entries: list[Entry], behind: int) -> None:
    """The daemon was killed between an entry and its mark; a settlement is no loss then."""
    known = entries[: max(0, len(entries) - behind)]
    mark = mark_of(replay([OPENED, *known]), 1 + len(known), ATTRIBUTES)
    ledger = replay([OPENED, *entries])
    after = ledger.not_below(mark, ATTRIBUTES)
    assert rho(after) == rho(ledger)
    assert not after.fused.is_short
    assert after.fused.lifetime_spent(ATTRIBUTES[0]) == ledger.fused.lifetime_spent(ATTRIBUTES[0])


@given(fused_entries(), fused_entries())
def test_a_mark_counts_once_however_often_it_is_applied(
    entries: list[Entry], others: list[Entry]
) -> None:
    mark = mark_of(replay([OPENED, *others]), 9, ATTRIBUTES)
    ledger = replay([OPENED, *entries]).not_below(mark, ATTRIBUTES)
    assert rho(ledger.not_below(mark, ATTRIBUTES)) == rho(ledger)
    for _ in range(3):
        mark = mark_of(ledger, 9, ATTRIBUTES)
        again = replay([OPENED, *entries]).not_below(mark, ATTRIBUTES)
        assert rho(again) == rho(ledger)
        ledger = again


@given(fused_entries(), fused_entries(), st.integers(1, 9))
def test_later_reservations_come_on_top_of_what_was_lost(
    entries: list[Entry], others: list[Entry], draws: int
) -> None:
    mark = mark_of(replay([OPENED, *others]), 9, ATTRIBUTES)
    restored = replay([OPENED, *entries]).not_below(mark, ATTRIBUTES)
    made = reservation(cell(1), cell(4), draws=draws)
    after = restored.after(made)
    for name, amount in rho(restored).items():
        assert rho(after)[name] == amount + draws * draw_loss(PARAMETERS, 1, 1)


def test_a_mark_of_an_epoch_that_is_gone_counts_its_open_reservations_in_the_lifetime() -> None:
    later: list[Entry] = [OPENED, epoch(2), replace(reservation(draws=7), epoch=2)]
    mark = mark_of(replay(later), 3, ATTRIBUTES)
    restored = replay([OPENED]).not_below(mark, ATTRIBUTES)
    assert restored.exhausted
    assert reservation_refusal(restored, reservation(draws=1), PROMISES) is Refusal.CAP
    for counted in ATTRIBUTES:
        known = replay(later).fused.lifetime_spent(counted)
        assert restored.fused.lifetime_spent(counted) == known > 0
    assert restored.fused.alpha == PARAMETERS.alpha


# ---- epochs and lifetimes -----------------------------------------------------------------------


def test_a_lifetime_is_a_loss_at_the_lowest_order_of_all_epochs() -> None:
    """A divergence grows with its order, so losses at higher ones bound those at the lowest."""
    first, second = reservation(draws=5), replace(reservation(draws=6), epoch=2)
    entries: list[Entry] = [OPENED, first, settled(first, 4)]
    entries += [epoch(2, OTHER), second, epoch(3, None)]
    ledger = replay(entries)
    each = loss(PARAMETERS, 1, 1) * 4 + loss(OTHER, 1, 1) * 6
    for counted in ATTRIBUTES:
        assert ledger.fused.lifetime_spent(counted) == each
        assert ledger.fused.spent(counted) == 0
    assert ledger.fused.alpha == OTHER.alpha == 2
    assert reservation_refusal(ledger, replace(first, epoch=3), PROMISES) is Refusal.FUSION


def test_a_settlement_of_a_closed_epoch_gives_nothing_back() -> None:
    made = reservation(draws=5)
    ledger = replay([OPENED, made, epoch(2), settled(made, 1)])
    assert ledger.fused.lifetime_spent(ATTRIBUTES[0]) == 5 * loss(PARAMETERS, 1, 1)


# ---- copies united ------------------------------------------------------------------------------


@given(fused_entries(), fused_entries(), fused_entries(most=3), st.data())
def test_a_union_of_copies_counts_what_was_drawn_on_both_sides(
    ours: list[Entry], theirs: list[Entry], common: list[Entry], data: st.DataObject
) -> None:
    """One of the copies may have settled what the other one still has open."""
    left = [e for e in common if isinstance(e, FusedReserved)]
    ended = {e.reservation for e in common if isinstance(e, FusedSettled)}
    late = [settled(e, data.draw(st.integers(0, e.draws))) for e in left if e.id not in ended]
    one, other = [OPENED, *common, *late, *ours], [OPENED, *common, *theirs]
    for first, second in ((one, other), (other, one)):
        whole = [*first, *united(first, second)]
        assert {a.name: expected(whole, a) for a in ATTRIBUTES} == rho(replay(whole))


def test_two_copies_that_both_settled_count_both() -> None:
    """A machine that was cloned while it streamed drew twice."""
    made = reservation(draws=5)
    one: list[Entry] = [OPENED, made, settled(made, 2)]
    other: list[Entry] = [OPENED, made, settled(made, 4)]
    whole = replay([*one, *united(one, other)])
    assert rho(whole)[DEBT] == 6 * loss(PARAMETERS, 1, 1)


# ---- how much is left ---------------------------------------------------------------------------


@given(fused_entries(most=8), st.sampled_from([MEALS, COACH]))
def test_what_is_left_can_be_reserved_and_one_draw_more_cannot(
    entries: list[Entry], app: AppId
) -> None:
    ledger = replay([OPENED, *entries])
    cells = (cell(1), cell(3), cell(4))
    most = draws_left(ledger, app, cells, PROMISES)
    if most:
        fits = reservation(*cells, draws=most, app=app)
        assert reservation_refusal(ledger, fits, PROMISES) is None
    more = reservation(*cells, draws=most + 1, app=app)
    assert reservation_refusal(ledger, more, PROMISES) in {Refusal.CAP, Refusal.QUOTA}


def test_the_cap_is_the_most_loss_that_still_is_the_epsilon() -> None:
    debt = PROMISES.layout.attribute(DEBT)
    cap = fused_cap(replay([OPENED]), debt, PROMISES)
    assert cap is not None
    assert epsilon_of(PARAMETERS, cap, 1e-5) <= 8.0 + 1e-9
    assert epsilon_of(PARAMETERS, type(cap)(cap + 2), 1e-5) > 8.0


# ---- a whole life -------------------------------------------------------------------------------


class FusedHistory(RuleBasedStateMachine):
    """One ledger as a store keeps it, through crashes and old databases, with books beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = [OPENED]
        self.ledger = replay(self.entries)
        self.mark = mark_of(self.ledger, 1, ATTRIBUTES)
        self.streams: dict[EntryId, FusedReserved] = {}
        # What was really drawn, wherever its entries are by now: (cells, draws) of this epoch.
        self.drawn: list[tuple[FusedReserved, int]] = []

    def _write(self, entry: Entry, *, marked: bool) -> None:
        self.entries.append(entry)
        self.ledger = self.ledger.after(entry)
        if marked:
            self.mark = mark_of(self.ledger, len(self.entries), ATTRIBUTES)

    def _restart(self) -> None:
        self.streams.clear()
        self.ledger = replay(self.entries).not_below(self.mark, ATTRIBUTES)
        self.mark = mark_of(self.ledger, len(self.entries), ATTRIBUTES)

    @rule(
        draws=st.integers(1, 400),
        cells=st.sampled_from([(cell(1), cell(4)), (cell(3),), (cell(1), cell(2), cell(3))]),
        app=st.sampled_from([MEALS, COACH]),
        marked=st.booleans(),
    )
    def reserve(self, draws: int, cells: tuple[Cell, ...], app: AppId, marked: bool) -> None:
        wanted = replace(
            reservation(*cells, draws=draws, app=app), epoch=self.ledger.epoch, id=new_entry_id()
        )
        if reservation_refusal(self.ledger, wanted, PROMISES) is None:
            self._write(wanted, marked=marked)
            self.streams[wanted.id] = wanted

    @precondition(lambda self: self.streams)
    @rule(data=st.data(), marked=st.booleans())
    def finish(self, data: st.DataObject, marked: bool) -> None:
        keys = list(self.streams)
        made = self.streams.pop(keys[data.draw(st.integers(0, len(keys) - 1))])
        draws = data.draw(st.integers(0, made.draws))
        self.drawn.append((made, draws))
        self._write(settled(made, draws), marked=marked)

    @precondition(lambda self: self.streams)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """Every stream had drawn something, up to all of it, and nobody wrote how much."""
        for made in self.streams.values():
            self.drawn.append((made, data.draw(st.integers(0, made.draws))))
        self._restart()

    @precondition(lambda self: not self.streams)
    @rule(lost=st.integers(1, 3))
    def put_an_old_database_back(self, lost: int) -> None:
        kept = max(1, len(self.entries) - lost)
        while any(isinstance(e, EpochOpened) for e in self.entries[kept:]):
            kept += 1
        self.mark = mark_of(self.ledger, len(self.entries), ATTRIBUTES)
        self.entries = self.entries[:kept]
        self._restart()

    @precondition(lambda self: not self.streams)
    @rule()
    def next_epoch(self) -> None:
        self.drawn.clear()
        number = self.ledger.epoch + 1
        self._write(EpochOpened(new_entry_id(), number, 0, PARAMETERS), marked=True)

    @invariant()
    def nothing_that_was_drawn_is_won_back(self) -> None:
        for counted in ATTRIBUTES:
            really = sum(
                draws * loss(PARAMETERS, touching(made, counted), widest_of(made.cells))
                for made, draws in self.drawn
            )
            found = self.ledger.fused.spent(counted)
            reserved = sum(
                made.draws * loss(PARAMETERS, touching(made, counted), widest_of(made.cells))
                for made in self.streams.values()
            )
            assert found >= really + reserved

    @invariant()
    def budgets_hold(self) -> None:
        for counted in ATTRIBUTES:
            cap = fused_cap(self.ledger, counted, PROMISES)
            assert cap is not None
            if not self.ledger.fused.is_short:
                assert self.ledger.fused.spent(counted) <= cap


TestFusedHistory = FusedHistory.TestCase
TestFusedHistory.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
