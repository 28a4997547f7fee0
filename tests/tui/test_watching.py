"""The asking goes on whatever the daemon does; no terminal is needed for it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.fakes.daemon_site import until
from tests.fakes.scripted_daemon import serving
from tests.tui.samples import LINES, daemon, ledger, line, status

from tactful.errors import InternalError, Unusable
from tactful.owner_wire import OwnerMethod
from tactful.profile import Profile
from tactful_tui import watching
from tactful_tui.watch import Phase, Watch
from tactful_tui.watching import Watching


@dataclass(slots=True)
class Watcher:
    """Somebody who watches, in a hurry."""

    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    seen: list[Watch] = field(default_factory=list)

    def show(self, watch: Watch) -> None:
        self.seen.append(watch)

    async def sees(self, phase: Phase) -> Watch:
        """Waits for something new in this phase."""
        before = len(self.seen)

        def arrived() -> bool:
            self.hurry.set()
            return len(self.seen) > before + 1 and self.seen[-1].phase is phase

        await until(arrived)
        return self.seen[-1]


@contextlib.asynccontextmanager
async def watcher(profile: Profile) -> AsyncIterator[Watcher]:
    somebody = Watcher()
    async with asyncio.TaskGroup() as tasks:
        watching = Watching(profile, somebody.show, somebody.hurry)
        task = tasks.create_task(watching.run(), name="watch")
        yield somebody
        task.cancel()


@pytest.fixture
def profile(profile_dir: Path) -> Profile:
    return Profile.at(profile_dir)


async def test_figures_are_those_of_the_daemon_and_follow_it(profile: Profile) -> None:
    served = daemon()
    async with serving(served, profile), watcher(profile) as somebody:
        seen = await somebody.sees(Phase.LIVE)
        assert seen.figures is not None
        assert (seen.figures.ledger.lines, seen.figures.renewal) == (LINES, "manual")
        served.ledger = ledger(line("debt", 2.0))
        seen = await somebody.sees(Phase.LIVE)
        assert seen.figures is not None
        assert seen.figures.ledger == served.ledger
        assert served.connections == 1


async def test_a_daemon_may_stop_and_return(profile: Profile) -> None:
    async with watcher(profile) as somebody:
        lost = await somebody.sees(Phase.DOWN)
        assert lost.figures is None
        assert "tactful start" in (lost.problem or "")
        async with serving(daemon(), profile):
            live = await somebody.sees(Phase.LIVE)
        lost = await somebody.sees(Phase.DOWN)
        assert lost.figures is not None
        assert live.figures is not None
        assert lost.figures.ledger == live.figures.ledger
        assert "Start it with `tactful start`" in (lost.problem or "")
        async with serving(daemon(line("debt", 0.5)), profile):
            live = await somebody.sees(Phase.LIVE)
        assert live.figures is not None
        assert live.figures.ledger.lines == (line("debt", 0.5),)


async def test_a_lost_connection_is_tried_again_before_anything_is_said(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon that was restarted between two questions is never shown as gone."""
    monkeypatch.setattr(watching, "PERIOD", 3600.0)
    async with watcher(profile) as somebody:
        await somebody.sees(Phase.DOWN)
        first = daemon()
        async with serving(first, profile):
            await somebody.sees(Phase.LIVE)
            live = len(somebody.seen)

            def pausing() -> bool:
                answers = sum(watch.phase is Phase.LIVE for watch in somebody.seen)
                return not somebody.hurry.is_set() and answers == first.asked["history.list"]

            await until(pausing)
        async with serving(daemon(), profile):
            await somebody.sees(Phase.LIVE)
            assert {watch.phase for watch in somebody.seen[live:]} == {Phase.LIVE}


async def test_a_refusal_keeps_the_connection(profile: Profile) -> None:
    served = daemon()
    async with serving(served, profile), watcher(profile) as somebody:
        live = await somebody.sees(Phase.LIVE)
        served.refusals[OwnerMethod.LEDGER] = Unusable("Memory is locked.")
        served.status = status(notices=("A notice.",))
        refused = await somebody.sees(Phase.REFUSING)
        assert (refused.status, refused.problem) == (served.status, "Memory is locked.")
        assert refused.figures is not None
        assert live.figures is not None
        assert refused.figures.ledger == live.figures.ledger
        served.refusals.clear()
        assert (await somebody.sees(Phase.LIVE)).problem is None
        assert served.connections == 1


async def test_a_damaged_ledger_is_shown_without_asking_for_its_epoch(profile: Profile) -> None:
    served = daemon()
    served.ledger = ledger(line(spent=2.0), readable=False)
    served.refusals[OwnerMethod.EPOCH_SHOW] = Unusable("The ledger cannot be read.")
    async with serving(served, profile), watcher(profile) as somebody:
        seen = await somebody.sees(Phase.LIVE)
        assert seen.figures is not None
        assert seen.figures.renewal is None


async def test_a_daemon_that_refuses_the_secret_is_lost_with_its_reason(profile: Profile) -> None:
    served = daemon()
    served.refusals[OwnerMethod.AUTHENTICATE] = InternalError("It is another secret.")
    async with serving(served, profile), watcher(profile) as somebody:
        assert (await somebody.sees(Phase.LOST)).problem == "It is another secret."


async def test_a_daemon_that_says_nothing_is_lost(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "PATIENCE", 0.05)
    served = daemon()
    async with serving(served, profile), watcher(profile) as somebody:
        await somebody.sees(Phase.LIVE)
        served.silent = True
        lost = await somebody.sees(Phase.LOST)
        assert "has not answered" in (lost.problem or "")
        assert lost.figures is not None
        served.silent = False
        assert (await somebody.sees(Phase.LIVE)).problem is None
