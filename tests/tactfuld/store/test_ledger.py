"""A charge is durable before anything is drawn, sums never pass a cap, and damage closes all."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tactfuld.store import samples

from tactful.errors import AlreadyExists, Unusable
from tactful_core import ledger as core
from tactful_core.entries import EpochOpened, decode, encode, new_entry_id
from tactful_core.errors import ContractError
from tactful_core.ledger import Admitted, Ledger, Refusal, Refused, UnreadableLedger
from tactful_core.sealing import ChainSealer
from tactfuld.keys.values import StoreKeys
from tactfuld.store import ledger as ledger_module
from tactfuld.store.ledger import LEDGER_FILE, LedgerPlace, LedgerStore

THIRD = samples.CAP // 3
REPOSITORY = Path(__file__).parents[3]

Notices = list[str]


@pytest.fixture
async def place(tmp_path: Path) -> LedgerPlace:
    """A new ledger and its mark."""
    new = samples.place(tmp_path)
    await LedgerStore.create(new, samples.keys())
    return new


def opened(
    place: LedgerPlace, notices: Callable[[str], None] = print, keys: StoreKeys | None = None
) -> AbstractAsyncContextManager[LedgerStore]:
    """The ledger that is there, under the policy of the samples."""
    return LedgerStore.open(place, keys or samples.keys(), samples.layout().attributes, notices)


@pytest.fixture
def notices() -> Notices:
    return []


def spent(store: LedgerStore) -> tuple[int, int]:
    """Units spent of diabetes and of debt."""
    ledger = store.snapshot()
    assert isinstance(ledger, Ledger)
    layout = samples.layout()
    return (
        ledger.spent(layout.attribute(samples.DIABETES)),
        ledger.spent(layout.attribute(samples.DEBT)),
    )


def epoch_of(store: LedgerStore) -> int:
    ledger = store.snapshot()
    assert isinstance(ledger, Ledger)
    return ledger.epoch


def entries(place: LedgerPlace) -> list[tuple[int, bytes]]:
    with closing(sqlite3.connect(place.database)) as connection:
        return connection.execute(
            "SELECT sequence, sealed FROM entries ORDER BY sequence"
        ).fetchall()


def replayed(place: LedgerPlace) -> Ledger:
    """What the file adds up to, found without the store."""
    keys = samples.keys()
    sealer = ChainSealer(keys.ledger, keys.ledger_key_id, keys.store_id)
    found, previous = [], ChainSealer.FIRST
    for sequence, sealed in entries(place):
        found.append(decode(sealer.open(sealed, sequence, previous)))
        previous = ChainSealer.link(sealed)
    return core.replay(found)


@contextmanager
def tampering(place: LedgerPlace) -> Iterator[sqlite3.Connection]:
    """A connection of somebody who does not care for triggers."""
    with closing(sqlite3.connect(place.database, isolation_level=None)) as connection:
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        yield connection


async def filled(place: LedgerPlace) -> None:
    """Five entries: the epoch, three charges, and a read without protection."""
    async with opened(place) as store:
        for name in (samples.FOOD, samples.HEALTH, samples.FINANCE):
            assert isinstance(await store.admit(samples.charge(name), samples.promises()), Admitted)
        assert await store.record(samples.unprotected_read())


# --- admission ----------------------------------------------------------------------------------


async def test_new_ledger_has_its_first_epoch_and_nothing_spent(
    place: LedgerPlace, notices: Notices
) -> None:
    async with opened(place, notices.append) as store:
        assert epoch_of(store) == 1
        assert spent(store) == (0, 0)
    assert not notices


async def test_ledger_is_never_made_over_another(place: LedgerPlace) -> None:
    before = place.database.read_bytes()
    with pytest.raises(AlreadyExists):
        await LedgerStore.create(place, samples.keys())
    assert place.database.read_bytes() == before


async def test_three_charges_of_a_third_fill_the_cap_and_a_fourth_writes_nothing(
    place: LedgerPlace,
) -> None:
    async with opened(place) as store:
        for number in range(3):
            charge = samples.charge()
            admitted = await store.admit(charge, samples.promises())
            assert admitted == Admitted(charge, sequence=number + 2)
        assert await store.admit(samples.charge(), samples.promises()) == Refused(Refusal.CAP)
        assert spent(store) == (samples.CAP, samples.CAP)
    assert len(entries(place)) == 4


async def test_one_attribute_over_its_cap_refuses_for_all(place: LedgerPlace) -> None:
    async with opened(place) as store:
        await store.admit(samples.charge(samples.HEALTH, units=samples.CAP), samples.promises())
        refused = await store.admit(samples.charge(samples.FOOD, units=1), samples.promises())
        assert refused == Refused(Refusal.CAP)
        assert spent(store) == (samples.CAP, 0)


async def test_quota_of_one_app_is_checked_in_the_same_transaction(place: LedgerPlace) -> None:
    promises = samples.promises(money_quota=samples.epsilon("0.5"))
    charge = samples.charge(samples.FINANCE, samples.MONEY, samples.epsilon("0.5"))
    async with opened(place) as store:
        assert isinstance(await store.admit(charge, promises), Admitted)
        assert await store.admit(charge, promises) == Refused(Refusal.QUOTA)
        other = samples.charge(samples.FINANCE, samples.MEALS, samples.epsilon("0.5"))
        assert isinstance(await store.admit(other, promises), Admitted)


async def test_reopened_ledger_keeps_its_sums(place: LedgerPlace) -> None:
    await filled(place)
    async with opened(place) as store:
        assert spent(store) == (2 * THIRD, 2 * THIRD)
        assert store.snapshot() == replayed(place)
        await store.admit(samples.charge(), samples.promises())
        assert await store.admit(samples.charge(), samples.promises()) == Refused(Refusal.CAP)


async def test_many_entries_are_replayed_in_pieces(
    place: LedgerPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(place)
    monkeypatch.setattr(ledger_module, "_ROWS_AT_ONCE", 2)
    async with opened(place) as store:
        assert store.snapshot() == replayed(place)


async def test_of_two_concurrent_charges_of_which_one_fits_exactly_one_is_admitted(
    place: LedgerPlace,
) -> None:
    async with opened(place) as store:
        charge = samples.charge(units=samples.CAP - 1)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(store.admit(charge, samples.promises()), name=f"admit {number}")
                for number in range(8)
            ]
        outcomes = [task.result() for task in tasks]
        assert sum(isinstance(outcome, Admitted) for outcome in outcomes) == 1
        assert outcomes.count(Refused(Refusal.CAP)) == 7
        assert spent(store) == (samples.CAP - 1, samples.CAP - 1)


async def test_charges_that_another_connection_wrote_count_too(place: LedgerPlace) -> None:
    async with (
        opened(place) as first,
        opened(place) as second,
    ):
        await first.admit(samples.charge(), samples.promises())
        await first.admit(samples.charge(), samples.promises())
        assert isinstance(await second.admit(samples.charge(), samples.promises()), Admitted)
        assert await first.admit(samples.charge(), samples.promises()) == Refused(Refusal.CAP)
        assert first.snapshot() == second.snapshot() == replayed(place)


async def test_charge_of_another_epoch_is_refused(place: LedgerPlace) -> None:
    async with opened(place) as store:
        refused = await store.admit(samples.charge(epoch=2), samples.promises())
        assert refused == Refused(Refusal.UNREADABLE)
    assert len(entries(place)) == 1


async def test_charge_set_that_is_too_small_is_a_defect_and_writes_nothing(
    place: LedgerPlace,
) -> None:
    full = samples.charge()
    small = replace(full, charged=frozenset({samples.DEBT}))
    async with opened(place) as store:
        with pytest.raises(ContractError):
            await store.admit(small, samples.promises())
        assert isinstance(await store.admit(full, samples.promises()), Admitted)
    assert len(entries(place)) == 2


@pytest.mark.parametrize("units", [0, -1])
async def test_entry_that_could_not_be_read_back_is_not_written(
    place: LedgerPlace, units: int
) -> None:
    async with opened(place) as store:
        with pytest.raises(ContractError):
            await store.admit(samples.charge(units=units), samples.promises())
    async with opened(place) as store:
        assert isinstance(store.snapshot(), Ledger)


# --- reads without protection -------------------------------------------------------------------


async def test_read_without_protection_is_kept(place: LedgerPlace) -> None:
    async with opened(place) as store:
        assert await store.record(samples.unprotected_read())
    async with opened(place) as store:
        ledger = store.snapshot()
        assert isinstance(ledger, Ledger)
        assert ledger.unprotected == frozenset(samples.positions(6))


async def test_read_of_another_epoch_is_not_recorded_and_does_no_harm(place: LedgerPlace) -> None:
    async with opened(place) as store:
        assert not await store.record(samples.unprotected_read(epoch=2))
        assert isinstance(store.snapshot(), Ledger)
    assert len(entries(place)) == 1


# --- crashes and cancellation -------------------------------------------------------------------

DIE = """
import asyncio, os, signal, sys
from pathlib import Path
from tactful_core.sealing import ChainSealer
from tactfuld.store import ledger
from tests.tactfuld.store import samples

def die(*anything):
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    place, moment = samples.place(Path(sys.argv[1])), sys.argv[2]
    attributes = samples.layout().attributes
    async with ledger.LedgerStore.open(place, samples.keys(), attributes, print) as store:
        if moment == "before the commit":
            ledger._INSERT = "INSERT INTO entries (sequence, sealed) VALUES (?, die(?))"
            await store._writer.run(lambda connection: connection.create_function("die", 1, die))
        elif moment == "before the mark":
            ledger.HighWater.keep = die
        else:
            ledger.Admitted = die
        await store.admit(samples.charge(), samples.promises())

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("moment", "charged"),
    [("before the commit", False), ("before the mark", True), ("after the mark", True)],
)
async def test_killed_process_keeps_exactly_the_charges_that_were_committed(
    place: LedgerPlace, notices: Notices, moment: str, charged: bool
) -> None:
    command = [sys.executable, "-c", DIE, str(place.database.parents[1]), moment]
    killed = subprocess.run(command, cwd=REPOSITORY, check=False)
    assert killed.returncode == -signal.SIGKILL
    async with opened(place, notices.append) as store:
        assert spent(store) == ((THIRD, THIRD) if charged else (0, 0))
    assert not notices, "a mark that is behind its ledger is no sign of an old copy"


async def test_charge_cancelled_before_it_began_is_not_written(place: LedgerPlace) -> None:
    async with opened(place) as store:
        async with blocked(store) as release, asyncio.TaskGroup() as group:
            waiting = group.create_task(
                store.admit(samples.charge(), samples.promises()), name="admit"
            )
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.sleep(0)
            release()
        assert spent(store) == (0, 0)
        assert store.snapshot() == replayed(place)


async def test_charge_cancelled_in_its_transaction_is_finished_and_counted(
    place: LedgerPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, release = threading.Event(), threading.Event()
    seal = ChainSealer.seal

    def slow_seal(self: ChainSealer, *arguments: object) -> bytes:
        entered.set()
        release.wait()
        return seal(self, *arguments)  # type: ignore[arg-type]

    async with opened(place) as store:
        monkeypatch.setattr(ChainSealer, "seal", slow_seal)
        async with asyncio.TaskGroup() as group:
            admitting = group.create_task(
                store.admit(samples.charge(), samples.promises()), name="admit"
            )
            await asyncio.to_thread(entered.wait)
            admitting.cancel()
            await asyncio.sleep(0)
            assert admitting.cancelled()
            release.set()
        admitted = await store.admit(samples.charge(units=1), samples.promises())
        assert isinstance(admitted, Admitted)
        assert spent(store) == (THIRD + 1, THIRD + 1)
        assert store.snapshot() == replayed(place)


@pytest.mark.parametrize("steps", range(12))
async def test_cancelled_after_any_number_of_steps_memory_equals_disk(
    place: LedgerPlace, steps: int
) -> None:
    async with opened(place) as store:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(
                store.admit(samples.charge(), samples.promises()), name="admit"
            )
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
        await store.record(samples.unprotected_read())
        assert store.snapshot() == replayed(place)


@asynccontextmanager
async def blocked(store: LedgerStore) -> AsyncIterator[Callable[[], None]]:
    """While inside, the store's thread is busy until the given function is called."""
    entered, release = threading.Event(), threading.Event()

    def wait(connection: sqlite3.Connection) -> None:
        entered.set()
        release.wait()

    assert store._writer is not None
    async with asyncio.TaskGroup() as group:
        group.create_task(store._writer.run(wait), name="occupied")
        await asyncio.to_thread(entered.wait)
        try:
            yield release.set
        finally:
            release.set()


@settings(max_examples=25)
@given(
    st.lists(
        st.one_of(
            st.tuples(
                st.sampled_from([samples.HEALTH, samples.FOOD, samples.FINANCE]),
                st.sampled_from([samples.MEALS, samples.MONEY]),
                st.integers(1, samples.CAP),
            ),
            st.just("record"),
            st.just("reopen"),
        ),
        max_size=12,
    )
)
def test_any_order_of_charges_and_restarts_keeps_sums_under_caps(steps: list[object]) -> None:
    promises = samples.promises(money_quota=samples.epsilon("0.5"))

    async def play(folder: Path) -> None:
        place = samples.place(folder)
        await LedgerStore.create(place, samples.keys())
        pending = list(steps)
        expected = [0, 0]
        while True:
            async with opened(place) as store:
                assert spent(store) == tuple(expected)
                while pending and (step := pending.pop(0)) != "reopen":
                    if isinstance(step, tuple):
                        charge = samples.charge(*step)
                        if isinstance(await store.admit(charge, promises), Admitted):
                            expected[0] += charge.units * (samples.DIABETES in charge.charged)
                            expected[1] += charge.units * (samples.DEBT in charge.charged)
                    else:
                        assert await store.record(samples.unprotected_read())
                    assert spent(store) == tuple(expected)
                    assert max(expected) <= samples.CAP
                assert store.snapshot() == replayed(place)
            if not pending:
                return

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder)))


# --- damage -------------------------------------------------------------------------------------

Tamper = Callable[[sqlite3.Connection], object]


def execute(sql: str) -> Tamper:
    return lambda connection: connection.execute(sql)


def flipped(sequence: int, index: int) -> Tamper:
    def tamper(connection: sqlite3.Connection) -> None:
        (sealed,) = connection.execute(
            "SELECT sealed FROM entries WHERE sequence = ?", (sequence,)
        ).fetchone()
        changed = bytearray(sealed)
        changed[index] ^= 1
        connection.execute(
            "UPDATE entries SET sealed = ? WHERE sequence = ?", (bytes(changed), sequence)
        )

    return tamper


def exchanged(first: int, second: int) -> Tamper:
    def tamper(connection: sqlite3.Connection) -> None:
        sealed = dict(connection.execute("SELECT sequence, sealed FROM entries").fetchall())
        connection.executemany(
            "UPDATE entries SET sealed = ? WHERE sequence = ?",
            [(sealed[second], first), (sealed[first], second)],
        )

    return tamper


TAMPERED = {
    "a bit of the first nonce flipped": flipped(1, 0),
    "a bit of the first entry flipped": flipped(1, 500),
    "a bit of a charge flipped": flipped(3, 500),
    "a bit of the newest tag flipped": flipped(5, -1),
    "two charges exchanged": exchanged(2, 3),
    "the first entry deleted": execute("DELETE FROM entries WHERE sequence = 1"),
    "a charge deleted": execute("DELETE FROM entries WHERE sequence = 3"),
    "a charge deleted and the gap closed": lambda connection: (
        connection.execute("DELETE FROM entries WHERE sequence = 3"),
        connection.execute("UPDATE entries SET sequence = sequence - 1 WHERE sequence = 4"),
        connection.execute("UPDATE entries SET sequence = sequence - 1 WHERE sequence = 5"),
    ),
    "a charge written twice": execute(
        "INSERT INTO entries SELECT 6, sealed FROM entries WHERE sequence = 3"
    ),
    "a charge replaced by an older one": execute(
        "UPDATE entries SET sealed = (SELECT sealed FROM entries WHERE sequence = 2) "
        "WHERE sequence = 4"
    ),
    "a number skipped": execute("UPDATE entries SET sequence = 7 WHERE sequence = 5"),
    "numbers from zero": execute("UPDATE entries SET sequence = 0 WHERE sequence = 1"),
    "an entry cut short": execute(
        "UPDATE entries SET sealed = substr(sealed, 1, 100) WHERE sequence = 3"
    ),
    "an empty entry": execute("UPDATE entries SET sealed = x'' WHERE sequence = 3"),
    "all entries deleted": execute("DELETE FROM entries"),
    "the table dropped": execute("DROP TABLE entries"),
    "a table of other types": lambda connection: (
        connection.execute("DROP TABLE entries"),
        connection.execute("CREATE TABLE entries (sequence, sealed)"),
        connection.execute("INSERT INTO entries VALUES (1, 'text')"),
    ),
    "the version taken away": execute("PRAGMA user_version = 0"),
}


async def assert_everything_is_refused(store: LedgerStore) -> None:
    assert store.snapshot() == UnreadableLedger()
    for epoch in (0, 1):
        refused = await store.admit(samples.charge(epoch=epoch), samples.promises())
        assert refused == Refused(Refusal.UNREADABLE)
        assert not await store.record(samples.unprotected_read(epoch))


@pytest.mark.parametrize("name", TAMPERED)
async def test_tampered_ledger_refuses_everything_and_tells_the_owner(
    place: LedgerPlace, notices: Notices, name: str
) -> None:
    await filled(place)
    with tampering(place) as connection:
        TAMPERED[name](connection)
    before = place.database.read_bytes()
    async with opened(place, notices.append) as store:
        await assert_everything_is_refused(store)
    assert [notice for notice in notices if "exhausted" in notice]
    assert place.database.read_bytes() == before


async def test_ledger_without_its_triggers_is_read_as_it_is(place: LedgerPlace) -> None:
    """The control for the test above: what refuses there is not that triggers were dropped."""
    await filled(place)
    with tampering(place):
        pass
    async with opened(place) as store:
        assert store.snapshot() == replayed(place)


@pytest.mark.parametrize("content", [None, b"", b"hello", b"SQLite format 3\0" + bytes(5000)])
async def test_file_that_is_no_database_refuses_everything(
    place: LedgerPlace, notices: Notices, content: bytes | None
) -> None:
    if content is None:
        place.database.unlink()
    else:
        place.database.write_bytes(content)
    async with opened(place, notices.append) as store:
        await assert_everything_is_refused(store)
    assert notices
    assert place.database.exists() == (content is not None), "nothing is made anew"


async def test_truncated_file_refuses_everything(place: LedgerPlace, notices: Notices) -> None:
    await filled(place)
    content = place.database.read_bytes()
    place.database.write_bytes(content[: len(content) // 2])
    async with opened(place, notices.append) as store:
        await assert_everything_is_refused(store)
    assert notices


async def test_ledger_of_another_store_refuses_everything(
    place: LedgerPlace, notices: Notices
) -> None:
    async with opened(place, notices.append, samples.keys(b"T")) as store:
        await assert_everything_is_refused(store)
    assert notices


async def test_entry_of_an_unknown_kind_refuses_everything(
    place: LedgerPlace, notices: Notices
) -> None:
    keys = samples.keys()
    sealer = ChainSealer(keys.ledger, keys.ledger_key_id, keys.store_id)
    ((_, first),) = entries(place)
    sealed = sealer.seal(b'{"epoch":1,"kind":"gift"}', 2, ChainSealer.link(first))
    with tampering(place) as connection:
        connection.execute("INSERT INTO entries VALUES (2, ?)", (sealed,))
    async with opened(place, notices.append) as store:
        await assert_everything_is_refused(store)
    assert notices


async def test_second_first_epoch_refuses_everything(place: LedgerPlace, notices: Notices) -> None:
    """Somebody who holds the key and writes an entry that no ledger could have."""
    keys = samples.keys()
    sealer = ChainSealer(keys.ledger, keys.ledger_key_id, keys.store_id)
    ((_, first),) = entries(place)
    sealed = sealer.seal(encode(EpochOpened(new_entry_id(), 1, 0)), 2, ChainSealer.link(first))
    with tampering(place) as connection:
        connection.execute("INSERT INTO entries VALUES (2, ?)", (sealed,))
    async with opened(place, notices.append) as store:
        await assert_everything_is_refused(store)
    assert notices


@pytest.mark.parametrize(
    "tamper",
    [
        execute("DELETE FROM entries WHERE sequence = 5"),
        execute("DELETE FROM entries"),
        flipped(5, 100),
        exchanged(4, 5),
        execute("INSERT INTO entries SELECT 6, sealed FROM entries WHERE sequence = 5"),
    ],
    ids=["newest deleted", "all deleted", "newest changed", "exchanged", "newest twice"],
)
async def test_running_store_notices_that_the_newest_entry_is_another(
    place: LedgerPlace, notices: Notices, tamper: Tamper
) -> None:
    await filled(place)
    async with opened(place, notices.append) as store:
        assert isinstance(store.snapshot(), Ledger)
        with tampering(place) as connection:
            tamper(connection)
        refused = await store.admit(samples.charge(samples.HEALTH, units=1), samples.promises())
        assert refused == Refused(Refusal.UNREADABLE)
        await assert_everything_is_refused(store)
    assert notices


async def test_full_disk_refuses_keeps_the_sums_and_recovers(
    place: LedgerPlace, notices: Notices
) -> None:
    async with opened(place, notices.append) as store:
        assert store._writer is not None
        await store._writer.run(lambda connection: connection.execute("PRAGMA max_page_count=1"))
        refused = Refused(Refusal.CAP)
        for _ in range(100):
            outcome = await store.admit(samples.charge(units=1), samples.promises())
            if isinstance(outcome, Refused):
                refused = outcome
                break
        assert refused == Refused(Refusal.UNREADABLE)
        assert notices == ["The ledger could not be written, so nothing was drawn; check the disk."]
        assert store.snapshot() == replayed(place)
        await store._writer.run(lambda connection: connection.execute("PRAGMA max_page_count=1000"))
        admitted = await store.admit(samples.charge(units=1), samples.promises())
        assert isinstance(admitted, Admitted)
        assert store.snapshot() == replayed(place)


async def test_newer_ledger_is_refused_with_what_to_do(place: LedgerPlace) -> None:
    with tampering(place) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(Unusable, match="newer version of tactful; update"):
        async with opened(place):
            pass


# --- the database -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET sealed = x'00' WHERE sequence = 1",
        "DELETE FROM entries WHERE sequence = 1",
    ],
)
async def test_database_itself_refuses_to_change_entries(
    place: LedgerPlace, statement: str
) -> None:
    with (
        closing(sqlite3.connect(place.database)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="entries never"),
    ):
        connection.execute(statement)


async def test_commits_are_durable_and_files_private(place: LedgerPlace) -> None:
    def settings_of(connection: sqlite3.Connection) -> dict[str, object]:
        names = ("journal_mode", "synchronous", "fullfsync", "secure_delete", "recursive_triggers")
        return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names}

    async with opened(place) as store:
        assert store._writer is not None
        await store.admit(samples.charge(), samples.promises())
        assert await store._writer.run(settings_of) == {
            "journal_mode": "wal",
            "synchronous": 2,
            "fullfsync": 1,
            "secure_delete": 1,
            "recursive_triggers": 1,
        }
        files = sorted(place.database.parent.iterdir())
        assert [file.name for file in files] == ["ledger.db", "ledger.db-shm", "ledger.db-wal"]
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


async def test_closed_ledger_leaves_one_file(place: LedgerPlace) -> None:
    await filled(place)
    assert [file.name for file in place.database.parent.iterdir()] == [LEDGER_FILE]
