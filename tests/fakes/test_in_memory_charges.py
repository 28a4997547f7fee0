"""The in-memory ledger is a real one."""

import pytest
from tests.contracts.charge_store import ChargeStoreContract, charge_for, read_of, view_for
from tests.contracts.reservation_store import PARAMETERS, ReservationStoreContract
from tests.fakes.in_memory_charges import FIRST_EPOCH, InMemoryCharges, numbered_id
from tests.fakes.running import run_now
from tests.fakes.small_policies import FINANCE, FOOD, figure_two

from tactful_core.entries import EpochOpened
from tactful_core.ledger import Refusal, Refused, UnreadableLedger, replay


class TestInMemoryCharges(ChargeStoreContract):
    @pytest.fixture
    def store(self) -> InMemoryCharges:
        return InMemoryCharges()


class TestInMemoryReservations(ReservationStoreContract):
    @pytest.fixture
    def store(self) -> InMemoryCharges:
        return InMemoryCharges([EpochOpened(numbered_id(1), 1, 0, PARAMETERS)])


def test_its_ledger_is_what_its_entries_add_up_to() -> None:
    store = InMemoryCharges()
    for slot in (FOOD, FINANCE, FOOD, FOOD):
        run_now(store.admit(charge_for(slot), figure_two()))
    run_now(store.record(view_for(charge_for(FOOD))))
    store.open_next_epoch()
    run_now(store.admit(charge_for(FOOD, epoch=2), figure_two()))
    assert store.ledger == replay(store.entries)
    assert InMemoryCharges(store.entries).ledger == store.ledger


def test_a_new_epoch_makes_room_and_keeps_the_period() -> None:
    first = EpochOpened(numbered_id(1), 1, 20_000)
    store = InMemoryCharges([first, *(charge_for(FOOD) for _ in range(3))])
    store.open_next_epoch()
    opened = store.entries[-1]
    assert isinstance(opened, EpochOpened)
    assert (opened.epoch, opened.period) == (2, 20_000)
    assert opened.id != first.id
    assert not isinstance(run_now(store.admit(charge_for(FOOD, epoch=2), figure_two())), Refused)


def test_with_a_lost_row_it_admits_and_records_nothing() -> None:
    store = InMemoryCharges()
    store.lose_a_row()
    assert store.snapshot() == UnreadableLedger()
    admission = run_now(store.admit(charge_for(FOOD), figure_two()))
    assert admission == Refused(Refusal.UNREADABLE)
    assert run_now(store.record(read_of(3))) is False
    assert store.entries == FIRST_EPOCH
