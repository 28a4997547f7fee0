"""What the owner is told about ledgers, epochs and the promise, over the real socket.

Policies change as they really do: the daemon is stopped, and started with another one.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import pytest
from tests.fakes.daemon_site import (
    DIABETES,
    MEALS,
    PROMISES,
    Site,
    hosting_apps,
    listening,
    site,
)

from tactful.errors import AlreadyExists, InvalidParams, NotFound, Unusable
from tactful.owner_client import OwnerClient
from tactful.owner_wire import FusedDistance, LedgerLine
from tactful.wire import Ask
from tactful_core.allocation import Standing
from tactful_core.entries import (
    Cell,
    FusedReserved,
    Mechanism,
    UnprotectedRead,
    new_entry_id,
)
from tactful_core.fused_ledger import draw_loss
from tactful_core.fusion import FusionParameters, epsilon_of, rho_cap
from tactful_core.interface import Release
from tactful_core.layout import Attribute, Layout
from tactful_core.ledger import Admitted, Ledger, Refusal
from tactful_core.promises import EpochRule, Privacy, Promises, Renewal
from tactful_core.values import (
    UNITS_PER_EPSILON,
    AppId,
    AttributeName,
    Position,
    SlotName,
    Units,
    units_from_epsilon,
)
from tactfuld.open_turn import FusedSpent
from tactfuld.store.ledger import LEDGER_FILE
from tactfuld.store.mark import MARK_FILE

THIRD = 2 / 3
"""What a charge of a third of a cap of 2 is in epsilon, exactly as a float."""


def rounded(epsilon: float) -> float:
    return round(epsilon, 6)


@dataclass(frozen=True, slots=True)
class Office:
    """The owner's connection and the daemon behind it."""

    at: Site
    owner: OwnerClient

    async def line(self, attribute: str) -> LedgerLine:
        (found,) = (
            line for line in (await self.owner.ledger()).lines if line.attribute == attribute
        )
        return found

    async def spend(self, *slots: str) -> list[Release]:
        """One turn for each slot; what was released."""
        diary = Diary()
        with self.at.gate.watching(MEALS, diary):
            for slot in slots:
                await self.at.gate.ask(MEALS, Ask(query="What now?", slots=(slot,)), drop)
        return diary.releases


class Diary:
    """A watcher that keeps what was released."""

    def __init__(self) -> None:
        self.releases: list[Release] = []

    def started(self, turn: int, app: AppId, query: str, releases: tuple[Release, ...]) -> None:
        self.releases += releases

    def text(self, turn: int, piece: str) -> None: ...

    def fused(self, turn: int, spent: FusedSpent) -> None: ...

    def finished(self, turn: int, answer: str) -> None: ...


async def drop(_piece: str) -> None:
    """Nobody listens."""


@asynccontextmanager
async def office(folder: Path, promises: Promises = PROMISES) -> AsyncIterator[Office]:
    """The daemon runs under this policy, over whatever it left when it ran last."""
    async with (
        site(folder, promises=promises) as at,
        hosting_apps(at) as host,
        listening(at, host),
        OwnerClient.connect(at.profile) as owner,
    ):
        yield Office(at, owner)


def with_attributes(*attributes: Attribute) -> Promises:
    return replace(PROMISES, layout=Layout(PROMISES.layout.slots, attributes))


def attribute(name: AttributeName, positions: Iterable[int], cap: str = "2") -> Attribute:
    return Attribute(name, frozenset(Position(p) for p in positions), units_from_epsilon(cap))


DIABETES_NOW, DEBT_NOW = PROMISES.layout.attributes
TRAVEL = AttributeName("travel")


# --- ledger -------------------------------------------------------------------------------------


async def test_what_is_promised_is_the_cap_until_more_is_spent(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        await here.spend("food", "finance")
        line = await here.line("debt")
    assert (rounded(line.spent), line.cap, line.promised) == (rounded(4 / 3), 2.0, 2.0)
    assert (rounded(line.lifetime), line.closed, line.exposed) == (rounded(4 / 3), False, False)


@pytest.mark.parametrize("mechanism", Mechanism)
async def test_an_attribute_is_closed_exactly_when_no_slot_of_it_draws_any_more(
    profile_dir: Path, mechanism: Mechanism
) -> None:
    async with office(profile_dir, replace(PROMISES, mechanism=mechanism)) as here:
        for _ in range(5):
            line = await here.line("debt")
            releases = [*await here.spend("finance"), *await here.spend("food")]
            assert line.closed == all(release.refusal is Refusal.CAP for release in releases)
        assert (await here.line("debt")).closed


async def test_standing_attributes_are_closed_once_every_share_is_spent(profile_dir: Path) -> None:
    promises = replace(PROMISES, allocation=Standing())
    async with office(profile_dir, promises) as here:
        await here.spend("health", "food")
        assert not (await here.line("debt")).closed
        await here.spend("finance")
        lines = (await here.owner.ledger()).lines
        assert [(line.spent, line.closed) for line in lines] == [(2.0, True)] * 2


async def test_ledger_without_its_mark_is_closed_until_the_owner_opens_an_epoch(
    profile_dir: Path,
) -> None:
    async with office(profile_dir) as here:
        await here.spend("food")
        mark = here.at.profile.state / MARK_FILE
    mark.unlink()
    async with office(profile_dir) as here:
        ledger = await here.owner.ledger()
        assert (ledger.readable, ledger.epoch) == (True, 1)
        assert [(line.spent, line.closed) for line in ledger.lines] == [(THIRD, True)] * 2
        assert any("exhausted" in notice for notice in (await here.owner.status()).notices)
        (release,) = await here.spend("health")
        assert release.refusal is Refusal.CAP
        await here.owner.epoch_new(1)
        assert not (await here.line("debt")).closed
        assert (await here.spend("health"))[0].refusal is None


async def test_older_ledger_put_back_is_shown_with_what_was_spent(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        data = here.at.profile.data / LEDGER_FILE
    older = data.read_bytes()
    async with office(profile_dir) as here:
        await here.spend("food", "food")
    data.write_bytes(older)
    async with office(profile_dir) as here:
        assert (await here.line("debt")).spent == pytest.approx(4 / 3)
        assert any("old copy" in notice for notice in (await here.owner.status()).notices)
        releases = await here.spend("finance", "finance")
        assert [release.refusal for release in releases] == [None, Refusal.CAP]


# --- when the policy changes --------------------------------------------------------------------


async def test_group_that_grows_is_charged_for_what_was_read_in_this_epoch(
    profile_dir: Path,
) -> None:
    """Finance was read twice; then diabetes comes to be implied by it."""
    grown = with_attributes(attribute(DIABETES, (1, 2, 3, 4)), DEBT_NOW)
    async with office(profile_dir) as here:
        await here.spend("finance", "finance", "health")
        assert (await here.line("diabetes")).spent == THIRD
    async with office(profile_dir, grown) as here:
        line = await here.line("diabetes")
        assert (line.spent, line.closed, line.promised) == (2.0, True, 2.0)
        (release,) = await here.spend("health")
        assert release.refusal is Refusal.CAP
    async with office(profile_dir) as here:  # and with the old policy again, not less
        assert (await here.line("diabetes")).spent == pytest.approx(2.0)


async def test_group_that_grows_above_its_cap_is_closed_and_shown_as_it_is(
    profile_dir: Path,
) -> None:
    grown = with_attributes(attribute(DIABETES, (1, 2, 3, 4)), DEBT_NOW)
    async with office(profile_dir) as here:
        await here.spend("finance", "finance", "finance", "health", "health")
    async with office(profile_dir, grown) as here:
        line = await here.line("diabetes")
        assert line.spent == pytest.approx(10 / 3)
        assert (line.cap, line.closed, line.promised) == (2.0, True, line.spent)
        assert (await here.spend("health"))[0].refusal is Refusal.CAP
        epoch = {each.attribute: each for each in (await here.owner.epoch_show()).lines}
        assert epoch["diabetes"].lifetime_now == pytest.approx(10 / 3)
        assert epoch["diabetes"].lifetime_after == pytest.approx(10 / 3 + 2)
        found = await here.owner.audit_distance((1,))
        assert found.beforehand == pytest.approx(10 / 3)


async def test_new_attribute_is_charged_for_what_was_read_in_this_epoch(profile_dir: Path) -> None:
    wider = with_attributes(DIABETES_NOW, DEBT_NOW, attribute(TRAVEL, (5,), cap="1"))
    async with office(profile_dir) as here:
        await here.spend("finance", "food", "finance")
        await here.owner.epoch_new(1)
        await here.spend("finance", "food")
    async with office(profile_dir, wider) as here:
        line = await here.line("travel")
        assert (line.spent, line.lifetime) == (THIRD, 2.0)
        assert (await here.spend("finance"))[0].units == units_from_epsilon(1) // 3
        assert (await here.spend("finance"))[0].refusal is Refusal.CAP


async def test_new_attribute_over_what_was_read_without_protection_is_exposed_and_closed(
    profile_dir: Path,
) -> None:
    async with office(profile_dir) as here:
        read = UnprotectedRead(
            new_entry_id(), 1, MEALS, SlotName("finance"), frozenset({Position(5)}), "before"
        )
        assert await here.at.ledger.record(read)
    wider = with_attributes(DIABETES_NOW, DEBT_NOW, attribute(TRAVEL, (5,)))
    async with office(profile_dir, wider) as here:
        line = await here.line("travel")
        assert (line.exposed, line.closed) == (True, True)
        assert (await here.owner.audit_distance((5,))).afterwards is None
        await here.owner.epoch_new(1)
        assert not (await here.line("travel")).exposed


async def test_cap_lowered_below_what_is_spent_closes_and_does_not_lower_the_promise(
    profile_dir: Path,
) -> None:
    async with office(profile_dir) as here:
        await here.spend("finance", "finance")
    lowered = with_attributes(DIABETES_NOW, replace(DEBT_NOW, cap=units_from_epsilon(1)))
    async with office(profile_dir, lowered) as here:
        line = await here.line("debt")
        assert (rounded(line.spent), line.cap, line.closed) == (rounded(4 / 3), 1.0, True)
        assert line.promised == line.spent
        assert (await here.spend("finance"))[0].refusal is Refusal.CAP
    async with office(profile_dir) as here:  # raised again: what was spent is still spent
        assert (await here.line("debt")).spent == pytest.approx(4 / 3)
        releases = await here.spend("finance", "finance")
        assert [release.refusal for release in releases] == [None, Refusal.CAP]


async def test_attribute_that_leaves_the_policy_and_comes_back_has_lost_nothing(
    profile_dir: Path,
) -> None:
    async with office(profile_dir) as here:
        await here.spend("finance", "food")
    without = with_attributes(DIABETES_NOW, attribute(TRAVEL, (4, 5)))
    async with office(profile_dir, without) as here:
        assert (await here.line("travel")).spent == pytest.approx(2 / 3)
        await here.spend("health")
    async with office(profile_dir) as here:
        assert (await here.line("debt")).spent == pytest.approx(4 / 3)


# --- epochs -------------------------------------------------------------------------------------


async def test_epoch_show_tells_the_lifetime_before_and_after(profile_dir: Path) -> None:
    promises = replace(PROMISES, epochs=EpochRule(Renewal.WEEKLY))
    async with office(profile_dir, promises) as here:
        await here.spend("health")
        shown = await here.owner.epoch_show()
    assert (shown.epoch, shown.renewal) == (1, "weekly")
    views = {"attribute", "lifetime_now", "lifetime_after"}
    assert [line.model_dump(include=views) for line in shown.lines] == [
        {"attribute": "diabetes", "lifetime_now": 2.0, "lifetime_after": 8 / 3},
        {"attribute": "debt", "lifetime_now": 2.0, "lifetime_after": 2.0},
    ]


async def test_new_epoch_gives_caps_anew_and_keeps_the_lifetime(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        await here.spend("health", "health", "health")
        before = await here.owner.epoch_show()
        opened = await here.owner.epoch_new(1)
        assert opened.epoch == 2
        for was, now in zip(before.lines, opened.lines, strict=True):
            assert now.lifetime_now == was.lifetime_after
        line = await here.line("diabetes")
        assert (line.spent, line.lifetime, line.closed) == (0.0, 2.0, False)
        assert (await here.spend("health"))[0].refusal is None


@pytest.mark.parametrize("after", [-1, 0, 2, 99])
async def test_epoch_is_opened_after_the_one_that_the_owner_saw_only(
    profile_dir: Path, after: int
) -> None:
    async with office(profile_dir) as here:
        with pytest.raises(AlreadyExists, match=f"Epoch {after} is not the open one"):
            await here.owner.epoch_new(after)
        assert (await here.owner.epoch_show()).epoch == 1


async def test_one_wish_sent_twice_opens_one_epoch(profile_dir: Path) -> None:
    async with office(profile_dir) as here, OwnerClient.connect(here.at.profile) as second:
        async with asyncio.TaskGroup() as group:
            wishes = [
                group.create_task(outcome(owner), name=f"wish {number}")
                for number, owner in enumerate([here.owner, second] * 3)
            ]
        assert sorted(wish.result() for wish in wishes) == ["already_exists"] * 5 + ["opened"]
        assert (await here.owner.epoch_show()).epoch == 2


async def outcome(owner: OwnerClient) -> str:
    try:
        await owner.epoch_new(1)
    except AlreadyExists as refused:
        return refused.code
    return "opened"


async def test_epoch_that_cannot_be_written_is_not_opened(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        assert here.at.ledger._writer is not None
        await here.at.ledger._writer.run(lambda c: c.execute("PRAGMA query_only=ON"))
        with pytest.raises(Unusable, match="Check the disk"):
            await here.owner.epoch_new(1)
        assert (await here.owner.epoch_show()).epoch == 1


async def test_history_has_what_every_epoch_came_to(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        await here.spend("health", "food")
        await here.owner.epoch_new(1)
        await here.owner.epoch_new(2)
        await here.spend("finance")
        epochs = (await here.owner.epoch_history()).epochs
    assert [each.epoch for each in epochs] == [1, 2, 3]
    assert [each.spent for each in epochs] == [
        {"diabetes": pytest.approx(4 / 3), "debt": THIRD},
        {"diabetes": 0.0, "debt": 0.0},
        {"diabetes": 0.0, "debt": THIRD},
    ]


# --- audits -------------------------------------------------------------------------------------


async def test_distance_is_told_in_epsilon_with_its_cover(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        await here.spend("food", "finance")
        one = await here.owner.audit_distance((3,))
        both = await here.owner.audit_distance((1, 4))
        same = await here.owner.audit_distance((4, 5, 4))
    assert (one.beforehand, len(one.cover)) == (2.0, 1)
    assert one.afterwards == THIRD
    assert (both.beforehand, set(both.cover)) == (4.0, {"diabetes", "debt"})
    assert (same.beforehand, same.cover, same.afterwards) == (2.0, ("debt",), THIRD)


async def test_position_that_no_attribute_covers_has_no_promise(profile_dir: Path) -> None:
    narrow = with_attributes(DIABETES_NOW)
    async with office(profile_dir, narrow) as here:
        found = await here.owner.audit_distance((1, 4))
    assert (found.beforehand, found.cover, found.afterwards) == (None, (), 0.0)


@pytest.mark.parametrize("positions", [(0,), (6,), (1, -3), (3, 1_000_000)])
async def test_position_that_does_not_exist_is_named(
    profile_dir: Path, positions: tuple[int, ...]
) -> None:
    async with office(profile_dir) as here:
        with pytest.raises(NotFound, match=r"no position -?\d+; memory has positions 1 to 5"):
            await here.owner.audit_distance(positions)


async def test_distance_of_nothing_is_refused_before_it_is_sent(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        with pytest.raises(InvalidParams):
            await here.owner.audit_distance(())


async def test_replay_counts_the_entries_and_finds_that_they_add_up(profile_dir: Path) -> None:
    promises = replace(PROMISES, allocation=Standing())
    async with office(profile_dir, promises) as here:
        await here.spend("food", "health", "food")
        replay = await here.owner.audit_replay()
        assert (replay.entries, replay.matches) == (5, True), "two charges and two views"
        await here.owner.epoch_new(1)
        assert (await here.owner.audit_replay()).entries == 6


async def test_replay_beside_busy_apps_adds_up(profile_dir: Path) -> None:
    async with office(profile_dir) as here, asyncio.TaskGroup() as group:
        asking = group.create_task(here.spend(*["health", "finance"] * 6), name="apps")
        while not asking.done():
            assert (await here.owner.audit_replay()).matches


async def test_replay_of_entries_that_were_changed_meanwhile_is_a_sentence(
    profile_dir: Path,
) -> None:
    async with office(profile_dir) as here:
        await here.spend("food")
        with closing(sqlite3.connect(here.at.profile.data / LEDGER_FILE)) as connection:
            connection.execute("DROP TRIGGER entries_never_change")
            connection.execute("UPDATE entries SET sealed = zeroblob(1052) WHERE sequence = 2")
            connection.commit()
        for refused in (here.owner.audit_replay(), here.owner.epoch_history()):
            with pytest.raises(Unusable, match="cannot be read as it was written"):
                await refused


async def test_unreadable_ledger_has_sentences_for_everything_but_the_ledger_itself(
    profile_dir: Path,
) -> None:
    async with site(profile_dir) as at:
        pass
    (at.profile.data / LEDGER_FILE).write_bytes(b"no database")
    async with office(profile_dir) as here:
        assert not (await here.owner.ledger()).readable
        owner = here.owner
        for refused in (
            owner.epoch_show(),
            owner.epoch_new(1),
            owner.epoch_history(),
            owner.audit_distance((1,)),
            owner.audit_replay(),
        ):
            with pytest.raises(Unusable, match="put the data folder back"):
                await refused


# --- fused text ---------------------------------------------------------------------------------

EPSILON, DELTA = 8.0, 1e-5
FUSED = replace(
    with_attributes(
        replace(DIABETES_NOW, fusion=units_from_epsilon(8)),
        replace(DEBT_NOW, fusion=units_from_epsilon(8)),
    ),
    privacy=Privacy(Fraction(1, 10**5), 2000),
)


async def fuse(here: Office, draws: int, settled: int | None = None) -> FusedReserved:
    """Reserves draws from one cell of health and one of finance, as the gate does."""
    found, layout = here.at.ledger.snapshot(), FUSED.layout
    assert isinstance(found, Ledger)
    names = (SlotName("health"), SlotName("finance"))
    cells = tuple(
        Cell(frozenset(positions), layout.required_charge_set(positions))
        for positions in (layout.slot(name).positions for name in names)
    )
    wanted = FusedReserved(
        new_entry_id(), found.epoch, MEALS, frozenset(names), cells, frozenset(), draws, "policy"
    )
    assert isinstance(await here.at.ledger.reserve(wanted, FUSED), Admitted)
    if settled is not None:
        assert await here.at.ledger.settle(wanted, settled)
    return wanted


def parameters(here: Office) -> FusionParameters:
    found = here.at.ledger.snapshot()
    assert isinstance(found, Ledger)
    assert found.fused.now is not None
    return found.fused.now


async def test_fused_text_is_shown_at_delta_with_what_it_may_still_cost(profile_dir: Path) -> None:
    """`ε = ρ + ln(1 − 1/α) − ln(δα)/(α − 1)`, and odds of `ρ + ln(1/δ)/(α − 1)` (GUARANTEE §1)."""
    async with office(profile_dir, FUSED) as here:
        line = (await here.line("debt")).fused
        assert line is not None
        assert (line.spent, line.odds, line.epsilon, line.promised) == (0.0, 0.0, 8.0, 8.0)
        assert 2000 <= line.draws_left < 2010
        await fuse(here, 300, settled=120)
        await fuse(here, 80)
        given = parameters(here)
        alpha, each = given.alpha, math.log1p(float(given.divergence)) / (given.alpha - 1)
        rho, tail = 200 * each, math.log(1 / DELTA) / (alpha - 1)
        after = (await here.line("debt")).fused
        assert after is not None
        assert after.spent == pytest.approx(
            rho + math.log(1 - 1 / alpha) - math.log(DELTA * alpha) / (alpha - 1), abs=1e-6
        )
        assert after.lifetime == after.spent
        assert after.odds == after.lifetime_odds == pytest.approx(rho + tail, abs=1e-6)
        assert after.odds >= rho + tail
        constant = math.log(1 - 1 / alpha) - math.log(DELTA * alpha) / (alpha - 1)
        assert after.promised_odds == pytest.approx(EPSILON - constant + tail, abs=1e-6)
        assert after.draws_left == line.draws_left - 200


async def test_fused_text_that_is_lost_is_shown_as_spent_and_closes_it(profile_dir: Path) -> None:
    async with office(profile_dir, FUSED) as here:
        data = here.at.profile.data / LEDGER_FILE
    older = data.read_bytes()
    async with office(profile_dir, FUSED) as here:
        line = (await here.line("debt")).fused
        assert line is not None
        await fuse(here, line.draws_left)
    data.write_bytes(older)
    async with office(profile_dir, FUSED) as here:
        after = (await here.line("debt")).fused
        assert after is not None
        assert after.draws_left == 0
        assert after.spent == pytest.approx(8.0, abs=0.01)
        assert (await here.owner.audit_replay()).matches
        assert (await here.owner.audit_distance((1,))).fused == FusedDistance(
            afterwards=None, delta=DELTA
        )


async def test_an_attribute_without_fused_text_has_no_account_of_it(profile_dir: Path) -> None:
    only_debt = with_attributes(
        replace(DIABETES_NOW, fusion=None), replace(DEBT_NOW, fusion=units_from_epsilon(8))
    )
    async with office(profile_dir, replace(only_debt, privacy=FUSED.privacy)) as here:
        assert (await here.line("diabetes")).fused is None
        assert (await here.line("debt")).fused is not None


async def test_fused_text_that_the_policy_ended_is_shown_for_what_it_cost(
    profile_dir: Path,
) -> None:
    async with office(profile_dir, FUSED) as here:
        await fuse(here, 50, settled=50)
        before = (await here.line("debt")).fused
    ended = with_attributes(*(replace(each, fusion=None) for each in FUSED.layout.attributes))
    async with office(profile_dir, ended) as here:
        after = (await here.line("debt")).fused
    assert before is not None
    assert after is not None
    assert (after.epsilon, after.draws_left) == (None, 0)
    assert after.promised == after.spent == before.spent


async def test_distances_and_history_count_fused_text_by_its_cells(profile_dir: Path) -> None:
    """Position 1 is in one of two cells, 1 and 5 in both, which is beyond `k* = 1`."""
    async with office(profile_dir, FUSED) as here:
        assert (await here.owner.audit_distance((1,))).fused is None
        await fuse(here, 90, settled=60)
        given = parameters(here)

        async def far(*positions: int) -> float:
            found = (await here.owner.audit_distance(positions)).fused
            assert found is not None
            assert found.afterwards is not None
            return found.afterwards

        assert await far(2) == 0.0
        for positions, differing in (((1,), 1), ((1, 5), 2)):
            rho = Units(60 * draw_loss(given, differing, 1))
            assert await far(*positions) == epsilon_of(given, rho, Fraction(1, 10**5))
        await fuse(here, 40)
        await here.owner.epoch_new(1)
        first, second = (await here.owner.epoch_history()).epochs
        rho = Units(100 * draw_loss(given, 1, 1))
        assert first.fused["debt"] == epsilon_of(given, rho, Fraction(1, 10**5))
        assert second.fused == {"diabetes": 0.0, "debt": 0.0}
        assert (await here.owner.audit_replay()).matches


async def test_another_epoch_adds_its_fused_budget_to_the_lifetime(profile_dir: Path) -> None:
    """At the lowest order of all epochs; what the open one leaves unused is given up."""
    async with office(profile_dir, FUSED) as here:
        await fuse(here, 100, settled=100)
        line = {each.attribute: each for each in (await here.owner.epoch_show()).lines}["debt"]
        given = parameters(here)
        tail = math.log(1 / DELTA) / (given.alpha - 1)
        cap = rho_cap(given, EPSILON, Fraction(1, 10**5))
        spent = 100 * draw_loss(given, 1, 1)
        assert line.delta == DELTA
        assert line.fused_now == pytest.approx(cap / UNITS_PER_EPSILON + tail, abs=1e-6)
        assert line.fused_after == pytest.approx((spent + cap) / UNITS_PER_EPSILON + tail, abs=1e-6)
        await here.owner.epoch_new(1)
        line = {each.attribute: each for each in (await here.owner.epoch_show()).lines}["debt"]
        assert line.fused_now == pytest.approx((spent + cap) / UNITS_PER_EPSILON + tail, abs=1e-6)


async def test_without_fused_text_a_lifetime_has_no_exception(profile_dir: Path) -> None:
    plain = with_attributes(*(replace(each, fusion=None) for each in FUSED.layout.attributes))
    async with office(profile_dir, plain) as here:
        lines = (await here.owner.epoch_show()).lines
        assert [(line.fused_now, line.fused_after) for line in lines] == [(0.0, 0.0)] * 2
