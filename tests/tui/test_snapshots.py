"""Whole screens, compared with committed ones.

After a wanted change of the looks, renew them and read the difference before committing it:

    RENEW_SNAPSHOTS=1 .venv/bin/python -m pytest tests/tui/test_snapshots.py
"""

import os
from pathlib import Path

import pytest
from tests.tui.samples import LINES, figures, screen_lines, status

from tactful.errors import DaemonDown
from tactful.profile import Profile
from tactful_tui.app import TactfulTui
from tactful_tui.watch import Watch, answered, lost

SNAPSHOTS = Path(__file__).with_name("snapshots")

LIVE = answered(status(notices=("The clock was set back; epochs wait.",)), figures(*LINES))
DOWN = lost(LIVE, DaemonDown("No daemon is running. Start it with `tactful start`."))


class Still(TactfulTui):
    """A screen that shows one moment and asks nobody."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(Profile.at(Path("/nowhere")), "~/tactful")
        self.watch_of_daemon = watch

    def begin_asking(self) -> None:
        pass


@pytest.mark.parametrize("size", [(80, 24), (160, 50), (40, 12)], ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize(
    ("name", "watch"),
    [("first", Watch()), ("live", LIVE), ("down", DOWN)],
    ids=["first", "live", "down"],
)
async def test_the_screen_looks_as_it_did(name: str, watch: Watch, size: tuple[int, int]) -> None:
    app = Still(watch)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        shown = "\n".join(screen_lines(app)) + "\n"
    file = SNAPSHOTS / f"{name}_{size[0]}x{size[1]}.txt"
    if os.environ.get("RENEW_SNAPSHOTS"):
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")
