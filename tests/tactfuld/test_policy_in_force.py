"""Which policy is in force, through edits, ticks, epochs, restarts and crashes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pytest
from tests.fakes.kept_log import KeptLog
from tests.fakes.two_clocks import TwoClocks
from tests.tactfuld.policy.variants import BASE, policy
from tests.tactfuld.store import samples
from tests.tactfuld.store.test_mark import kept

from tactful.errors import IoFailed, TactfulError, Unusable
from tactful_core.entries import Cell, Charge, FusedReserved, UnprotectedRead, new_entry_id
from tactful_core.fusion import FusionParameters, loss_units, rho_cap
from tactful_core.ledger import Admitted, Ledger, Refusal, Refused
from tactful_core.promises import Promises
from tactful_core.values import AppId, AttributeName, Units, units_from_epsilon
from tactfuld import policy_in_force
from tactfuld.notices import Notices
from tactfuld.policy.document import PolicyDocument
from tactfuld.policy.promises import digest_of, promises_of
from tactfuld.policy.record import read_record
from tactfuld.policy_in_force import PolicyInForce
from tactfuld.store.ledger import LedgerPlace, LedgerStore

DAY = 24 * 3600
MONDAY_NOON = 1_792_411_200.0
DIABETES, JOB = AttributeName("diabetes"), AttributeName("job")
LOW, HIGH = policy(diabetes="1.0"), policy(diabetes="3.0")
WITHOUT_MEALS = policy(meals="")
WITH_GUEST = policy(guest="guest: {slots: [food]}")
WITH_JOB = policy(debt="job: {cap: 1.0, implied_by: [news, food.groceries]}")
GUEST_ALONE = policy(meals="", guest="guest: {slots: [food]}")
LOW_WITHOUT_MEALS = policy(diabetes="1.0", meals="")
WITHOUT_QUOTA = policy(meals="meals: {slots: [food]}")
LOW_WITHOUT_QUOTA = policy(diabetes="1.0", meals="meals: {slots: [food]}")
NEWS_OPEN = policy(seen=", unprotected: true", implied="[food]")
NARROW = policy(implied="[news]", debt="debt: {cap: 1.5, implied_by: [food]}")
MOVED = policy(positions="3", diabetes="3.0")
FUSED = policy(
    diabetes="2.0, fusion: {epsilon: 8.0}",
    documents="privacy: {delta: 1.0e-5, planned_draws: 2000}",
)
OTHER_SHELVES = policy(positions="3", diabetes="1.0", meals="")


@dataclass
class Daemon:
    """A daemon while it is unlocked.

    Attributes:
        answering: the promises that apps are answered under.
        hosted: the apps that are granted something, as the host was told last.
    """

    policy: PolicyInForce
    ledger: LedgerStore
    notices: Notices
    answering: Promises
    hosted: frozenset[AppId] = frozenset()
    exchanges: list[str] = field(default_factory=list)

    @property
    def cap(self) -> Units:
        return self.answering.layout.attribute(DIABETES).cap

    async def exchange(self, promises: Promises, first: Callable[[], Awaitable[bool]]) -> bool:
        agreed = await first()
        if agreed:
            self.answering = promises
            self.exchanges.append(promises.digest)
        return agreed

    async def charge(self, epsilon: str, app: str = "meals") -> bool:
        """Whether a charge for food was admitted under the promises in force."""
        promises, found = self.answering, self.ledger.snapshot()
        assert isinstance(found, Ledger)
        slot = promises.layout.slots[0]
        charge = Charge(
            new_entry_id(), found.epoch, AppId(app), slot.name, promises.mechanism,
            frozenset(slot.positions), promises.charge_set(slot), units_from_epsilon(epsilon),
            promises.digest,
        )  # fmt: skip
        return isinstance(await self.ledger.admit(charge, promises), Admitted)

    def fused_with(self) -> FusionParameters | None:
        """What the open epoch fuses text with."""
        found = self.ledger.snapshot()
        assert isinstance(found, Ledger)
        return found.fused.now

    def spent(self, name: AttributeName) -> Units:
        found = self.ledger.snapshot()
        assert isinstance(found, Ledger)
        return found.spent(self.answering.layout.attribute(name))


@dataclass
class Machine:
    """Where the daemon runs, and does not."""

    place: LedgerPlace
    clock: TwoClocks
    log: KeptLog = field(default_factory=KeptLog)

    @property
    def record(self) -> Path:
        return self.place.mark.with_name("policy-in-force.json")

    @asynccontextmanager
    async def running(self, written: PolicyDocument = BASE) -> AsyncIterator[Daemon]:
        """A daemon that was started with this policy."""
        async with asyncio.TaskGroup() as group:
            notices = Notices(self.log.log)

            async def host() -> None:
                granted = policy.document.apps.items()
                here.hosted = frozenset(AppId(name) for name, part in granted if part.slots)

            policy = PolicyInForce(
                group, self.record, written, host, self.clock, notices, self.log.log
            )
            attributes = (await policy.recalled()).layout.attributes
            opening = LedgerStore.open(self.place, samples.keys(), attributes, notices.add)
            async with opening as ledger:
                promises = await policy.begin(ledger)
                here = Daemon(policy, ledger, notices, promises)
                await policy.opened(ledger, here.exchange, promises)
                yield here
                await policy.closing()

    @asynccontextmanager
    async def ticking(self, here: Daemon) -> AsyncIterator[Callable[[float], Awaitable[None]]]:
        """Looks for the tick; the function lets time pass and returns after the next look."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(here.policy.run(), name="ticks")
            await self.clock.asleep()

            async def wait(seconds: float) -> None:
                before = len(self.clock.alarms)
                self.clock.advance(seconds)
                while len(self.clock.alarms) == before:  # noqa: ASYNC110 - files are in threads
                    await asyncio.sleep(0.001)

            yield wait
            task.cancel()


@pytest.fixture
async def machine(tmp_path: Path) -> Machine:
    place = LedgerPlace(tmp_path / "ledger.db", tmp_path / "ledger.mark")
    await LedgerStore.create(place, samples.keys())
    return Machine(place, TwoClocks(MONDAY_NOON))


# --- the moments --------------------------------------------------------------------------------


async def test_what_loosens_waits_for_a_new_epoch(machine: Machine) -> None:
    """Mutant: loosening applied at the tick."""
    async with machine.running() as here, machine.ticking(here) as wait:
        said = await here.policy.take(HIGH)
        assert said is not None
        assert "in a new epoch only: attributes.diabetes.cap" in said
        assert here.notices.sentences == (said,)
        for _ in range(3):
            await wait(DAY)
            assert here.answering.digest == digest_of(BASE)
        assert await here.policy.open_epoch(0, 1) == 2
        assert here.answering.digest == digest_of(HIGH)
        assert not here.notices.sentences


async def test_what_tightens_holds_from_the_tick_on(machine: Machine) -> None:
    async with machine.running() as here, machine.ticking(here) as wait:
        said = await here.policy.take(LOW)
        assert said is not None
        assert "attributes.diabetes.cap" in said
        assert "from the next tick on" in said
        staged = here.policy.staged
        assert (staged.at_tick, staged.at_epoch) == (("attributes.diabetes.cap",), ())
        await wait(60)
        assert here.answering.digest == digest_of(BASE)
        await wait(staged.tick_at - machine.clock.now() - 1)
        assert here.answering.digest == digest_of(BASE)
        await wait(61)
        assert here.answering.digest == digest_of(LOW)
        assert not here.notices.sentences


async def test_a_tick_that_the_machine_slept_through_comes_when_it_wakes(machine: Machine) -> None:
    async with machine.running() as here, machine.ticking(here) as wait:
        await here.policy.take(LOW)
        machine.clock.set_by(DAY)
        await wait(60)
        assert here.answering.digest == digest_of(LOW)


async def test_a_clock_that_is_set_to_and_fro_loosens_nothing(machine: Machine) -> None:
    async with machine.running() as here, machine.ticking(here) as wait:
        await here.policy.take(HIGH)
        for days in (400, -800, 400):
            machine.clock.set_by(days * DAY)
            await wait(60)
            assert here.answering.digest == digest_of(BASE)


async def test_apps_lose_at_once_and_gain_at_the_tick(machine: Machine) -> None:
    async with machine.running(WITH_GUEST) as here, machine.ticking(here) as wait:
        await here.policy.take(GUEST_ALONE)
        assert here.hosted == {"guest"}
        assert here.answering.grant(AppId("meals")) is None
        await here.policy.take(WITH_GUEST)
        assert here.hosted == {"guest"}
        assert here.answering.grant(AppId("meals")) is None
        await wait(DAY)
        assert here.hosted == {"guest", "meals"}
        assert here.answering.digest == digest_of(WITH_GUEST)


async def test_ledgers_are_counted_anew_before_a_group_that_grows_is_promised(
    machine: Machine,
) -> None:
    """Mutant: tightening without recomputation, in memory or in the mark."""
    async with machine.running() as here:
        assert await here.charge("1.0")
        await here.policy.take(WITH_JOB)
    machine.clock.advance(DAY)
    async with machine.running(WITH_JOB) as here:
        assert here.spent(JOB) == units_from_epsilon("1.0")
        assert not await here.charge("0.001")
    assert machine.place.mark.read_bytes() != b""
    async with machine.running(WITH_JOB) as here:
        assert here.spent(JOB) == units_from_epsilon("1.0")


async def test_the_mark_knows_a_group_that_grew_from_the_tick_on(machine: Machine) -> None:
    """Mutant: at the tick nothing is counted anew."""
    async with machine.running() as here, machine.ticking(here) as wait:
        assert await here.charge("1.0")
        await here.policy.take(WITH_JOB)
        await wait(DAY)
        mark = await kept(machine.place)
        assert mark is not None
        assert mark.settled[JOB] == units_from_epsilon("1.0")


async def test_a_cap_that_is_lowered_under_what_is_spent_closes(machine: Machine) -> None:
    async with machine.running(WITHOUT_QUOTA) as here, machine.ticking(here) as wait:
        await here.policy.take(LOW_WITHOUT_QUOTA)
        assert await here.charge("0.9")
        await wait(DAY)
        assert here.cap == units_from_epsilon("1.0")
        assert not await here.charge("0.2")
        assert await here.charge("0.1")
        assert not await here.charge("0.001")


async def test_an_unprotected_shelf_that_was_read_is_exposed_when_it_is_covered(
    machine: Machine,
) -> None:
    async with machine.running(NEWS_OPEN) as here, machine.ticking(here) as wait:
        news = here.answering.layout.slots[1]
        read = UnprotectedRead(
            new_entry_id(), 1, AppId("meals"), news.name, frozenset(news.positions), "p"
        )
        assert await here.ledger.record(read)
        await here.policy.take(BASE)
        await wait(DAY)
        found = here.ledger.snapshot()
        assert isinstance(found, Ledger)
        assert found.exposed(here.answering.layout.attribute(DIABETES))
        assert not await here.charge("0.001")


async def test_other_shelves_hold_for_nobody_but_the_apps_that_lose(machine: Machine) -> None:
    async with machine.running() as here, machine.ticking(here) as wait:
        said = await here.policy.take(OTHER_SHELVES)
        assert said is not None
        assert "other shelves" in said
        assert here.hosted == frozenset()
        await wait(DAY)
        assert here.cap == units_from_epsilon("2.0")
        assert await here.policy.open_epoch(0, 1) == 2
        assert here.cap == units_from_epsilon("2.0")
        assert here.policy.staged.other_shelves


# --- restarts -----------------------------------------------------------------------------------


async def test_a_restart_within_the_epoch_loosens_nothing(machine: Machine) -> None:
    """Mutant: the written policy is in force after a restart."""
    async with machine.running() as here:
        assert await here.charge("1.0")
    for _ in range(3):
        machine.clock.advance(DAY)
        async with machine.running(HIGH) as here:
            assert here.answering.digest == digest_of(BASE)
            assert here.policy.staged.at_epoch == ("attributes.diabetes.cap",)
    async with machine.running(HIGH) as here:
        assert await here.policy.open_epoch(0, 1) == 2
    async with machine.running(HIGH) as here:
        assert here.answering.digest == digest_of(HIGH)


async def test_what_was_tight_in_an_epoch_stays_so_through_restarts(machine: Machine) -> None:
    for written in (BASE, LOW, BASE, HIGH, BASE):
        machine.clock.advance(DAY)
        async with machine.running(written) as here:
            lowest = "2.0" if written is BASE and here.cap == units_from_epsilon("2.0") else "1.0"
            assert here.cap == units_from_epsilon(lowest)
    assert here.cap == units_from_epsilon("1.0")


async def test_a_start_without_a_tick_in_between_tightens_nothing_yet(machine: Machine) -> None:
    async with machine.running():
        pass
    async with machine.running(LOW_WITHOUT_MEALS) as here:
        assert here.cap == units_from_epsilon("2.0")
        assert here.answering.grants == ()


async def test_without_a_record_an_epoch_in_which_nothing_was_released_begins_anew(
    machine: Machine,
) -> None:
    async with machine.running():
        pass
    machine.record.unlink()
    async with machine.running(HIGH) as here:
        assert here.answering.digest == digest_of(HIGH)
        assert await here.charge("0.5")


@pytest.mark.parametrize("damage", ["missing", "damaged"])
async def test_without_a_record_of_what_was_promised_nothing_is_admitted_until_a_new_epoch(
    machine: Machine, damage: str
) -> None:
    """Mutant: an absent record is taken for a first start."""
    async with machine.running() as here:
        assert await here.charge("0.1")
    if damage == "missing":
        machine.record.unlink()
    else:
        machine.record.write_text(machine.record.read_text()[:-20])
    for _ in range(2):
        async with machine.running(HIGH) as here:
            assert not await here.charge("0.001")
            assert any("not known which policy" in said for said in here.notices.sentences)
            await here.policy.take(LOW)
    async with machine.running(HIGH) as here:
        assert await here.policy.open_epoch(0, 1) == 2
        assert await here.charge("0.5")
    async with machine.running(HIGH) as here:
        assert await here.charge("0.1")


async def test_memory_that_moved_to_other_shelves_is_as_tightly_promised(machine: Machine) -> None:
    async with machine.running(LOW) as here:
        assert await here.charge("0.1")
    async with machine.running(MOVED) as here:
        assert here.cap == units_from_epsilon("1.0")
        assert here.answering.layout.size == BASE_SIZE + 1


BASE_SIZE = promises_of(BASE).layout.size


# --- crashes and refusals -----------------------------------------------------------------------


async def test_the_record_of_an_epoch_is_durable_before_it_opens(machine: Machine) -> None:
    """A crash between the two: the old epoch keeps its policy."""
    async with machine.running() as here:
        assert await here.charge("0.1")
        await here.policy.take(HIGH)
        opening = here.ledger.open_next_epoch
        at_opening: list[int] = []

        async def crash(period: int, after: int | None = None, fusion: object = None) -> int | None:
            kept = await asyncio.to_thread(read_record, machine.record)
            at_opening.extend(each.epoch for each in kept)
            return None

        here.ledger.open_next_epoch = crash  # type: ignore[method-assign]
        assert await here.policy.open_epoch(0, 1) is None
        assert at_opening == [1, 2]
        here.ledger.open_next_epoch = opening  # type: ignore[method-assign]
        assert here.answering.digest == digest_of(BASE)
    async with machine.running(HIGH) as here:
        assert here.answering.digest == digest_of(BASE)


async def test_no_epoch_opens_whose_record_cannot_be_written(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with machine.running() as here:
        await here.policy.take(HIGH)
        full(monkeypatch)
        assert await here.policy.open_epoch(0, 1) is None
        found = here.ledger.snapshot()
        assert isinstance(found, Ledger)
        assert found.epoch == 1
        assert any("check the disk" in said for said in here.notices.sentences)


async def test_what_tightens_holds_even_if_it_cannot_be_recorded(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with machine.running() as here, machine.ticking(here) as wait:
        full(monkeypatch)
        await here.policy.take(LOW)
        await wait(DAY)
        assert here.cap == units_from_epsilon("1.0")


def full(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(policy_in_force, "write_record", refuse)


async def test_an_epoch_that_is_not_the_open_one_changes_nothing(machine: Machine) -> None:
    async with machine.running() as here:
        await here.policy.take(HIGH)
        assert await here.policy.open_epoch(0, 7) is None
        assert here.answering.digest == digest_of(BASE)


async def test_an_epoch_whose_wish_was_cancelled_has_its_policy(machine: Machine) -> None:
    async with machine.running() as here:
        await here.policy.take(HIGH)
        opening, began, go_on = here.ledger.open_next_epoch, asyncio.Event(), asyncio.Event()

        async def slow(period: int, after: int | None = None, fusion: object = None) -> int | None:
            began.set()
            await go_on.wait()
            return await opening(period, after, None)

        here.ledger.open_next_epoch = slow  # type: ignore[method-assign]
        async with asyncio.TaskGroup() as group:
            wish = group.create_task(here.policy.open_epoch(0, 1), name="wish")
            await began.wait()
            wish.cancel()
            go_on.set()
        await here.policy.take(HIGH)
        assert here.answering.digest == digest_of(HIGH)


async def test_changes_while_it_is_locked_hold_when_it_is_unlocked(machine: Machine) -> None:
    async with machine.running() as here:
        begun = here.answering
        await here.policy.closing()
        await here.policy.take(WITHOUT_MEALS)
        assert here.hosted == frozenset()
        assert here.answering == begun
        assert await here.policy.open_epoch(0, 1) is None
        promises = await here.policy.begin(here.ledger)
        assert promises.grants == ()
        await here.policy.opened(here.ledger, here.exchange, begun)
        assert here.answering.grants == ()


# --- at once ------------------------------------------------------------------------------------


async def test_what_the_owner_insists_on_holds_at_once_and_is_named_until_the_next_epoch(
    machine: Machine,
) -> None:
    async with machine.running() as here:
        await here.policy.take(HIGH)
        await here.policy.apply_at_once(digest_of(HIGH))
        assert here.answering.digest == digest_of(HIGH)
        assert here.policy.staged.at_once
    async with machine.running(HIGH) as here:
        assert here.answering.digest == digest_of(HIGH)
        assert here.policy.staged.at_once
        assert await here.policy.open_epoch(0, 1) == 2
        assert not here.policy.staged.at_once


async def test_a_group_that_shrinks_at_once_keeps_what_was_spent(machine: Machine) -> None:
    async with machine.running() as here:
        assert await here.charge("0.5")
        await here.policy.take(NARROW)
        await here.policy.apply_at_once(digest_of(NARROW))
        assert here.spent(DIABETES) == units_from_epsilon("0.5")


@pytest.mark.parametrize(
    ("written", "named", "error"),
    [(HIGH, LOW, Unusable), (OTHER_SHELVES, OTHER_SHELVES, Unusable), (HIGH, HIGH, IoFailed)],
)
async def test_nothing_but_what_was_shown_is_put_in_force_at_once(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    written: PolicyDocument,
    named: PolicyDocument,
    error: type[TactfulError],
) -> None:
    async with machine.running() as here:
        await here.policy.take(written)
        before = here.answering.digest
        if error is IoFailed:
            full(monkeypatch)
        with pytest.raises(error):
            await here.policy.apply_at_once(digest_of(named))
        assert here.answering.digest == before
        assert not here.policy.staged.at_once


async def test_a_new_epoch_is_calibrated_by_what_is_then_in_force(machine: Machine) -> None:
    """From epsilon, delta and planned draws to what each draw of the epoch is made with."""
    async with machine.running() as here:
        await here.policy.take(FUSED)
        assert here.fused_with() is None
        assert await here.policy.open_epoch(0, 1) == 2
        found = here.fused_with()
        assert found is not None
        assert found == await asyncio.to_thread(promises_of(FUSED).calibrated)
        cap = rho_cap(found, 8.0, Fraction(1, 10**5))
        assert 2000 * loss_units(found, 1, 1) <= cap < 2010 * loss_units(found, 1, 1)
        await here.policy.take(BASE)
        assert await here.policy.open_epoch(0, 2) == 3
        assert here.fused_with() is None


async def test_fused_text_makes_an_epoch_whose_policy_must_be_known(machine: Machine) -> None:
    """Mutant: only views count as something that was released."""
    async with machine.running(FUSED) as here:
        assert await here.policy.open_epoch(0, 1) == 2
        wanted = reservation(here.answering)
        assert isinstance(await here.ledger.reserve(wanted, here.answering), Admitted)
    machine.record.unlink()
    async with machine.running(FUSED) as here:
        assert any("not known which policy" in said for said in here.notices.sentences)
        again = await here.ledger.reserve(reservation(here.answering), here.answering)
        assert again == Refused(Refusal.CAP)


def reservation(promises: Promises) -> FusedReserved:
    """One draw from the first position of food."""
    (food, *_) = promises.layout.slots
    first = frozenset(food.positions[:1])
    cell = Cell(first, promises.layout.required_charge_set(first))
    return FusedReserved(
        new_entry_id(), 2, AppId("meals"), frozenset({food.name}), (cell,), frozenset(), 1, "policy"
    )
