"""The in-memory ledger is a real one."""

import pytest
from tests.contracts.charge_store import ChargeStoreContract, charge_for
from tests.fakes.in_memory_charges import FIRST_EPOCH, InMemoryCharges
from tests.fakes.running import run_now
from tests.fakes.small_policies import FINANCE, FOOD, MEALS, figure_two

from tactful_core.entries import EpochOpened, UnprotectedRead
from tactful_core.ledger import Refusal, Refused, UnreadableLedger, replay
from tactful_core.values import Position


class TestInMemoryCharges(ChargeStoreContract):
    @pytest.fixture
    def store(self) -> InMemoryCharges:
        return InMemoryCharges()


def test_its_ledger_is_what_its_entries_add_up_to() -> None:
    store = InMemoryCharges()
    for slot in (FOOD, FINANCE, FOOD, FOOD):
        run_now(store.admit(charge_for(slot), figure_two()))
    store.open_next_epoch()
    run_now(store.admit(charge_for(FOOD, epoch=2), figure_two()))
    assert store.ledger == replay(store.entries)
    assert InMemoryCharges(store.entries).ledger == store.ledger


def test_a_new_epoch_makes_room() -> None:
    store = InMemoryCharges([*FIRST_EPOCH, *[charge_for(FOOD)] * 3])
    store.open_next_epoch()
    assert store.entries[-1] == EpochOpened(2)
    assert not isinstance(run_now(store.admit(charge_for(FOOD, epoch=2), figure_two())), Refused)


def test_with_a_lost_row_it_admits_and_records_nothing() -> None:
    store = InMemoryCharges()
    store.lose_a_row()
    assert store.readable_ledger == UnreadableLedger()
    admission = run_now(store.admit(charge_for(FOOD), figure_two()))
    assert admission == Refused(Refusal.UNREADABLE)
    read = UnprotectedRead(1, MEALS, FOOD, frozenset({Position(3)}), "figure-2")
    assert run_now(store.record(read)) is False
    assert store.entries == FIRST_EPOCH
