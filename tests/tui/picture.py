"""The README's picture of the terminal interface: `python -m tests.tui.picture docs/tui.svg`.

Makes a profile in a temporary folder, lets a real daemon answer the first of the demo's questions
with the real model, up to where one attribute is used up and the other is not, and writes the
screen as SVG. Nothing in it names this machine, or loads anything from another.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from pathlib import Path

from tests.fakes.daemon_process import make_profile, serving, until_loaded

from tactful.cli.demo_story import APP, MEMORIES, QUESTIONS, STARTER
from tactful.owner_client import OwnerClient
from tactful.profile import Profile
from tactful_policies import starter_text
from tactful_tui.app import TactfulTui
from tactfuld.apps.sandbox import Bubblewrap, sandbox_usable

SIZE = (100, 22)
ASKED = 4
SETTINGS = "answer: {max_tokens: 48}\n"
"""Answers are cut short, as none is shown."""


def main() -> int:
    file = Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="tp-", dir="/tmp") as folder:
        sandboxed = isinstance(sandbox_usable(), Bubblewrap)
        settings = SETTINGS if sandboxed else f"sandbox: off\n{SETTINGS}"
        policy = starter_text(STARTER)
        profile = make_profile(Path(folder) / "p", policy=policy, settings=settings)
        with serving(profile):
            file.write_text(asyncio.run(_picture(profile)), encoding="utf-8")
    return 0


async def _picture(profile: Profile) -> str:
    async with OwnerClient.connect(profile) as owner:
        await until_loaded(owner)
        for position, shelf, text in MEMORIES:
            await owner.remember(text, shelf, position)
        for question in QUESTIONS[:ASKED]:
            await owner.tell(APP, question)
    app = TactfulTui(profile, "~/.local/share/tactful")
    async with app.run_test(size=SIZE) as pilot:
        while not app.watch_of_daemon.current:
            await pilot.pause(0.1)
        await pilot.pause()
        svg = app.export_screenshot(title="tactful tui")
    without_fonts = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return re.sub(r"[ \t]+$", "", without_fonts, flags=re.MULTILINE) + "\n"


if __name__ == "__main__":
    sys.exit(main())
