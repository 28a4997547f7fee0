"""The README's picture of the terminal interface: `python -m tests.tui.picture docs/tui.svg`.

Makes a profile in a temporary folder, lets a real daemon answer the demo's questions with the real
model, and writes the screen as SVG. Nothing in it names this machine.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from datetime import datetime
from pathlib import Path

from tests.fakes.daemon_process import make_profile, serving, until_loaded

from tactful.cli.demo_story import APP, MEMORIES, QUESTIONS
from tactful.owner_client import OwnerClient
from tactful.profile import Profile
from tactful_tui.app import TactfulTui

SIZE = (100, 32)
SETTINGS = "sandbox: off\nanswer: {max_tokens: 48}\n"
"""Where the picture is made there may be no sandbox; answers are cut short, for none is shown."""


def main() -> int:
    file = Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="tp-", dir="/tmp") as folder:
        profile = make_profile(Path(folder) / "p", settings=SETTINGS)
        with serving(profile):
            file.write_text(asyncio.run(_picture(profile)), encoding="utf-8")
    return 0


async def _picture(profile: Profile) -> str:
    async with OwnerClient.connect(profile) as owner:
        await until_loaded(owner)
        for position, shelf, text in MEMORIES:
            await owner.remember(text, shelf, position)
        for question in QUESTIONS:
            await owner.tell(APP, question)
            sys.stderr.write(f"{datetime.now().astimezone():%H:%M:%S} {question}\n")
    app = TactfulTui(profile, "~/.local/share/tactful")
    async with app.run_test(size=SIZE) as pilot:
        while not app.watch_of_daemon.current:
            await pilot.pause(0.1)
        await pilot.pause()
        svg = app.export_screenshot(title="tactful tui")
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE) + "\n"


if __name__ == "__main__":
    sys.exit(main())
