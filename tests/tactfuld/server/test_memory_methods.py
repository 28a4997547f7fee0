"""What the owner's tools may call about memory, through the real client and the real socket."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fakes.daemon_site import MEALS, Site, hosting_apps, listening, site

from tactful.errors import (
    DoesNotFit,
    InvalidParams,
    NotFound,
    TactfulError,
    WouldUncover,
)
from tactful.owner_client import OwnerClient
from tactful.wire import Ask

TEXT = "I avoid sweets and sugary drinks."
LONG = "I avoid sweets. " * 30
"""Two positions of 48 tokens hold it."""


@dataclass(frozen=True, slots=True)
class Office:
    """The owner's connection and what is behind it."""

    at: Site
    owner: OwnerClient


@asynccontextmanager
async def office(folder: Path) -> AsyncIterator[Office]:
    async with (
        site(folder) as at,
        hosting_apps(at) as host,
        listening(at, host),
        OwnerClient.connect(at.profile) as owner,
    ):
        yield Office(at, owner)


async def texts(owner: OwnerClient) -> dict[int, str]:
    return {item.position: item.text for item in (await owner.memory_list()).items}


# --- proposals ----------------------------------------------------------------------------------


async def test_shelves_are_proposed_in_an_order_that_memory_does_not_change(
    profile_dir: Path,
) -> None:
    """C7: neither what stands on a shelf nor that it is full has a part in it."""
    async with office(profile_dir) as here:
        before = await here.owner.memory_propose("I spend little on groceries.")
        first = before.choices[0].shelf
        await here.owner.remember("I spend little on groceries.", first)
        after = await here.owner.memory_propose("I spend little on groceries.")
    assert [each.shelf for each in after.choices] == [each.shelf for each in before.choices]
    assert (before.choices[0].free, after.choices[0].free) == (1, 0)
    assert before.choices[0].parts == ("I spend little on groceries.",)


async def test_a_named_shelf_is_looked_at_alone_and_nothing_is_stored(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        (choice,) = (await here.owner.memory_propose(LONG, "food.groceries")).choices
        assert (choice.shelf, choice.positions, choice.free) == ("food.groceries", 1, 1)
        assert choice.covered_by == ("debt", "diabetes")
        assert len(choice.parts) == 2
        assert " ".join(choice.parts) == LONG.strip()
        (unsplit,) = (await here.owner.memory_propose("x" * 500, "food.groceries")).choices
        assert unsplit.parts == ()
        with pytest.raises(NotFound):
            await here.owner.memory_propose(TEXT, "food.cellar")
        assert await texts(here.owner) == {}


# --- remembering --------------------------------------------------------------------------------


async def test_a_long_text_is_split_only_if_that_is_agreed_to(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        with pytest.raises(DoesNotFit):
            await here.owner.remember(LONG, "food.diet")
        with pytest.raises(DoesNotFit, match="needs 2 positions"):
            await here.owner.remember(LONG, "food.diet", split=True)
        assert await texts(here.owner) == {}
        stored = await here.owner.remember("I avoid sweets. I like rice.", "food.diet", split=True)
        assert stored.positions == (2,)


# --- looking ------------------------------------------------------------------------------------


async def test_memories_are_listed_shown_and_found(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        await here.owner.remember(TEXT, "food.diet")
        await here.owner.remember("Rent is due.", "finance.bills")
        listed = await here.owner.memory_list("food.diet")
        assert [item.text for item in listed.items] == [TEXT]
        assert [shelf.shelf for shelf in listed.shelves] == ["food.diet"]
        shown = await here.owner.memory_show(2)
        assert (shown.shelf, shown.text) == ("food.diet", TEXT)
        assert [item.text for item in await here.owner.memory_search("rent")] == ["Rent is due."]
        assert len(await here.owner.memory_search("rent sweets")) == 2
        assert len(await here.owner.memory_search("rent sweets", limit=1)) == 1
        for position in (1, 99):
            with pytest.raises(NotFound):
                await here.owner.memory_show(position)
        with pytest.raises(NotFound):
            await here.owner.memory_list("food.cellar")


async def test_a_search_leaves_no_trace(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        await here.owner.remember(TEXT, "food.diet")
        await here.owner.memory_search("zebra")
        assert "zebra" not in here.at.log.getvalue()
        assert "sweets" not in here.at.log.getvalue()
        written = [path.read_bytes() for path in profile_dir.rglob("*") if path.is_file()]
        assert not any(b"zebra" in data or b"sweets" in data for data in written)


async def test_suggestions_do_not_move_anything(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        await here.owner.remember("diet meals groceries cooking breakfast dinner", "food.diet")
        before = await texts(here.owner)
        for each in await here.owner.memory_suggest():
            assert each.better != each.item.shelf
        assert await texts(here.owner) == before


# --- changing -----------------------------------------------------------------------------------


async def test_a_memory_is_written_anew_where_it_stands(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        await here.owner.remember(TEXT, "food.diet")
        changed = await here.owner.memory_edit(2, "I like rice.")
        assert (changed.positions, changed.shelf) == ((2,), "food.diet")
        assert await texts(here.owner) == {2: "I like rice."}
        with pytest.raises(NotFound):
            await here.owner.memory_edit(1, TEXT)


async def test_a_move_tells_what_protects_the_memory_from_now_on(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        await here.owner.remember(TEXT, "food.diet")
        moved = await here.owner.memory_move(2, "food.groceries")
        assert (moved.position, moved.shelf, moved.joined) == (3, "food.groceries", ("debt",))
        assert await texts(here.owner) == {3: TEXT}


async def test_a_move_that_would_uncover_is_refused_and_names_what(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        await here.owner.remember(TEXT, "food.groceries")
        with pytest.raises(WouldUncover, match="no longer be covered by debt"):
            await here.owner.memory_move(3, "food.diet")
        assert await texts(here.owner) == {3: TEXT}


async def test_earlier_releases_stay_charged_to_what_covered_the_memory_then(
    profile_dir: Path,
) -> None:
    async def drop(_piece: str) -> None:
        """Nobody listens to the pieces."""

    async with office(profile_dir) as here:
        await here.owner.remember("I sleep badly.", "health.condition")
        await here.at.gate.ask(MEALS, Ask(query="How can I sleep?", slots=("health",)), drop)
        before = here.at.spent()
        assert before["diabetes"] > 0
        await here.owner.memory_move(1, "food.groceries")
        assert here.at.spent() == before


# --- forgetting ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "left", "forgotten"),
    [
        ({"positions": (2, 1, 2)}, {5: "Rent is due."}, 1),
        ({"shelf": "food.diet"}, {5: "Rent is due."}, 1),
        ({"shelf": "food.groceries"}, {2: TEXT, 5: "Rent is due."}, 0),
        ({"everything": True}, {}, 2),
    ],
)
async def test_what_is_named_is_forgotten(
    profile_dir: Path, how: dict[str, object], left: dict[int, str], forgotten: int
) -> None:
    async with office(profile_dir) as here:
        await here.owner.remember(TEXT, "food.diet")
        await here.owner.remember("Rent is due.", "finance.bills", 5)
        assert await here.owner.memory_forget(**how) == forgotten  # type: ignore[arg-type]
        assert await texts(here.owner) == left


@pytest.mark.parametrize(
    "how", [{}, {"positions": (2,), "everything": True}, {"positions": (2, 99)}]
)
async def test_nothing_is_forgotten_that_is_not_named_in_one_way(
    profile_dir: Path, how: dict[str, object]
) -> None:
    async with office(profile_dir) as here:
        await here.owner.remember(TEXT, "food.diet")
        with pytest.raises((InvalidParams, NotFound)):
            await here.owner.memory_forget(**how)  # type: ignore[arg-type]
        assert await texts(here.owner) == {2: TEXT}


async def test_forgetting_refunds_nothing(profile_dir: Path) -> None:
    async def drop(_piece: str) -> None:
        """Nobody listens to the pieces."""

    async with office(profile_dir) as here:
        await here.owner.remember(TEXT, "food.diet")
        await here.at.gate.ask(MEALS, Ask(query="What is for dinner?", slots=("food",)), drop)
        spent, replay = here.at.spent(), await here.owner.audit_replay()
        assert any(spent.values())
        await here.owner.memory_forget(everything=True)
        assert here.at.spent() == spent
        assert await here.owner.audit_replay() == replay


async def test_what_only_cycles_refer_to_is_freed_too(profile_dir: Path) -> None:
    """Freed memory is overwritten (`tactfuld.scrubbing`); a cycle would keep it for a while."""

    class Kept:
        itself: object

    async with office(profile_dir) as here:
        gc.disable()
        try:
            kept = Kept()
            kept.itself, still = kept, weakref.ref(kept)
            del kept
            assert still() is not None
            await here.owner.memory_forget(everything=True)
            assert still() is None
        finally:
            gc.enable()


async def test_no_error_repeats_a_text(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        owner = here.owner
        await owner.remember("I like zebras.", "food.groceries")
        for call in (
            owner.memory_edit(3, "zebra" * 200),
            owner.memory_move(3, "food.diet"),
            owner.remember("zebra" * 200, "food.diet", split=True),
            owner.memory_show(1),
        ):
            with pytest.raises(TactfulError) as error:
                await call
            assert "zebra" not in str(error.value)


# --- coverage -----------------------------------------------------------------------------------


async def test_what_a_text_implies_outside_its_cover_is_said_beforehand_and_in_replies(
    profile_dir: Path,
) -> None:
    async with office(profile_dir) as here:
        (choice,) = (
            await here.owner.memory_propose("My insulin costs much.", "finance.bills")
        ).choices
        assert choice.warning is not None
        assert (choice.warning.likely, choice.warning.possible) == (("diabetes",), ())
        assert await texts(here.owner) == {}
        stored = await here.owner.remember("My insulin costs much.", "finance.bills")
        assert stored.warning is not None
        assert stored.warning.likely == ("diabetes",)
        (position,) = stored.positions
        edited = await here.owner.memory_edit(position, "Less sugar.")
        assert edited.warning is not None
        assert edited.warning.possible == ("diabetes",)
        covered = await here.owner.remember("My insulin is here.", "food.diet")
        assert covered.warning is None


async def test_lint_finds_what_is_filed_outside_and_changes_nothing(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        await here.owner.remember("My insulin costs much.", "finance.bills")
        await here.owner.remember("My insulin is here.", "food.diet")
        before, spent = await texts(here.owner), here.at.spent()
        found = await here.owner.policy_lint()
        (finding,) = found.findings
        assert finding.item.shelf == "finance.bills"
        assert finding.warning.likely == ("diabetes",)
        assert found.looked_for == ("diabetes",)
        assert found.unknown == ("debt",)
        assert await texts(here.owner) == before
        assert here.at.spent() == spent
        assert "insulin" not in here.at.log.getvalue()
