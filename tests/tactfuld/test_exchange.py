"""Another version of the policy in the middle of turns: each turn has one, and charges under it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.daemon_site import GUEST, MEALS, PROMISES, VERSION, Site, site

from tactful.errors import Denied
from tactful.wire import Ask
from tactful_core.layout import Layout, Slot
from tactful_core.ledger import Ledger
from tactful_core.promises import Grant, Promises
from tactful_core.values import AppId, Units, units_from_epsilon
from tactfuld.inference.fake_embedder import HashEmbedder
from tactfuld.policy_version import PolicyVersion
from tactfuld.router import Router
from tactfuld.scorer import EmbeddingScorer

DINNER = Ask(query="What is an affordable dinner for tonight?", slots=("food",))


def with_caps(epsilon: str) -> Promises:
    cap = units_from_epsilon(epsilon)
    layout = PROMISES.layout
    attributes = tuple(replace(attribute, cap=cap) for attribute in layout.attributes)
    return replace(PROMISES, layout=Layout(layout.slots, attributes), digest=epsilon)


WITHOUT_MEALS = replace(
    PROMISES, grants=tuple(grant for grant in PROMISES.grants if grant.app != MEALS)
)


class HeldRouter(Router):
    """Stops after it has found the slots, until it is let go on."""

    def __init__(self) -> None:
        super().__init__(HashEmbedder())
        self.found, self.go_on = asyncio.Event(), asyncio.Event()

    async def active_slots(
        self,
        query: str,
        grant: Grant,
        requested: tuple[str, ...] | None,
        earlier: tuple[str, ...] = (),
    ) -> tuple[Slot, ...]:
        slots = await super().active_slots(query, grant, requested, earlier)
        self.found.set()
        await self.go_on.wait()
        return slots


def version(promises: Promises, name: str, router: Router | None = None) -> PolicyVersion:
    embedder = HashEmbedder()
    router, scorer = router or Router(embedder), EmbeddingScorer(embedder)
    router.prepare(promises.layout.slots)
    scorer.prepare(promises.layout.slots)
    return PolicyVersion(promises, router, scorer, name)


async def at_once() -> bool:
    return True


async def never() -> bool:
    return False


async def nothing(_piece: str) -> None: ...


def charged(at: Site) -> set[Units]:
    found = at.ledger.snapshot()
    assert isinstance(found, Ledger)
    return {found.spent(attribute) for attribute in at.promises.layout.attributes}


async def test_apps_see_only_that_the_version_changed(profile_dir: Path) -> None:
    async with site(profile_dir) as at:
        assert (await at.gate.ask(MEALS, DINNER, nothing)).policy == VERSION
        assert await at.gate.exchange(version(with_caps("1.5"), "other"), at_once)
        assert (await at.gate.ask(MEALS, DINNER, nothing)).policy == "other"
        assert not await at.gate.exchange(version(PROMISES, "third"), never)
        assert (await at.gate.ask(MEALS, DINNER, nothing)).policy == "other"


@pytest.mark.parametrize("app", [MEALS, GUEST])
async def test_a_turn_that_has_not_drawn_yet_charges_under_the_new_version(
    profile_dir: Path, app: AppId
) -> None:
    """Mutant: a turn goes on with the caps that it began under."""
    async with site(profile_dir) as at:
        router = HeldRouter()
        await at.gate.exchange(version(PROMISES, "held", router), at_once)
        async with asyncio.TaskGroup() as tasks:
            turn = tasks.create_task(at.gate.ask(app, DINNER, nothing), name="turn")
            await router.found.wait()
            await at.gate.exchange(version(with_caps("0.3"), "tight"), at_once)
            router.go_on.set()
        assert turn.result().policy == "tight"
        assert charged(at) == {Units(units_from_epsilon("0.3") // 3)}


async def test_an_app_that_is_revoked_in_the_middle_of_a_turn_is_denied_uncharged(
    profile_dir: Path,
) -> None:
    async with site(profile_dir) as at:
        router = HeldRouter()
        await at.gate.exchange(version(PROMISES, "held", router), at_once)

        async def denied() -> None:
            with pytest.raises(Denied):
                await at.gate.ask(MEALS, DINNER, nothing)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(denied(), name="turn")
            await router.found.wait()
            await at.gate.exchange(version(WITHOUT_MEALS, "revoked"), at_once)
            router.go_on.set()
        assert charged(at) == {0}


async def test_a_turn_that_has_drawn_is_answered_under_its_version(profile_dir: Path) -> None:
    async with site(profile_dir) as at:

        async def exchange(_piece: str) -> None:
            await at.gate.exchange(version(WITHOUT_MEALS, "later"), at_once)

        assert (await at.gate.ask(MEALS, DINNER, exchange)).policy == VERSION
        with pytest.raises(Denied):
            await at.gate.ask(MEALS, DINNER, nothing)


async def test_no_view_is_released_while_the_version_changes(profile_dir: Path) -> None:
    """Mutant: the exchange does not wait for, or hold up, the release of views."""
    async with site(profile_dir) as at:
        began, go_on = asyncio.Event(), asyncio.Event()
        order: list[str] = []

        async def slow() -> bool:
            began.set()
            await go_on.wait()
            assert charged(at) == {0}
            order.append("changed")
            return True

        async def ask() -> None:
            answer = await at.gate.ask(MEALS, DINNER, nothing)
            order.append(answer.policy)

        async with asyncio.TaskGroup() as tasks:
            new = version(with_caps("1.5"), "new")
            tasks.create_task(at.gate.exchange(new, slow), name="exchange")
            await began.wait()
            tasks.create_task(ask(), name="turn")
            for _ in range(50):
                await asyncio.sleep(0)
            go_on.set()
        assert order == ["changed", "new"]
        assert charged(at) == {Units(units_from_epsilon("1.5") // 3)}
