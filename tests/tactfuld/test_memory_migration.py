"""Memory gets other shelves: each memory keeps its own, none is lost, no ledger counts less."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fakes.daemon_process import PASSPHRASE, make_profile
from tests.fakes.killable import killed, opened, policy_in_force_now
from tests.tactfuld.test_killed_rotation import fill

from tactful.errors import Denied, DoesNotFit, Unusable, WouldUncover
from tactful.profile import Profile
from tactful_core.entries import UnprotectedRead, new_entry_id
from tactful_core.ledger import Ledger
from tactful_core.values import AppId, Position, Secret, ShelfName, SlotName
from tactfuld.memory_migration import ASIDE_FILE, migrate_memory, shelf_changes
from tactfuld.policy.loading import load_policy
from tactfuld.policy.record import RECORD_FILE

DIET = "diet: {positions: 1, tokens: 48}"
CONDITION = "condition: {positions: 1, tokens: 48}"


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """Two memories, and the record that a daemon leaves behind."""
    made = make_profile(tmp_path / "profile")

    async def remember() -> None:
        async with opened(made) as stores:
            await stores.memory.remember("I eat no nuts.", ShelfName("food.diet"), None, 1)
            await stores.memory.remember("Rent is due.", ShelfName("finance.bills"), None, 2)

    asyncio.run(remember())
    policy_in_force_now(made)
    return made


def edit(profile: Profile, *changes: tuple[str, str]) -> None:
    text = profile.policy_file.read_text()
    for before, after in changes:
        assert text.count(before) == 1
        text = text.replace(before, after)
    profile.policy_file.write_text(text)


def migrate(profile: Profile, *, commit: bool = True, uncover: bool = False) -> dict[str, object]:
    return migrate_memory(profile, Secret(PASSPHRASE), commit=commit, uncover=uncover)


def remembered(profile: Profile) -> dict[str, list[str]]:
    """What is on each shelf, in order."""

    layout = load_policy(profile.policy_file).layout

    async def look() -> dict[str, list[str]]:
        async with opened(profile) as stores:
            held = dict(await stores.memory.listing())
        return {
            shelf.name: [held[p].text for p in shelf.positions if p in held]
            for shelf in layout.shelves
        }

    return {name: texts for name, texts in asyncio.run(look()).items() if texts}


KEPT = {"food.diet": ["I eat no nuts."], "finance.bills": ["Rent is due."]}


def test_memories_keep_their_shelves_when_others_grow_and_come(profile: Profile) -> None:
    grown = (CONDITION, "condition: {positions: 7, tokens: 48}")
    edit(profile, grown, (DIET, "diet: {positions: 3, tokens: 96}"))
    plan = migrate(profile, commit=False)
    assert [change["shelf"] for change in _changes(plan)] == ["health.condition", "food.diet"]
    assert not plan["migrated"]
    assert (profile.state / RECORD_FILE).exists()
    assert migrate(profile)["migrated"]
    assert remembered(profile) == KEPT
    assert not (profile.state / RECORD_FILE).exists()
    assert not (profile.state / ASIDE_FILE).exists()
    assert migrate(profile) == {
        "changes": [],
        "memories": None,
        "migrated": False,
        "exhausts": False,
    }


def _changes(data: dict[str, object]) -> list[dict[str, object]]:
    changes = data["changes"]
    assert isinstance(changes, list)
    return changes


def test_the_store_refuses_other_shelves_until_it_is_migrated(profile: Profile) -> None:
    edit(profile, (DIET, "diet: {positions: 2, tokens: 48}"))
    with pytest.raises(Unusable, match="tactful memory migrate"):
        remembered(profile)
    migrate(profile)
    assert remembered(profile) == KEPT


def test_a_memory_without_a_place_stops_it(profile: Profile) -> None:
    before = (profile.data / "memory.db").read_bytes()
    edit(profile, (DIET, "menu: {positions: 1, tokens: 48}"))
    for commit in (False, True):
        with pytest.raises(DoesNotFit, match=r"remembered in food\.diet would have no place"):
            migrate(profile, commit=commit)
    assert (profile.data / "memory.db").read_bytes() == before
    assert (profile.state / RECORD_FILE).exists()


def test_a_memory_longer_than_its_new_position_stops_it(profile: Profile) -> None:
    async def lengthen() -> None:
        async with opened(profile) as stores:
            await stores.memory.edit(Position(2), "No nuts. " * 10, 3)

    asyncio.run(lengthen())
    edit(profile, (DIET, "diet: {positions: 1, tokens: 8}"))
    with pytest.raises(DoesNotFit):
        migrate(profile)


def test_a_shelf_that_holds_something_loses_cover_by_an_explicit_word_only(
    profile: Profile,
) -> None:
    edit(profile, (CONDITION, "condition: {positions: 2, tokens: 48}"))
    edit(profile, ("implied_by: [health, food]", "implied_by: [health, food.groceries]"))
    edit(profile, (DIET, "diet: {positions: 1, tokens: 48, unprotected: true}"))
    named = {
        change["shelf"]: change["uncovers"] for change in _changes(migrate(profile, commit=False))
    }
    assert named == {"health.condition": (), "food.diet": ("diabetes",)}
    with pytest.raises(WouldUncover, match=r"food\.diet \(diabetes\)"):
        migrate(profile)
    assert migrate(profile, uncover=True)["migrated"]
    assert remembered(profile) == KEPT


def test_an_empty_shelf_may_lose_cover(profile: Profile) -> None:
    before = load_policy(profile.policy_file).layout
    edit(profile, ("implied_by: [health, food]", "implied_by: [health, food.groceries]"))
    edit(profile, (DIET, "diet: {positions: 1, tokens: 48, unprotected: true}"))
    after = load_policy(profile.policy_file).layout
    assert shelf_changes(before, after, ()) == ()
    (change,) = shelf_changes(before, after, (Position(2),))
    assert change.uncovers == ("diabetes",)


def test_an_epoch_in_which_something_was_released_is_known_to_be_used(profile: Profile) -> None:
    edit(profile, (DIET, "diet: {positions: 2, tokens: 48}"))
    assert not migrate(profile, commit=False)["exhausts"]
    edit(profile, ("diet: {positions: 2, tokens: 48}", DIET))

    async def empty() -> None:
        async with opened(profile) as stores:
            await stores.memory.forget((Position(2),))

    asyncio.run(empty())
    asyncio.run(fill(profile))
    edit(profile, (DIET, "diet: {positions: 2, tokens: 48}"))
    assert migrate(profile)["exhausts"]


def test_reads_without_protection_have_to_be_over(profile: Profile) -> None:
    async def read() -> None:
        async with opened(profile) as stores:
            entry = UnprotectedRead(
                new_entry_id(), 1, AppId("meals"), SlotName("food"), frozenset({Position(2)}), "p"
            )
            assert await stores.ledger.record(entry)

    asyncio.run(read())
    edit(profile, (DIET, "diet: {positions: 2, tokens: 48}"))
    with pytest.raises(Denied, match="epoch new"):
        migrate(profile)
    assert (profile.state / RECORD_FILE).exists()


def test_shelves_that_nobody_knows_any_more_are_a_sentence(profile: Profile) -> None:
    (profile.state / RECORD_FILE).unlink()
    edit(profile, (DIET, "diet: {positions: 2, tokens: 48}"))
    with pytest.raises(Unusable, match=r"Put policy\.yaml back"):
        migrate(profile)


# --- killed at any moment -----------------------------------------------------------------------


def accounts(profile: Profile) -> object:
    async def look() -> object:
        async with opened(profile) as stores:
            ledger, entries = await stores.ledger.witnessed()
            assert isinstance(ledger, Ledger)
            return ledger.settled, ledger.lifetime, entries

    return asyncio.run(look())


def survives(profile: Profile, kills: int) -> None:
    asyncio.run(fill_anew(profile))
    spent = accounts(profile)
    for _steps in killed(profile, "migrate", kills, 0.6):
        migrate(profile)
        assert remembered(profile) == KEPT
        assert accounts(profile) == spent


async def fill_anew(profile: Profile) -> None:
    """A charge, so that there is something to lose; the memories are as before."""
    async with opened(profile) as stores:
        await stores.memory.forget((Position(2),))
    await fill(profile)


def test_migrations_killed_at_twenty_moments_lose_nothing(profile: Profile) -> None:
    survives(profile, 20)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_migrations_killed_at_two_hundred_moments_lose_nothing(profile: Profile) -> None:
    survives(profile, 200)
