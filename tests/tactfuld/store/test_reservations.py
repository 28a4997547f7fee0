"""Fused draws in the ledger on disk: crashes, restarts, old databases, epochs, new keys."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contracts.reservation_store import (
    PARAMETERS,
    cell,
    fused_promises,
    reservation,
)
from tests.fakes.small_policies import DEBT, attribute
from tests.tactfuld.store import samples
from tests.tactfuld.store.test_ledger import REPOSITORY, blocked
from tests.tactfuld.store.test_mark import kept

from tactful_core.entries import FusedReserved
from tactful_core.errors import ContractError
from tactful_core.fused_ledger import draw_loss
from tactful_core.ledger import Admitted, Ledger, Refusal, Refused, mark_of, replay
from tactful_core.values import UNITS_PER_EPSILON, Units
from tactfuld.store.ledger import LedgerPlace, LedgerStore

PROMISES = fused_promises()
ATTRIBUTES = PROMISES.layout.attributes
EACH = draw_loss(PARAMETERS, 1, 1)

Notices = list[str]


@pytest.fixture
async def place(tmp_path: Path) -> LedgerPlace:
    new = samples.place(tmp_path)
    await LedgerStore.create(new, samples.keys(), PARAMETERS)
    return new


@pytest.fixture
def notices() -> Notices:
    return []


def opened(
    place: LedgerPlace, notices: Callable[[str], None] = print
) -> AbstractAsyncContextManager[LedgerStore]:
    return LedgerStore.open(place, samples.keys(), ATTRIBUTES, notices)


def ledger_of(store: LedgerStore) -> Ledger:
    ledger = store.snapshot()
    assert isinstance(ledger, Ledger)
    return ledger


def rho(store: LedgerStore) -> Units:
    return ledger_of(store).fused.spent(PROMISES.layout.attribute(DEBT))


async def reserve(store: LedgerStore, draws: int) -> FusedReserved:
    wanted = reservation(draws=draws, epoch=ledger_of(store).epoch)
    assert isinstance(await store.reserve(wanted, PROMISES), Admitted)
    return wanted


# --- restarts -----------------------------------------------------------------------------------


async def test_reservations_and_settlements_stand_after_a_restart(
    place: LedgerPlace, notices: Notices
) -> None:
    async with opened(place, notices.append) as store:
        assert await store.settle(await reserve(store, 9), 4)
        await reserve(store, 6)
        before = store.snapshot()
        assert await kept(place) == mark_of(ledger_of(store), 4, ATTRIBUTES)
    async with opened(place, notices.append) as store:
        assert store.snapshot() == before
        assert rho(store) == 10 * EACH
        assert replay(await store.entries()) == store.snapshot()
    assert not notices


async def test_a_run_does_not_settle_what_another_one_drew(place: LedgerPlace) -> None:
    """It cannot know how much that was, so all of it stays spent."""
    async with opened(place) as store:
        made = await reserve(store, 9)
    async with opened(place) as store:
        with pytest.raises(ContractError, match="Only the run"):
            await store.settle(made, 0)
        assert rho(store) == 9 * EACH


async def test_a_reservation_of_an_epoch_that_is_over_stays_whole(place: LedgerPlace) -> None:
    async with opened(place) as store:
        made = await reserve(store, 9)
        assert await store.open_next_epoch(0, 1, PARAMETERS) == 2
        assert await store.settle(made, 1) is False
        ledger = ledger_of(store)
        debt = PROMISES.layout.attribute(DEBT)
        assert (ledger.fused.spent(debt), ledger.fused.lifetime_spent(debt)) == (0, 9 * EACH)
        assert await store.settle(await reserve(store, 5), 2)
        assert ledger_of(store).fused.lifetime_spent(debt) == 11 * EACH


async def test_an_epoch_without_parameters_reserves_nothing(place: LedgerPlace) -> None:
    async with opened(place) as store:
        assert await store.open_next_epoch(0, 1) == 2
        wanted = reservation(epoch=2)
        assert await store.reserve(wanted, PROMISES) == Refused(Refusal.FUSION)


async def test_a_group_that_grows_pays_for_what_was_drawn_before(place: LedgerPlace) -> None:
    """Two cells of `k* = 1` touch it now: each draw costs it more than both together did."""
    async with opened(place) as store:
        await store.settle(await reserve(store, 9), 4)
        more = attribute(DEBT, (1, 3, 4, 5), "2")
        await store.regroup((ATTRIBUTES[0], more))
        found = ledger_of(store).fused.spent(more)
        assert found == 4 * draw_loss(PARAMETERS, 2, 1) > 4 * 4 * EACH
    async with LedgerStore.open(place, samples.keys(), (ATTRIBUTES[0], more), print) as store:
        assert ledger_of(store).fused.spent(more) == found


async def test_new_keys_keep_open_and_settled_draws(place: LedgerPlace, notices: Notices) -> None:
    async with opened(place, notices.append) as store:
        await store.settle(await reserve(store, 9), 4)
        open_one = await reserve(store, 7)
        before = store.snapshot()
        await store.rotate()
        assert store.snapshot() == before
        assert await store.settle(open_one, 1)
        assert rho(store) == 5 * EACH


# --- crashes and cancellation -------------------------------------------------------------------

DIE = """
import asyncio, os, signal, sys
from pathlib import Path
from tactfuld.store import ledger
from tests.contracts.reservation_store import fused_promises, reservation
from tests.tactfuld.store import samples

def die(*anything):
    os.kill(os.getpid(), signal.SIGKILL)

async def die_at(store, moment):
    if moment == "before the commit":
        ledger._INSERT = "INSERT INTO entries (sequence, sealed) VALUES (?, die(?))"
        await store._writer.run(lambda connection: connection.create_function("die", 1, die))
    elif moment == "before the mark":
        ledger.HighWater.keep = die

async def main():
    place, doing, moment = samples.place(Path(sys.argv[1])), sys.argv[2], sys.argv[3]
    promises = fused_promises()
    attributes = promises.layout.attributes
    async with ledger.LedgerStore.open(place, samples.keys(), attributes, print) as store:
        wanted = reservation(draws=9)
        if doing == "reserving":
            await die_at(store, moment)
        await store.reserve(wanted, promises)
        if doing == "settling":
            await die_at(store, moment)
            await store.settle(wanted, 4)
        die()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("doing", "moment", "draws"),
    [
        ("reserving", "before the commit", 0),
        ("reserving", "before the mark", 9),
        ("drawing", "", 9),
        ("settling", "before the commit", 9),
        ("settling", "before the mark", 4),
        ("settling", "after the mark", 4),
    ],
)
async def test_a_killed_process_keeps_what_was_reserved_until_it_is_settled(
    place: LedgerPlace, notices: Notices, doing: str, moment: str, draws: int
) -> None:
    """Nobody knows what was drawn meanwhile, so a crash refunds nothing (C5)."""
    command = [sys.executable, "-c", DIE, str(place.database.parents[1]), doing, moment]
    killed = await asyncio.to_thread(subprocess.run, command, cwd=REPOSITORY, check=False)
    assert killed.returncode == -signal.SIGKILL
    for _ in range(2):
        async with opened(place, notices.append) as store:
            assert rho(store) == draws * EACH
            assert not ledger_of(store).fused.is_short
    assert not notices, "a mark that is behind its ledger is no sign of an old copy"


async def test_a_settlement_whose_caller_is_gone_is_written_all_the_same(
    place: LedgerPlace,
) -> None:
    async with opened(place) as store:
        made = await reserve(store, 9)
        async with blocked(store) as release, asyncio.TaskGroup() as group:
            waiting = group.create_task(store.settle(made, 4), name="settle")
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.sleep(0)
            release()
        await reserve(store, 1)
        assert rho(store) == 5 * EACH
        assert replay(await store.entries()) == store.snapshot()


async def test_a_reservation_cancelled_before_it_began_is_not_written(place: LedgerPlace) -> None:
    async with opened(place) as store:
        async with blocked(store) as release, asyncio.TaskGroup() as group:
            wanted = reservation(draws=9)
            waiting = group.create_task(store.reserve(wanted, PROMISES), name="reserve")
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.sleep(0)
            release()
        assert rho(store) == 0


# --- old databases and copies -------------------------------------------------------------------


async def test_an_old_database_counts_what_the_mark_knows_of_fused_text(
    place: LedgerPlace, notices: Notices
) -> None:
    older = place.database.read_bytes()
    async with opened(place) as store:
        await store.settle(await reserve(store, 9), 4)
        await reserve(store, 7)
    place.database.write_bytes(older)
    for _ in range(2):
        async with opened(place, notices.append) as store:
            assert rho(store) == 11 * EACH
    assert "put an old copy back" in notices[0]
    async with opened(place) as store:
        await store.settle(await reserve(store, 5), 2)
        assert rho(store) == 13 * EACH


async def test_what_is_lost_of_fused_text_closes_an_attribute_that_grows(
    place: LedgerPlace,
) -> None:
    """How many cells of a lost draw it touches now is not known."""
    older = place.database.read_bytes()
    async with opened(place) as store:
        await reserve(store, 1)
    place.database.write_bytes(older)
    more = replace(attribute(DEBT, (2, 3, 4, 5), "2"), fusion=ATTRIBUTES[1].fusion)
    async with opened(place) as store:
        await store.regroup((ATTRIBUTES[0], more))
        assert ledger_of(store).fused.spent(more) > 100_000 * UNITS_PER_EPSILON
        layout = replace(PROMISES.layout, attributes=(ATTRIBUTES[0], more))
        again = await store.reserve(reservation(cell(4), draws=1), replace(PROMISES, layout=layout))
        assert again == Refused(Refusal.CAP)


async def test_a_copy_that_was_behind_unites_to_what_was_settled(
    place: LedgerPlace, tmp_path: Path
) -> None:
    async with opened(place) as store:
        made = await reserve(store, 9)
    behind = place.database.read_bytes()
    async with opened(place) as store:
        late = await reserve(store, 5)
        assert await store.settle(late, 3)
        newest = await store.entries()
    folder = tmp_path / "copy"
    folder.mkdir()
    other = samples.place(folder)
    await asyncio.to_thread(other.database.write_bytes, behind)
    await asyncio.to_thread(other.mark.write_bytes, place.mark.read_bytes())
    async with opened(other) as store:
        assert await store.unite(newest) == 2
        assert rho(store) == 12 * EACH
        assert list(ledger_of(store).fused.open) == [made.id]
        assert not ledger_of(store).fused.is_short
