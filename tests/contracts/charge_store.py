"""What every `ChargeStore` must do: a class of tests to derive from.

A test class for one implementation derives from `ChargeStoreContract` and defines the fixture
`store`: a new store whose epoch 1 is open. The tests are coroutines, so that a store may wait.
"""

import asyncio

from tests.fakes.small_policies import COACH, DEBT, FINANCE, FOOD, HEALTH, MEALS, figure_two

from tactful_core.entries import Charge, Mechanism, UnprotectedRead
from tactful_core.interface import ChargeStore
from tactful_core.layout import Promises
from tactful_core.ledger import Admitted, Refusal, Refused
from tactful_core.values import AppId, Position, SlotName, Units

CAP = figure_two().layout.attribute(DEBT).cap
THIRD = Units(CAP // 3)


def charge_for(
    slot: SlotName, *, app: AppId = MEALS, units: Units = THIRD, epoch: int = 1
) -> Charge:
    """What Algorithm 1 asks for when `app` asks about this slot of `figure_two`."""
    layout = figure_two().layout
    read_set = layout.slot(slot).positions
    return Charge(
        epoch=epoch,
        app=app,
        slot=slot,
        mechanism=Mechanism.EXPONENTIAL,
        positions=frozenset(read_set),
        charged=layout.required_charge_set(read_set),
        units=units,
        policy="figure-2",
    )


class ChargeStoreContract:
    """Admission as GUARANTEE C5 wants it."""

    promises: Promises = figure_two(coach_quota={"debt": "0.7"})

    async def test_numbers_the_open_epoch_from_one(self, store: ChargeStore) -> None:
        assert await store.open_epoch() == 1

    async def test_admits_what_fits_and_returns_it(self, store: ChargeStore) -> None:
        admission = await store.admit(charge_for(FOOD), self.promises)
        assert isinstance(admission, Admitted)
        assert admission.charge == charge_for(FOOD)

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
        by_coach = charge_for(FINANCE, app=COACH)
        assert isinstance(await store.admit(charge_for(FINANCE), self.promises), Admitted)
        assert isinstance(await store.admit(by_coach, self.promises), Admitted)
        assert await store.admit(by_coach, self.promises) == Refused(Refusal.QUOTA)
        assert isinstance(await store.admit(charge_for(FINANCE), self.promises), Admitted)
        assert await store.admit(charge_for(FINANCE), self.promises) == Refused(Refusal.CAP)

    async def test_refuses_a_charge_of_another_epoch(self, store: ChargeStore) -> None:
        later = charge_for(FOOD, epoch=2)
        assert await store.admit(later, self.promises) == Refused(Refusal.UNREADABLE)

    async def test_one_of_two_requests_at_once_gets_the_last_charge(
        self, store: ChargeStore
    ) -> None:
        whole = charge_for(FOOD, units=CAP)
        async with asyncio.TaskGroup() as group:
            requests = [
                group.create_task(store.admit(whole, self.promises), name=f"admit {i}")
                for i in range(4)
            ]
        admitted = [task.result() for task in requests]
        assert sum(isinstance(admission, Admitted) for admission in admitted) == 1

    async def test_an_unprotected_read_closes_an_attribute_that_comes_to_cover_it(
        self, store: ChargeStore
    ) -> None:
        read = UnprotectedRead(1, MEALS, FOOD, frozenset({Position(3)}), "figure-2")
        assert await store.record(read) is True
        assert await store.admit(charge_for(FINANCE), self.promises) == Refused(Refusal.CAP)
