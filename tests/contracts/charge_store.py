"""What every `ChargeStore` must do: a class of tests to derive from.

A test class for one implementation derives from `ChargeStoreContract` and defines the fixture
`store`: a new store whose epoch 1 is open. The tests are coroutines, so that a store may wait.
"""

import asyncio
from dataclasses import replace

import pytest
from tests.fakes.small_policies import COACH, DEBT, FINANCE, FOOD, HEALTH, MEALS, figure_two

from tactful_core.entries import (
    Charge,
    EntryId,
    Mechanism,
    UnprotectedRead,
    ViewReleased,
    new_entry_id,
)
from tactful_core.errors import ContractError
from tactful_core.interface import ChargeStore
from tactful_core.ledger import Admitted, Ledger, Refusal, Refused
from tactful_core.promises import Promises
from tactful_core.values import AppId, Position, SlotName, Units, ViewName

CAP = figure_two().layout.attribute(DEBT).cap
THIRD = Units(CAP // 3)


def charge_for(
    slot: SlotName,
    *,
    app: AppId = MEALS,
    units: Units = THIRD,
    epoch: int = 1,
    entry_id: EntryId | None = None,
) -> Charge:
    """What Algorithm 1 asks for when `app` asks about this slot of `figure_two`."""
    layout = figure_two().layout
    read_set = layout.slot(slot).positions
    return Charge(
        id=entry_id or new_entry_id(),
        epoch=epoch,
        app=app,
        slot=slot,
        mechanism=Mechanism.EXPONENTIAL,
        positions=frozenset(read_set),
        charged=layout.required_charge_set(read_set),
        units=units,
        policy="figure-2",
    )


def view_for(charge: Charge, view: str = "budget") -> ViewReleased:
    """The entry for a view that this charge bought."""
    return ViewReleased(
        id=new_entry_id(),
        epoch=charge.epoch,
        charge=charge.id,
        slot=charge.slot,
        mechanism=charge.mechanism,
        candidates=(ViewName("generic"), ViewName(view)),
        view=ViewName(view),
        units=charge.units,
    )


def read_of(*positions: int, epoch: int = 1, slot: SlotName = FOOD) -> UnprotectedRead:
    """A read of these positions without protection."""
    read_set = frozenset(Position(p) for p in positions)
    return UnprotectedRead(new_entry_id(), epoch, MEALS, slot, read_set, "figure-2")


class ChargeStoreContract:
    """Admission as GUARANTEE C5 wants it."""

    promises: Promises = figure_two(coach_quota={"debt": "0.7"})

    async def test_the_first_epoch_is_open_and_nothing_is_spent(self, store: ChargeStore) -> None:
        ledger = readable(store)
        assert ledger.epoch == 1
        assert [ledger.spent(a) for a in self.promises.layout.attributes] == [0, 0]

    async def test_admits_what_fits_and_returns_it(self, store: ChargeStore) -> None:
        charge = charge_for(FOOD)
        admission = await store.admit(charge, self.promises)
        assert isinstance(admission, Admitted)
        assert admission.charge == charge

    async def test_what_is_admitted_is_in_the_next_snapshot(self, store: ChargeStore) -> None:
        before = readable(store)
        await store.admit(charge_for(FOOD), self.promises)
        debt = self.promises.layout.attribute(DEBT)
        assert (before.spent(debt), readable(store).spent(debt)) == (0, THIRD)
        assert readable(store).charges == {FOOD: 1}

    async def test_numbers_entries_upwards(self, store: ChargeStore) -> None:
        first = await store.admit(charge_for(HEALTH), self.promises)
        second = await store.admit(charge_for(FINANCE), self.promises)
        assert isinstance(first, Admitted)
        assert isinstance(second, Admitted)
        assert first.sequence < second.sequence

    async def test_fills_a_cap_exactly_and_no_further(self, store: ChargeStore) -> None:
        for _ in range(3):
            assert isinstance(await store.admit(charge_for(FOOD), self.promises), Admitted)
        one_unit = charge_for(FOOD, units=Units(1))
        assert await store.admit(one_unit, self.promises) == Refused(Refusal.CAP)

    async def test_a_refused_charge_costs_nobody(self, store: ChargeStore) -> None:
        """Debt is nearly full, so food is refused; diabetes, which it meets as well, stays free."""
        await store.admit(charge_for(FINANCE, units=Units(2 * THIRD)), self.promises)
        too_much = charge_for(FOOD, units=Units(2 * THIRD))
        assert await store.admit(too_much, self.promises) == Refused(Refusal.CAP)
        all_of_diabetes = charge_for(HEALTH, units=CAP)
        assert isinstance(await store.admit(all_of_diabetes, self.promises), Admitted)
        rest_of_debt = charge_for(FINANCE, units=THIRD)
        assert isinstance(await store.admit(rest_of_debt, self.promises), Admitted)

    async def test_quotas_count_one_app_and_caps_count_all(self, store: ChargeStore) -> None:
        def ask(app: AppId) -> Charge:
            return charge_for(FINANCE, app=app)

        assert isinstance(await store.admit(ask(MEALS), self.promises), Admitted)
        assert isinstance(await store.admit(ask(COACH), self.promises), Admitted)
        assert await store.admit(ask(COACH), self.promises) == Refused(Refusal.QUOTA)
        assert isinstance(await store.admit(ask(MEALS), self.promises), Admitted)
        assert await store.admit(ask(MEALS), self.promises) == Refused(Refusal.CAP)

    async def test_an_app_without_a_grant_is_a_bug_that_charges_nobody(
        self, store: ChargeStore
    ) -> None:
        nobody = replace(self.promises, grants=())
        with pytest.raises(ContractError, match="grants it"):
            await store.admit(charge_for(FOOD), nobody)
        assert readable(store).charges == {}

    async def test_refuses_a_charge_of_another_epoch(self, store: ChargeStore) -> None:
        later = charge_for(FOOD, epoch=2)
        assert await store.admit(later, self.promises) == Refused(Refusal.UNREADABLE)

    async def test_one_of_two_requests_at_once_gets_the_last_charge(
        self, store: ChargeStore
    ) -> None:
        async with asyncio.TaskGroup() as group:
            requests = [
                group.create_task(
                    store.admit(charge_for(FOOD, units=CAP), self.promises), name=f"admit {i}"
                )
                for i in range(4)
            ]
        admitted = [task.result() for task in requests]
        assert sum(isinstance(admission, Admitted) for admission in admitted) == 1

    async def test_a_recorded_view_is_in_the_next_snapshot(self, store: ChargeStore) -> None:
        charge = charge_for(FOOD)
        await store.admit(charge, self.promises)
        released = view_for(charge)
        assert await store.record(released) is True
        assert readable(store).released == {FOOD: (released,)}

    async def test_a_view_of_another_epoch_is_not_recorded(self, store: ChargeStore) -> None:
        assert await store.record(view_for(charge_for(FOOD, epoch=2))) is False
        assert readable(store).released == {}

    async def test_an_unprotected_read_closes_an_attribute_that_comes_to_cover_it(
        self, store: ChargeStore
    ) -> None:
        assert await store.record(read_of(3)) is True
        assert await store.admit(charge_for(FINANCE), self.promises) == Refused(Refusal.CAP)


def readable(store: ChargeStore) -> Ledger:
    """The snapshot of a store that must be readable."""
    ledger = store.snapshot()
    assert isinstance(ledger, Ledger)
    return ledger
