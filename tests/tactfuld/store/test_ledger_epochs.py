"""Epochs of the ledger on disk: caps begin anew, lifetimes do not, periods never go back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from tests.tactfuld.store import samples

from tactful_core.entries import EpochOpened
from tactful_core.ledger import Admitted, Ledger, Refusal, Refused, UnreadableLedger
from tactfuld.store.ledger import LedgerPlace, LedgerStore

ATTRIBUTES = samples.layout().attributes
DIABETES, DEBT = ATTRIBUTES
THIRD = samples.CAP // 3


@pytest.fixture
async def place(tmp_path: Path) -> LedgerPlace:
    new = samples.place(tmp_path)
    await LedgerStore.create(new, samples.keys())
    return new


@pytest.fixture
async def store(place: LedgerPlace) -> AsyncIterator[LedgerStore]:
    async with opened(place) as found:
        yield found


def opened(place: LedgerPlace) -> AbstractAsyncContextManager[LedgerStore]:
    return LedgerStore.open(place, samples.keys(), ATTRIBUTES, print)


def ledger_of(store: LedgerStore) -> Ledger:
    ledger = store.snapshot()
    assert isinstance(ledger, Ledger)
    return ledger


async def test_a_new_epoch_empties_everything_but_the_lifetime(store: LedgerStore) -> None:
    charge = samples.charge(units=samples.CAP)
    await store.admit(charge, samples.promises())
    await store.record(samples.released(charge))
    await store.record(samples.unprotected_read())
    assert await store.open_next_epoch(0) == 2
    ledger = ledger_of(store)
    assert (ledger.epoch, ledger.spent(DEBT), ledger.lifetime_spent(DEBT)) == (2, 0, samples.CAP)
    assert (ledger.charges, ledger.released, ledger.unprotected) == ({}, {}, frozenset())
    again = samples.charge(units=samples.CAP, epoch=2)
    assert isinstance(await store.admit(again, samples.promises()), Admitted)
    assert ledger_of(store).lifetime_spent(DEBT) == 2 * samples.CAP


async def test_epochs_are_numbered_upwards_and_kept(place: LedgerPlace, store: LedgerStore) -> None:
    assert [await store.open_next_epoch(0) for _ in range(3)] == [2, 3, 4]
    async with opened(place) as again:
        assert ledger_of(again).epoch == 4


async def test_what_was_meant_for_an_epoch_that_has_ended_is_not_written(
    store: LedgerStore,
) -> None:
    charge = samples.charge()
    await store.open_next_epoch(0)
    assert await store.admit(charge, samples.promises()) == Refused(Refusal.UNREADABLE)
    assert not await store.record(samples.released(charge))
    assert not await store.record(samples.unprotected_read())
    assert len(await store.entries()) == 2


# --- periods ------------------------------------------------------------------------------------


@pytest.mark.parametrize("earlier", [1, 19_000, 20_000])
async def test_no_period_is_opened_twice_nor_one_before_it(
    place: LedgerPlace, store: LedgerStore, earlier: int
) -> None:
    assert await store.open_next_epoch(20_000) == 2
    assert await store.open_next_epoch(earlier) is None
    async with opened(place) as again:
        assert await again.open_next_epoch(earlier) is None
        assert (ledger_of(again).epoch, ledger_of(again).period) == (2, 20_000)
    assert await store.open_next_epoch(20_001) == 3


async def test_epoch_opened_by_hand_keeps_the_period(store: LedgerStore) -> None:
    await store.open_next_epoch(20_000)
    assert await store.open_next_epoch(0) == 3
    assert ledger_of(store).period == 20_000
    assert await store.open_next_epoch(20_000) is None
    opened_for = [entry.period for entry in await store.entries() if isinstance(entry, EpochOpened)]
    assert opened_for == [0, 20_000, 20_000]


@pytest.mark.parametrize("after", [-1, 0, 2, 7])
async def test_epoch_after_one_that_is_not_open_is_not_opened(
    store: LedgerStore, after: int
) -> None:
    assert await store.open_next_epoch(0, after) is None
    assert ledger_of(store).epoch == 1
    assert await store.open_next_epoch(0, 1) == 2
    assert await store.open_next_epoch(0, 1) is None


# --- several at once ----------------------------------------------------------------------------


@pytest.mark.parametrize(("period", "after"), [(0, 1), (20_000, None)])
async def test_of_several_wishes_at_once_one_opens_an_epoch(
    store: LedgerStore, period: int, after: int | None
) -> None:
    async with asyncio.TaskGroup() as group:
        wishes = [
            group.create_task(store.open_next_epoch(period, after), name=f"epoch {number}")
            for number in range(5)
        ]
    assert sorted(str(wish.result()) for wish in wishes) == ["2"] + ["None"] * 4
    assert ledger_of(store).epoch == 2


async def test_charges_beside_the_opening_of_an_epoch_count_in_one_of_them(
    store: LedgerStore,
) -> None:
    async with asyncio.TaskGroup() as group:
        charges = [
            group.create_task(
                store.admit(samples.charge(units=THIRD), samples.promises()), name=f"admit {number}"
            )
            for number in range(6)
        ]
        group.create_task(store.open_next_epoch(0), name="epoch")
    admitted = sum(isinstance(charge.result(), Admitted) for charge in charges)
    ledger = ledger_of(store)
    assert admitted <= 3
    assert ledger.epoch == 2
    assert (ledger.spent(DEBT), ledger.lifetime_spent(DEBT)) == (0, admitted * THIRD)
    assert all(
        isinstance(charge.result(), Admitted)
        or charge.result() in (Refused(Refusal.CAP), Refused(Refusal.UNREADABLE))
        for charge in charges
    )


async def test_unreadable_ledger_opens_no_epoch(place: LedgerPlace) -> None:
    place.database.write_bytes(b"no database")
    async with opened(place) as store:
        assert isinstance(store.snapshot(), UnreadableLedger)
        assert await store.open_next_epoch(0) is None
        assert await store.open_next_epoch(20_000) is None
    assert place.database.read_bytes() == b"no database"
