"""The ledger on disk does what every ledger must do."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contracts.charge_store import ChargeStoreContract
from tests.contracts.reservation_store import PARAMETERS, ReservationStoreContract
from tests.tactfuld.store import samples

from tactfuld.store.ledger import LedgerStore


class TestLedgerStore(ChargeStoreContract):
    """Sealed, chained, in SQLite."""

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[LedgerStore]:
        place, attributes = samples.place(tmp_path), self.promises.layout.attributes
        await LedgerStore.create(place, samples.keys())
        async with LedgerStore.open(place, samples.keys(), attributes, print) as store:
            yield store


class TestReservations(ReservationStoreContract):
    """The same store, in an epoch that fuses text."""

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[LedgerStore]:
        place, attributes = samples.place(tmp_path), self.fused.layout.attributes
        await LedgerStore.create(place, samples.keys(), PARAMETERS)
        async with LedgerStore.open(place, samples.keys(), attributes, print) as store:
            yield store
