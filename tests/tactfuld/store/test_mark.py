"""A ledger that somebody put back, or took along, wins nothing (GUARANTEE §3).

Attacks are played on real files: `ledger.db` is exchanged for an older copy while the state folder
keeps its mark, or the mark is lost, damaged or of another machine.
"""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tactfuld.store import samples

from tactful.errors import NoPermission
from tactful_core.layout import Attribute
from tactful_core.ledger import Admitted, Ledger, Mark, Refusal, Refused, mark_of
from tactful_core.sealing import ChainSealer
from tactful_core.values import AttributeName, Units
from tactfuld.store import mark as mark_module
from tactfuld.store.ledger import LedgerPlace, LedgerStore
from tactfuld.store.mark import MarkFile, machine_name

THIRD = samples.CAP // 3
ATTRIBUTES = samples.layout().attributes
DIABETES, DEBT = ATTRIBUTES

Notices = list[str]


@pytest.fixture
async def place(tmp_path: Path) -> LedgerPlace:
    """A new ledger and its mark."""
    new = samples.place(tmp_path)
    await LedgerStore.create(new, samples.keys())
    return new


@pytest.fixture
def notices() -> Notices:
    return []


def opened(
    place: LedgerPlace,
    notices: Callable[[str], None] = print,
    attributes: tuple[Attribute, ...] = ATTRIBUTES,
) -> AbstractAsyncContextManager[LedgerStore]:
    return LedgerStore.open(place, samples.keys(), attributes, notices)


def ledger_of(store: LedgerStore) -> Ledger:
    ledger = store.snapshot()
    assert isinstance(ledger, Ledger)
    return ledger


def spent(store: LedgerStore) -> tuple[int, int]:
    """Units spent of diabetes and of debt."""
    ledger = ledger_of(store)
    return ledger.spent(DIABETES), ledger.spent(DEBT)


async def spend(place: LedgerPlace, *units: int) -> None:
    """Charges food, which both attributes pay for, in a run of its own."""
    async with opened(place) as store:
        for amount in units:
            epoch = ledger_of(store).epoch
            paid = samples.charge(units=amount, epoch=epoch)
            assert isinstance(await store.admit(paid, samples.promises()), Admitted)


async def refused(store: LedgerStore, units: int = 1) -> bool:
    charge = samples.charge(units=units, epoch=ledger_of(store).epoch)
    return await store.admit(charge, samples.promises()) == Refused(Refusal.CAP)


def mark_file(place: LedgerPlace, machine: str | None = None) -> MarkFile:
    keys = samples.keys()
    sealer = ChainSealer(keys.ledger, keys.ledger_key_id, keys.store_id)
    return MarkFile(place.mark, sealer, machine or machine_name(keys.store_id))


async def kept(place: LedgerPlace) -> Mark | None:
    """The mark that lies there."""
    return await asyncio.to_thread(lambda: mark_file(place).read())


# --- the mark of an honest ledger ---------------------------------------------------------------


async def test_mark_is_made_with_the_ledger_and_is_private(place: LedgerPlace) -> None:
    assert place.mark.parent != place.database.parent
    assert place.mark.stat().st_mode & 0o777 == 0o600
    mark = await kept(place)
    assert mark is not None
    assert (mark.sequence, mark.epoch, dict(mark.settled)) == (1, 1, {})


async def test_mark_is_what_the_ledger_has_come_to_after_every_entry(place: LedgerPlace) -> None:
    async with opened(place) as store:
        charge = samples.charge()
        await store.admit(charge, samples.promises())
        assert await kept(place) == mark_of(ledger_of(store), 2, ATTRIBUTES)
        await store.record(samples.released(charge))
        assert await kept(place) == mark_of(ledger_of(store), 3, ATTRIBUTES)
        await store.record(samples.unprotected_read())
        await store.open_next_epoch(0)
        after = await kept(place)
        assert after == mark_of(ledger_of(store), 5, ATTRIBUTES)
        assert after is not None
        assert (after.epoch, dict(after.settled)) == (2, {"diabetes": 0, "debt": 0})
        assert after.lifetime == {"diabetes": THIRD, "debt": THIRD}


async def test_refused_charge_leaves_the_mark_alone(place: LedgerPlace) -> None:
    await spend(place, samples.CAP)
    async with opened(place) as store:
        before = place.mark.read_bytes()
        assert await refused(store)
    assert place.mark.read_bytes() == before


async def test_honest_restarts_tell_the_owner_nothing(place: LedgerPlace, notices: Notices) -> None:
    for _ in range(3):
        async with opened(place, notices.append) as store:
            await store.admit(samples.charge(units=1), samples.promises())
    assert not notices


async def test_mark_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    place = samples.place(tmp_path)
    place.mark.parent.rmdir()
    with pytest.raises(NoPermission, match=r"ledger\.mark.*check the folder"):
        await LedgerStore.create(place, samples.keys())


async def test_mark_that_cannot_be_written_keeps_the_charge_and_tells_the_owner(
    place: LedgerPlace, notices: Notices
) -> None:
    async with opened(place, notices.append) as store:
        place.mark.unlink()
        place.mark.parent.rmdir()
        assert isinstance(await store.admit(samples.charge(), samples.promises()), Admitted)
        assert spent(store) == (THIRD, THIRD)
    assert ["could not be written" in notice for notice in notices] == [True]


# --- an older ledger.db put back, in the same epoch -----------------------------------------------


async def test_rolled_back_ledger_counts_what_the_mark_knows_and_says_so(
    place: LedgerPlace, notices: Notices
) -> None:
    await spend(place, THIRD)
    older = place.database.read_bytes()
    await spend(place, THIRD, 7)
    place.database.write_bytes(older)
    async with opened(place, notices.append) as store:
        assert spent(store) == (2 * THIRD + 7, 2 * THIRD + 7)
    assert len(notices) == 1
    assert "put an old copy back" in notices[0]


async def test_what_was_lost_adds_to_later_charges_through_any_number_of_restarts(
    place: LedgerPlace, notices: Notices
) -> None:
    older = place.database.read_bytes()
    await spend(place, THIRD)
    place.database.write_bytes(older)
    await spend(place, 5)
    await spend(place, 11)
    async with opened(place, notices.append) as store:
        assert spent(store) == (THIRD + 16, THIRD + 16)
        assert await refused(store, samples.CAP - THIRD - 15)
        assert not await refused(store, samples.CAP - THIRD - 16)
        assert await refused(store)
    assert len(notices) == 1, "the owner is told at every start of the epoch, not only at the first"
    async with opened(place) as store:
        assert ledger_of(store).lifetime_spent(DEBT) == samples.CAP


async def test_putting_the_newest_back_after_the_old_one_wins_nothing_either(
    place: LedgerPlace,
) -> None:
    """Two copies, spent from in turn: the mark knows the sum of both."""
    older = place.database.read_bytes()
    await spend(place, THIRD)
    newer = place.database.read_bytes()
    place.database.write_bytes(older)
    await spend(place, THIRD)
    place.database.write_bytes(newer)
    async with opened(place) as store:
        assert spent(store) == (2 * THIRD, 2 * THIRD)
    await spend(place, THIRD)
    async with opened(place) as store:
        assert await refused(store)


async def test_a_new_epoch_begins_with_nothing_lost_and_the_whole_lifetime(
    place: LedgerPlace, notices: Notices
) -> None:
    older = place.database.read_bytes()
    await spend(place, THIRD)
    place.database.write_bytes(older)
    async with opened(place) as store:
        assert await store.open_next_epoch(0) == 2
    await spend(place, 9)
    async with opened(place, notices.append) as store:
        assert spent(store) == (9, 9)
        assert ledger_of(store).lifetime_spent(DEBT) == THIRD + 9
    assert not notices


async def test_unprotected_read_that_was_rolled_back_still_exposes(
    place: LedgerPlace, notices: Notices
) -> None:
    """Its shelf is covered afterwards: a loss of infinity must not vanish with the file."""
    older = place.database.read_bytes()
    async with opened(place) as store:
        await store.record(samples.unprotected_read())
    place.database.write_bytes(older)
    grown = replace(DEBT, positions=DEBT.positions | set(samples.positions(6)))
    async with opened(place, notices.append, (DIABETES, grown)) as store:
        assert ledger_of(store).exposed(grown)
    assert notices


async def test_old_copy_is_told_at_every_start_even_where_no_sum_was_lost(
    place: LedgerPlace,
) -> None:
    await spend(place, 5)
    older = place.database.read_bytes()
    async with opened(place) as store:
        await store.record(samples.released(samples.charge()))
    place.database.write_bytes(older)
    told = []
    for _ in range(2):
        notices: Notices = []
        async with opened(place, notices.append) as store:
            assert spent(store) == (5, 5)
        told.append(len(notices))
    assert told == [1, 1]


async def test_attribute_that_left_the_policy_for_a_while_keeps_what_the_mark_knew(
    place: LedgerPlace,
) -> None:
    older = place.database.read_bytes()
    await spend(place, THIRD)
    place.database.write_bytes(older)
    async with opened(place, attributes=(DIABETES,)) as store:
        charge = samples.charge(samples.HEALTH, units=1)
        assert isinstance(await store.admit(charge, samples.promises()), Admitted)
    async with opened(place) as store:
        assert spent(store) == (THIRD + 1, THIRD)
        assert ledger_of(store).lifetime_spent(DEBT) == THIRD


async def test_group_that_grew_for_a_while_leaves_its_sum_where_it_was(
    place: LedgerPlace, notices: Notices
) -> None:
    """Even if nothing was charged meanwhile: no edit of the policy lowers a settled value."""
    async with opened(place) as store:
        charge = samples.charge(samples.FINANCE, units=9)
        assert isinstance(await store.admit(charge, samples.promises()), Admitted)
        assert spent(store) == (0, 9)
    grown = replace(DIABETES, positions=DIABETES.positions | DEBT.positions)
    async with opened(place, attributes=(grown, DEBT)) as store:
        assert ledger_of(store).spent(grown) == 9
    for _ in range(2):
        async with opened(place, notices.append) as store:
            assert spent(store) == (9, 9)
    assert len(notices) == 2
    assert "cover less than before" in notices[0]


# --- attributes that change while the ledger is open --------------------------------------------


async def test_group_that_grows_while_it_is_open_counts_at_once_and_in_the_mark(
    place: LedgerPlace,
) -> None:
    grown = replace(DIABETES, positions=DIABETES.positions | DEBT.positions)
    async with opened(place) as store:
        charge = samples.charge(samples.FINANCE, units=9)
        assert isinstance(await store.admit(charge, samples.promises()), Admitted)
        older = place.database.read_bytes()
        await store.regroup((grown, DEBT))
        assert ledger_of(store).spent(grown) == 9
    mark = await kept(place)
    assert mark is not None
    assert mark.settled == {grown.name: 9, DEBT.name: 9}
    place.database.write_bytes(older)
    async with opened(place) as store:
        assert spent(store) == (9, 9)


async def test_group_that_shrinks_while_it_is_open_gets_nothing_back(place: LedgerPlace) -> None:
    elsewhere = replace(DEBT, positions=frozenset(samples.positions(1)))
    async with opened(place) as store:
        charge = samples.charge(samples.FINANCE, units=9)
        assert isinstance(await store.admit(charge, samples.promises()), Admitted)
        await store.regroup((DIABETES, elsewhere))
        assert ledger_of(store).spent(elsewhere) == 9
        await store.open_next_epoch(0)
        assert ledger_of(store).lifetime_spent(elsewhere) == 9


async def test_group_that_grew_while_it_is_open_leaves_its_sum_when_it_shrinks_again(
    place: LedgerPlace,
) -> None:
    grown = replace(DIABETES, positions=DIABETES.positions | DEBT.positions)
    async with opened(place) as store:
        charge = samples.charge(samples.FINANCE, units=9)
        assert isinstance(await store.admit(charge, samples.promises()), Admitted)
        await store.regroup((grown, DEBT))
        await store.regroup(ATTRIBUTES)
        assert spent(store) == (9, 9)


async def test_attribute_that_leaves_while_it_is_open_keeps_its_lifetime_in_the_mark(
    place: LedgerPlace,
) -> None:
    async with opened(place) as store:
        charge = samples.charge(samples.FINANCE, units=9)
        assert isinstance(await store.admit(charge, samples.promises()), Admitted)
        await store.regroup((DIABETES,))
        charge = samples.charge(samples.HEALTH, units=5)
        assert isinstance(await store.admit(charge, samples.promises()), Admitted)
    mark = await kept(place)
    assert mark is not None
    assert mark.lifetime == {DIABETES.name: 5, DEBT.name: 9}


async def test_all_that_is_lost_counts_for_a_group_that_grows(place: LedgerPlace) -> None:
    """What the lost entries read is not known; mutant: nothing of it counts."""
    older = place.database.read_bytes()
    await spend(place, THIRD)
    place.database.write_bytes(older)
    other = Attribute(AttributeName("other"), frozenset(samples.positions(1)), samples.CAP)
    for _ in range(2):
        async with opened(place) as store:
            assert spent(store) == (THIRD, THIRD)
            await store.regroup((DIABETES, DEBT, other))
            assert ledger_of(store).spent(other) == 2 * THIRD


async def test_ledger_that_is_exhausted_on_purpose_is_so_until_an_epoch(place: LedgerPlace) -> None:
    async with opened(place) as store:
        await store.exhaust()
        assert await refused(store)
        await store.open_next_epoch(0)
        assert not await refused(store)


# --- everything exhausted until the next epoch --------------------------------------------------

Damage = Callable[[LedgerPlace], object]


def written(change: Callable[[bytes], bytes]) -> Damage:
    return lambda place: place.mark.write_bytes(change(place.mark.read_bytes()))


def flipped(index: int) -> Damage:
    def flip(content: bytes) -> bytes:
        changed = bytearray(content)
        changed[index] ^= 1
        return bytes(changed)

    return written(flip)


def resealed(text: bytes) -> Damage:
    """Bytes that were sealed with the right key and are no mark of this version."""

    def damage(place: LedgerPlace) -> None:
        keys = samples.keys()
        sealer = ChainSealer(keys.ledger, keys.ledger_key_id, keys.store_id)
        place.mark.write_bytes(sealer.seal(text, 0, ChainSealer.FIRST))

    return damage


def of_another_machine(place: LedgerPlace) -> None:
    mark = mark_file(place).read()
    assert mark is not None
    mark_file(place, "the other machine").write(mark)


def of_another_store(place: LedgerPlace) -> None:
    keys = samples.keys(b"T")
    sealer = ChainSealer(keys.ledger, keys.ledger_key_id, keys.store_id)
    MarkFile(place.mark, sealer, machine_name(keys.store_id)).write(mark_of(Ledger(1), 1, ()))


def an_entry_instead(place: LedgerPlace) -> None:
    """Another thing that the same key has sealed."""
    keys = samples.keys()
    sealer = ChainSealer(keys.ledger, keys.ledger_key_id, keys.store_id)
    place.mark.write_bytes(sealer.seal(b"{}", 1, ChainSealer.FIRST))


def a_folder_instead(place: LedgerPlace) -> None:
    place.mark.unlink()
    place.mark.mkdir()


UNTRUSTED: dict[str, Damage] = {
    "missing": lambda place: place.mark.unlink(),
    "a folder": a_folder_instead,
    "empty": written(lambda _: b""),
    "truncated": written(lambda content: content[: len(content) // 2]),
    "a byte longer": written(lambda content: content + b"\0"),
    "first bit flipped": flipped(0),
    "a bit in the middle flipped": flipped(500),
    "last bit flipped": flipped(-1),
    "zeros of the same length": written(lambda content: bytes(len(content))),
    "of another machine": of_another_machine,
    "of another store": of_another_store,
    "an entry of the ledger": an_entry_instead,
    "no JSON": resealed(b"hello"),
    "a field missing": resealed(b'{"machine":"m","sequence":1,"epoch":1,"settled":{}}'),
    "negative": resealed(
        b'{"machine":"m","sequence":-1,"epoch":1,"settled":{},"lifetime":{},"unprotected":[]}'
    ),
}


@pytest.mark.parametrize("damage", UNTRUSTED)
async def test_without_a_mark_to_trust_everything_is_exhausted_until_a_new_epoch(
    place: LedgerPlace, damage: str
) -> None:
    await spend(place, 5)
    await asyncio.to_thread(UNTRUSTED[damage], place)
    for _ in range(3):  # a restart does not heal it
        notices: Notices = []
        async with opened(place, notices.append) as store:
            assert await refused(store)
            ledger = ledger_of(store)
            assert ledger.exhausted
            assert spent(store) == (5, 5), "what is known is still shown"
        assert len(notices) == 1
        assert "exhausted until a new epoch" in notices[0]
        assert "`tactful epoch new`" in notices[0]
    if place.mark.is_dir():
        place.mark.rmdir()
    async with opened(place) as store:
        assert await store.open_next_epoch(0) == 2
        assert not await refused(store, THIRD)
    notices = []
    async with opened(place, notices.append) as store:
        assert not await refused(store, THIRD)
        assert spent(store) == (2 * THIRD, 2 * THIRD)
        assert ledger_of(store).lifetime_spent(DEBT) == 2 * THIRD + 5
    assert not notices


async def test_exhausted_ledger_does_not_write_a_mark_that_would_heal_it(
    place: LedgerPlace,
) -> None:
    """Not even by entries that are still written: reads without protection."""
    place.mark.unlink()
    async with opened(place) as store:
        assert await store.record(samples.unprotected_read())
    assert not place.mark.exists()
    async with opened(place) as store:
        assert ledger_of(store).exhausted


async def test_profile_taken_to_another_machine_starts_exhausted(
    place: LedgerPlace, notices: Notices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await spend(place, THIRD)
    here, there = tmp_path / "here", tmp_path / "there"
    here.write_text("5f3c9a\n")
    there.write_text("77ab01\n")
    monkeypatch.setattr(mark_module, "_MACHINE_FILES", (here,))
    async with opened(place) as store:
        assert await store.open_next_epoch(0) == 2
    await spend(place, THIRD)
    monkeypatch.setattr(mark_module, "_MACHINE_FILES", (there,))
    async with opened(place, notices.append) as store:
        assert await refused(store)
    assert "another machine" in notices[0]
    monkeypatch.setattr(mark_module, "_MACHINE_FILES", (here,))
    async with opened(place, notices.append) as store:
        assert spent(store) == (THIRD, THIRD), "at home nothing has changed"
    assert len(notices) == 1


async def test_ledger_from_before_an_epoch_was_opened_is_exhausted_until_another_is(
    place: LedgerPlace,
) -> None:
    await spend(place, THIRD)
    older = place.database.read_bytes()
    async with opened(place) as store:
        assert await store.open_next_epoch(0) == 2
    await spend(place, samples.CAP)
    place.database.write_bytes(older)
    for _ in range(3):
        notices: Notices = []
        async with opened(place, notices.append) as store:
            assert ledger_of(store).epoch == 1
            assert await refused(store)
            assert await store.record(samples.unprotected_read())
        assert len(notices) == 1
        assert "before the newest epoch" in notices[0]
    async with opened(place) as store:
        assert await store.open_next_epoch(0) == 2
        assert not await refused(store)
        assert ledger_of(store).lifetime_spent(DEBT) == THIRD + samples.CAP + 1
    async with opened(place) as store:
        assert ledger_of(store).lifetime_spent(DEBT) == THIRD + samples.CAP + 1


# --- any attack ---------------------------------------------------------------------------------


@dataclass
class Attack:
    """A machine whose ledger.db is exchanged at will; counts what really was released.

    Attributes:
        released: since an epoch was opened last, for both attributes; never forgets.
        ever: the same over all epochs.
    """

    place: LedgerPlace
    copies: list[bytes] = field(default_factory=list)
    released: list[int] = field(default_factory=lambda: [0, 0])
    ever: list[int] = field(default_factory=lambda: [0, 0])

    async def charge(self, slot: int, units: int) -> None:
        async with opened(self.place) as store:
            name = (samples.HEALTH, samples.FOOD, samples.FINANCE)[slot]
            charge = samples.charge(name, units=units, epoch=ledger_of(store).epoch)
            if isinstance(await store.admit(charge, samples.promises()), Admitted):
                for index, attribute in enumerate(ATTRIBUTES):
                    paid = units * (attribute.name in charge.charged)
                    self.released[index] += paid
                    self.ever[index] += paid

    async def open_epoch(self) -> None:
        async with opened(self.place) as store:
            assert await store.open_next_epoch(0)
        self.released = [0, 0]

    async def copy(self) -> None:
        self.copies.append(self.place.database.read_bytes())

    async def put_back(self, which: int) -> None:
        if self.copies:
            self.place.database.write_bytes(self.copies[which % len(self.copies)])

    async def look(self) -> None:
        """Whatever was put back, nothing is below what really happened, nor above the cap."""
        async with opened(self.place) as store:
            ledger = ledger_of(store)
            for index, attribute in enumerate(ATTRIBUTES):
                assert self.released[index] <= attribute.cap
                assert ledger.exhausted or ledger.spent(attribute) >= self.released[index]
                assert ledger.lifetime_spent(attribute) >= self.ever[index]


STEPS = st.one_of(
    st.tuples(st.just("charge"), st.integers(0, 2), st.sampled_from([1, THIRD, samples.CAP])),
    st.tuples(st.just("copy")),
    st.tuples(st.just("put_back"), st.integers(0, 5)),
    st.tuples(st.just("open_epoch")),
)


@settings(max_examples=25)
@given(st.lists(STEPS, max_size=14))
def test_no_exchange_of_ledgers_wins_anything_in_any_epoch(
    steps: list[tuple[str, *tuple[int, ...]]],
) -> None:
    async def play(folder: Path) -> None:
        place = samples.place(folder)
        await LedgerStore.create(place, samples.keys())
        attack = Attack(place)
        for name, *arguments in steps:
            await getattr(attack, name)(*arguments)
            await attack.look()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder)))


# --- machines -----------------------------------------------------------------------------------


def test_machine_has_one_name_for_each_store() -> None:
    assert machine_name(b"S" * 16) == machine_name(b"S" * 16)
    assert machine_name(b"S" * 16) != machine_name(b"T" * 16)


def test_machine_without_an_id_goes_by_its_network_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    empty = tmp_path / "machine-id"
    empty.write_text("")
    monkeypatch.setattr(mark_module, "_MACHINE_FILES", (tmp_path / "absent", empty))
    monkeypatch.setattr(uuid, "getnode", lambda: 0x0242AC110002)
    one = machine_name(b"S" * 16)
    monkeypatch.setattr(uuid, "getnode", lambda: 0x0242AC110003)
    assert machine_name(b"S" * 16) != one


def test_address_that_python_invents_anew_in_each_process_is_no_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RFC 4122, section 4.5: such an address has the multicast bit set."""
    monkeypatch.setattr(mark_module, "_MACHINE_FILES", ())
    names = set()
    for invented in (0x0100_0000_0000, 0x4F12_3456_789A):
        monkeypatch.setattr(uuid, "getnode", lambda node=invented: node)
        names.add(machine_name(b"S" * 16))
    assert len(names) == 1


def test_mark_of_a_large_ledger_is_read_back(tmp_path: Path) -> None:
    """Many attributes and many positions that were read without protection."""
    place, name = samples.place(tmp_path), "a" * 36
    names = [AttributeName(f"{name}_{number}") for number in range(64)]
    mark = Mark(
        sequence=2**40,
        epoch=2**20,
        settled=dict.fromkeys(names, Units(2**62)),
        lifetime=dict.fromkeys(names, Units(2**62)),
        unprotected=frozenset(samples.positions(*range(1, 100_001))),
    )
    mark_file(place).write(mark)
    assert mark_file(place).read() == mark
