"""The screen follows the daemon, and keys do what the last line says."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fakes.daemon_site import until
from tests.fakes.scripted_daemon import ScriptedDaemon, serving
from tests.tui.samples import HOSTILE, daemon, ledger, line, screen_lines, screen_text, status, turn
from textual.geometry import Size
from textual.pilot import Pilot
from textual.worker import WorkerFailed

from tactful.errors import Denied
from tactful.owner_wire import AppStatus, OwnerMethod
from tactful.profile import Profile
from tactful_tui.app import TactfulTui
from tactful_tui.panel import Panel
from tactful_tui.sheet import Sheet
from tactful_tui.watch import Phase


@dataclass(frozen=True)
class Seen:
    """A running screen, and somebody who looks and types."""

    app: TactfulTui
    pilot: Pilot[None]

    async def shows(self, *words: str) -> str:
        """Waits until all of the words are on the screen, and returns it."""

        await self.is_so(lambda: all(word in screen_text(self.app) for word in words))
        await self.pilot.pause()
        return screen_text(self.app)

    async def is_so(self, condition: Callable[[], bool]) -> None:
        def asked() -> bool:
            assert self.app.is_running, "the screen has ended"
            self.app.action_ask_now()
            return condition()

        await until(asked)

    def panel(self, name: str) -> Panel:
        return self.app.screen_stack[0].query_one(f"#{name}", Panel)


@contextlib.asynccontextmanager
async def screen(profile: Profile, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Seen]:
    app = TactfulTui(profile, "~/p")
    async with app.run_test(size=size) as pilot:
        yield Seen(app, pilot)


@pytest.fixture
def profile(profile_dir: Path) -> Profile:
    return Profile.at(profile_dir)


@pytest.fixture
async def served(profile: Profile) -> AsyncIterator[ScriptedDaemon]:
    answers = daemon()
    async with serving(answers, profile):
        yield answers


SIZES = [(80, 24), (120, 40), (160, 50)]


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("size", SIZES)
async def test_the_first_screen_has_everything(profile: Profile, size: tuple[int, int]) -> None:
    async with screen(profile, size) as seen:
        text = await seen.shows("● running", "epoch 1", "Ledgers", "Apps", "q quit", "? help")
        assert "diabetes   █" in text
        assert "2.000 of 2.000  used up" in text
        assert "1.333 of 2.000  about a third left" in text
        assert "meals    running  food, finance, health" in text
        assert "profile ~/p" in text
        assert "meals    What is an affordable dinner" in text
        assert "food: blood_sugar · finance: generic (no charge)" in text
        assert max(map(len, text.splitlines())) <= size[0]


async def test_a_new_turn_appears_above_the_others(
    profile: Profile, served: ScriptedDaemon
) -> None:
    async with screen(profile) as seen:
        await seen.shows("Which bill comes first?")
        served.turns = (turn(3, "And for tomorrow?", minutes_ago=1), *served.turns)
        text = await seen.shows("And for tomorrow?")
        assert text.index("And for tomorrow?") < text.index("What is an affordable dinner")


async def test_a_panel_that_nobody_is_in_begins_with_the_newest_row(
    profile: Profile, served: ScriptedDaemon
) -> None:
    async with screen(profile) as seen:
        await seen.shows("Which bill comes first?")
        served.turns = (turn(3, "And for tomorrow?", minutes_ago=1), *served.turns)
        await seen.shows("And for tomorrow?")
        assert seen.panel("turns").highlighted == 0


async def test_a_ledger_that_moves_is_seen_moving(profile: Profile, served: ScriptedDaemon) -> None:
    async with screen(profile) as seen:
        await seen.shows("1.333 of 2.000")
        served.ledger = ledger(line("diabetes", 2.0), line("debt", 1.9, closed=True))
        text = await seen.shows("1.900 of 2.000  closed until the next epoch")
        assert "1.333" not in text
        assert "pregnancy" not in text


async def test_the_daemon_stops_and_returns(profile: Profile) -> None:
    async with screen(profile) as seen:
        await seen.shows("○ not running", "Start it with `tactful start`")
        async with serving(daemon(), profile):
            await seen.shows("● running", "1.333 of 2.000")
            assert not seen.app.screen.has_class("-stale")
        text = await seen.shows("○ not running", "Start it with `tactful start`")
        assert "1.333 of 2.000" in text
        assert "The figures below are those of" in text
        assert seen.app.screen.has_class("-stale")
        async with serving(daemon(line("debt", 2.0)), profile):
            text = await seen.shows("● running", "2.000 of 2.000")
            assert "not running" not in text
            assert not seen.app.screen.has_class("-stale")


async def test_a_locked_daemon_keeps_its_last_figures_dimmed(
    profile: Profile, served: ScriptedDaemon
) -> None:
    async with screen(profile) as seen:
        await seen.shows("● running", "meals")
        served.status = status(apps=(), locked=True)
        served.refusals[OwnerMethod.LEDGER] = Denied("The profile is locked.")
        text = await seen.shows("● locked", "! The profile is locked.")
        assert "1.333 of 2.000" in text
        assert "meals    running" in text
        assert seen.app.screen.has_class("-stale")


async def test_last_figures_are_dimmed(profile: Profile) -> None:
    async with screen(profile) as seen:
        async with serving(daemon(), profile):
            await seen.shows("● running")
            assert seen.panel("ledgers").styles.text_opacity == 1.0
        await seen.shows("○ not running")
        assert seen.panel("ledgers").styles.text_opacity < 1.0


async def test_an_empty_profile_says_so(profile: Profile, served: ScriptedDaemon) -> None:
    served.ledger, served.status, served.turns = ledger(), status(apps=()), ()
    async with screen(profile) as seen:
        text = await seen.shows(
            "The policy protects no attribute", "names no apps", "No turn is kept"
        )
        assert "Nothing is known yet." not in text
        served.ledger = ledger(line("debt", 0.5))
        await seen.shows("0.500 of 2.000")
        served.ledger = ledger()
        await seen.shows("The policy protects no attribute")


async def test_long_and_hostile_names_stay_in_their_columns(
    profile: Profile, served: ScriptedDaemon
) -> None:
    served.ledger = ledger(line("a_very_" * 20, 1.0), line(HOSTILE, 2.0), line("漢字" * 30, 0.0))
    app = AppStatus(app="letters_" * 9, slots=("food",) * 40, state="running", problem=HOSTILE)
    served.turns = (turn(1, HOSTILE * 20, app=HOSTILE),)
    served.status = status(apps=(app,), notices=(HOSTILE, "A long notice. " * 30))
    async with screen(profile) as seen:
        text = await seen.shows("a_very_", "…")
        assert not [c for c in text if c < " " and c != "\n"]
        assert "\x9b" not in text
        lines = [row for row in screen_lines(seen.app) if " of 2.000" in row]
        assert len(lines) == 3


@pytest.mark.parametrize("size", [(1, 1), (5, 2), (12, 4), (20, 8), (40, 12), (300, 3)])
async def test_a_very_small_terminal_is_survived(
    profile: Profile, served: ScriptedDaemon, size: tuple[int, int]
) -> None:
    async with screen(profile, size) as seen:
        await seen.is_so(lambda: seen.app.watch_of_daemon.phase is Phase.LIVE)
        await seen.pilot.press("tab", "down", "enter", "escape", "question_mark", "escape", "t")
        await seen.pilot.resize_terminal(80, 24)
        await seen.shows("1.333 of 2.000", "meals")
        await seen.pilot.resize_terminal(*size)
        await seen.is_so(lambda: seen.app.size == size)
        before = served.asked["ledger"]
        await seen.is_so(lambda: served.asked["ledger"] > before + 1)


@pytest.mark.usefixtures("served")
async def test_rows_are_never_wrapped_so_that_no_width_is_too_small(profile: Profile) -> None:
    """Textual measures a panel before its rows are made anew; wrapping to no width would raise."""
    async with screen(profile) as seen:
        await seen.shows("1.333 of 2.000")
        panel, nothing = seen.panel("ledgers"), Size(0, 0)
        assert panel.get_content_height(nothing, nothing, 0) == panel.option_count


@pytest.mark.usefixtures("served")
async def test_enter_shows_a_row_whole_and_escape_leads_back(profile: Profile) -> None:
    async with screen(profile) as seen:
        await seen.shows("1.333 of 2.000")
        await seen.pilot.press("down", "enter")
        text = await seen.shows("Ledger of debt", "differ only")
        assert "spent in all epochs" in text
        await seen.pilot.press("escape")
        assert not isinstance(seen.app.screen, Sheet)
        await seen.pilot.press("tab", "enter")
        await seen.shows("Turn 2", "What could I cook?", "Lentils go far.", "food: blood_sugar")
        await seen.pilot.press("escape", "down", "enter")
        await seen.shows("Turn 1", "There is no turn 1.")
        await seen.pilot.press("escape", "tab", "down", "enter")
        await seen.shows("App letters", "It ended three times.", "may ask about")


@pytest.mark.usefixtures("served")
async def test_help_explains_the_keys(profile: Profile) -> None:
    async with screen(profile) as seen:
        await seen.pilot.press("question_mark")
        await seen.shows("Keys", "Ctrl-C", "then get generic answers")
        await seen.pilot.press("q")
        assert not isinstance(seen.app.screen, Sheet)
        assert seen.app.is_running


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("keys", [["q"], ["ctrl+c"], ["question_mark", "ctrl+c"]])
async def test_q_and_ctrl_c_leave(profile: Profile, keys: list[str]) -> None:
    async with screen(profile) as seen:
        await seen.pilot.press(*keys)
        await until(lambda: not seen.app.is_running)
        assert seen.app.return_code == 0


async def test_the_highlight_stays_on_its_row_when_rows_come_and_go(
    profile: Profile, served: ScriptedDaemon
) -> None:
    served.ledger = ledger(line("debt", 0.5), line("diabetes", 1.0))
    async with screen(profile) as seen:
        await seen.shows("diabetes")
        await seen.pilot.press("down")
        served.ledger = ledger(line("asthma"), line("debt", 0.5), line("diabetes", 1.1))
        await seen.shows("asthma", "1.100")
        assert seen.panel("ledgers").highlighted == 2


async def test_what_did_not_change_is_not_drawn_again(
    profile: Profile, served: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a terminal flickers every second."""
    drawn: list[str] = []
    async with screen(profile) as seen:
        await seen.shows("1.333 of 2.000")
        panel = seen.panel("ledgers")
        monkeypatch.setattr(panel, "replace_option_prompt_at_index", lambda *_: drawn.append("row"))
        monkeypatch.setattr(panel, "set_options", lambda *_: drawn.append("panel"))
        before = served.asked["ledger"]
        await seen.is_so(lambda: served.asked["ledger"] > before + 3)
        assert drawn == []
        served.ledger = ledger(*served.ledger.lines[:2], line("pregnancy", 0.7))
        await seen.is_so(lambda: bool(drawn))
        assert set(drawn) == {"row"}


async def test_many_rows_are_scrolled_by_keys(profile: Profile, served: ScriptedDaemon) -> None:
    served.ledger = ledger(*(line(f"attribute_{number}") for number in range(40)))
    async with screen(profile) as seen:
        text = await seen.shows("attribute_0", "meals")
        assert "attribute_39" not in text
        await seen.pilot.press("end")
        await seen.shows("attribute_39", "meals")


@pytest.mark.usefixtures("served")
async def test_a_defect_of_ours_ends_in_a_sentence(
    profile: Profile, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        secret = "what the owner asked"
        raise KeyError(secret)

    monkeypatch.setattr("tactful_tui.app.ledger_rows", broken)
    with pytest.raises(WorkerFailed):
        async with screen(profile) as seen:
            await until(lambda: not seen.app.is_running)
    told = capsys.readouterr().err
    assert "This is a defect of tactful (KeyError at test_app.py:" in told
    assert "what the owner asked" not in told
    assert "Traceback" not in told
