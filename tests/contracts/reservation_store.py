"""What every `ReservationStore` must do, besides what every `ChargeStore` does (GUARANTEE §5).

A test class for one implementation derives from `ReservationStoreContract` and defines the fixture
`store`: a new store whose epoch 1 is open and fuses text with `PARAMETERS`.
"""

import asyncio
from dataclasses import replace
from fractions import Fraction

import pytest
from tests.contracts.charge_store import charge_for, readable
from tests.fakes.small_policies import (
    COACH,
    DEBT,
    DIABETES,
    FINANCE,
    FOOD,
    HEALTH,
    MEALS,
    figure_two,
)

from tactful_core.entries import Cell, FusedReserved, new_entry_id
from tactful_core.errors import ContractError
from tactful_core.fused_ledger import draw_loss
from tactful_core.fusion import FusionParameters
from tactful_core.interface import ReservationStore
from tactful_core.ledger import Admitted, Refusal, Refused, fused_cap
from tactful_core.mixtures import STEPS
from tactful_core.promises import Privacy, Promises
from tactful_core.values import AppId, AttributeName, Position, SlotName, Units, units_from_epsilon

PARAMETERS = FusionParameters.in_steps(4, STEPS // 2, STEPS // 64)
BOTH = frozenset({DIABETES, DEBT})


def fused_promises(
    *, coach_quota: str = "0.5", fused: frozenset[AttributeName] = BOTH, privacy: bool = True
) -> Promises:
    """`figure_two`, whose attributes may each lose 8 ε at δ = 10^-5 to fused text in an epoch."""
    promises = figure_two(coach_quota={DEBT: coach_quota})
    epsilon = units_from_epsilon(8)
    attributes = tuple(
        replace(each, fusion=epsilon) if each.name in fused else each
        for each in promises.layout.attributes
    )
    return replace(
        promises,
        layout=replace(promises.layout, attributes=attributes),
        privacy=Privacy(Fraction(1, 10**5), 2000) if privacy else None,
    )


def cell(*positions: int) -> Cell:
    """These positions of `figure_two`, charged to whatever covers them there."""
    read = frozenset(Position(p) for p in positions)
    return Cell(read, figure_two().layout.required_charge_set(read))


def reservation(*cells: Cell, draws: int = 10, app: AppId = MEALS, epoch: int = 1) -> FusedReserved:
    """Draws from these cells; from two that overlap in nobody's attribute where there are none."""
    layout = figure_two().layout
    cells = cells or (cell(1), cell(4, 5))
    read = {position for each in cells for position in each.positions}
    return FusedReserved(
        id=new_entry_id(),
        epoch=epoch,
        app=app,
        slots=frozenset(slot.name for slot in layout.slots if read & set(slot.positions)),
        cells=cells,
        unprotected=frozenset(),
        draws=draws,
        policy="figure-2",
    )


class ReservationStoreContract:
    """Reservation and settlement as GUARANTEE C5 and §5 want them."""

    fused: Promises = fused_promises()

    def rho(self, store: ReservationStore, name: AttributeName = DEBT) -> Units:
        return readable(store).fused.spent(self.fused.layout.attribute(name))

    def affordable(self, store: ReservationStore, name: AttributeName = DEBT) -> int:
        """How many draws of one cell the attribute's fused budget admits in an epoch."""
        cap = fused_cap(readable(store), self.fused.layout.attribute(name), self.fused)
        assert cap is not None
        return cap // draw_loss(PARAMETERS, 1, 1)

    async def reserve(self, store: ReservationStore, wanted: FusedReserved) -> FusedReserved:
        admission = await store.reserve(wanted, self.fused)
        assert isinstance(admission, Admitted)
        assert admission.charge == wanted
        return wanted

    async def test_an_open_reservation_counts_whole(self, store: ReservationStore) -> None:
        await self.reserve(store, reservation(draws=7))
        assert self.rho(store) == 7 * draw_loss(PARAMETERS, 1, 1)

    async def test_settling_frees_what_was_not_drawn(self, store: ReservationStore) -> None:
        made = await self.reserve(store, reservation(draws=7))
        assert await store.settle(made, 3) is True
        assert self.rho(store) == 3 * draw_loss(PARAMETERS, 1, 1)

    async def test_no_draw_at_all_costs_nothing(self, store: ReservationStore) -> None:
        made = await self.reserve(store, reservation(draws=7))
        assert await store.settle(made, 0) is True
        assert self.rho(store) == 0

    async def test_each_attribute_pays_for_the_cells_that_touch_it(
        self, store: ReservationStore
    ) -> None:
        """Two cells touch debt and three diabetes, so `k* = 3` and debt pays for two of three."""
        cells = (cell(1), cell(2), cell(3), cell(4))
        await self.reserve(store, reservation(*cells, draws=5))
        assert self.rho(store, DIABETES) == 5 * draw_loss(PARAMETERS, 3, 3)
        assert self.rho(store, DEBT) == 5 * draw_loss(PARAMETERS, 2, 3)
        assert draw_loss(PARAMETERS, 2, 3) < draw_loss(PARAMETERS, 3, 3)

    async def test_fills_a_fused_budget_exactly_and_no_further(
        self, store: ReservationStore
    ) -> None:
        most = self.affordable(store)
        too_many = reservation(cell(4), draws=most + 1)
        assert await store.reserve(too_many, self.fused) == Refused(Refusal.CAP)
        assert self.rho(store) == 0
        await self.reserve(store, reservation(cell(4), draws=most))
        one_more = reservation(cell(4), draws=1)
        assert await store.reserve(one_more, self.fused) == Refused(Refusal.CAP)

    async def test_what_settling_freed_may_be_reserved_again(self, store: ReservationStore) -> None:
        most = self.affordable(store)
        made = await self.reserve(store, reservation(cell(4), draws=most))
        await store.settle(made, most - 1)
        await self.reserve(store, reservation(cell(5), draws=1))
        assert await store.reserve(reservation(cell(4), draws=1), self.fused) == Refused(
            Refusal.CAP
        )

    async def test_one_attribute_over_its_budget_refuses_all_of_it(
        self, store: ReservationStore
    ) -> None:
        await self.reserve(store, reservation(cell(4), draws=self.affordable(store)))
        assert await store.reserve(reservation(), self.fused) == Refused(Refusal.CAP)
        await self.reserve(store, reservation(cell(1), draws=self.affordable(store, DIABETES)))

    async def test_fused_text_and_views_have_budgets_of_their_own(
        self, store: ReservationStore
    ) -> None:
        await self.reserve(store, reservation(cell(4), draws=self.affordable(store)))
        whole_cap = self.fused.layout.attribute(DEBT).cap
        assert isinstance(
            await store.admit(charge_for(FINANCE, units=whole_cap), self.fused), Admitted
        )

    async def test_a_quota_is_the_same_share_of_the_fused_budget(
        self, store: ReservationStore
    ) -> None:
        """The coach may use a quarter of the cap of debt, and so a quarter of its fused budget."""
        share = self.affordable(store) // 4
        coach = reservation(cell(4), draws=share + 1, app=COACH)
        assert await store.reserve(coach, self.fused) == Refused(Refusal.QUOTA)
        await self.reserve(store, reservation(cell(4), draws=share, app=COACH))
        await self.reserve(store, reservation(cell(4), draws=share + 1))

    async def test_an_attribute_without_a_fused_budget_is_in_no_cell(
        self, store: ReservationStore
    ) -> None:
        only_debt = fused_promises(fused=frozenset({DEBT}))
        for wanted in (reservation(), reservation(cell(3))):
            assert await store.reserve(wanted, only_debt) == Refused(Refusal.FUSION)
        assert isinstance(await store.reserve(reservation(cell(4)), only_debt), Admitted)

    async def test_without_a_delta_no_text_is_fused(self, store: ReservationStore) -> None:
        promises = fused_promises(privacy=False)
        assert await store.reserve(reservation(), promises) == Refused(Refusal.FUSION)

    async def test_a_reservation_is_settled_once(self, store: ReservationStore) -> None:
        made = await self.reserve(store, reservation(draws=7))
        assert await store.settle(made, 3) is True
        with pytest.raises(ContractError):
            await store.settle(made, 1)
        assert self.rho(store) == 3 * draw_loss(PARAMETERS, 1, 1)

    @pytest.mark.parametrize("draws", [8, -1])
    async def test_no_more_is_settled_than_was_reserved(
        self, store: ReservationStore, draws: int
    ) -> None:
        made = await self.reserve(store, reservation(draws=7))
        with pytest.raises(ContractError):
            await store.settle(made, draws)
        assert self.rho(store) == 7 * draw_loss(PARAMETERS, 1, 1)

    async def test_what_was_not_reserved_is_not_settled(self, store: ReservationStore) -> None:
        with pytest.raises(ContractError):
            await store.settle(reservation(), 1)

    async def test_refuses_a_reservation_of_another_epoch(self, store: ReservationStore) -> None:
        later = reservation(epoch=2)
        assert await store.reserve(later, self.fused) == Refused(Refusal.UNREADABLE)

    @pytest.mark.parametrize(
        ("wrong", "cells"),
        [
            ("no cell is charged to nobody", (Cell(frozenset({Position(1)}), frozenset()),)),
            ("all that cover it pay", (Cell(frozenset({Position(3)}), frozenset({DEBT})),)),
            ("no position twice", (cell(2, 3), cell(3))),
        ],
    )
    async def test_cells_that_theorem_2_does_not_hold_for_are_a_bug(
        self, store: ReservationStore, wrong: str, cells: tuple[Cell, ...]
    ) -> None:
        with pytest.raises(ContractError):
            await store.reserve(reservation(*cells), self.fused)
        assert self.rho(store) == 0, wrong

    async def test_cells_lie_in_slots_that_were_granted(self, store: ReservationStore) -> None:
        slots = frozenset({SlotName("health"), HEALTH})
        elsewhere = replace(reservation(cell(4)), slots=slots)
        with pytest.raises(ContractError):
            await store.reserve(elsewhere, self.fused)
        nobody = replace(self.fused, grants=())
        with pytest.raises(ContractError, match="grants it"):
            await store.reserve(reservation(), nobody)

    async def test_a_protected_position_never_stands_in_the_public_row(
        self, store: ReservationStore
    ) -> None:
        shown = replace(
            reservation(cell(2)), slots=frozenset({FOOD}), unprotected=frozenset({Position(3)})
        )
        with pytest.raises(ContractError):
            await store.reserve(shown, self.fused)

    async def test_one_of_two_reservations_at_once_gets_the_last_draws(
        self, store: ReservationStore
    ) -> None:
        most = self.affordable(store)
        async with asyncio.TaskGroup() as group:
            requests = [
                group.create_task(
                    store.reserve(reservation(cell(4), draws=most), self.fused), name=f"reserve {i}"
                )
                for i in range(4)
            ]
        assert sum(isinstance(task.result(), Admitted) for task in requests) == 1
