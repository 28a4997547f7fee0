"""The screen in a real terminal, against a real daemon that stops and returns."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fakes.daemon_process import make_profile, root_of, serving
from tests.model_fixture import embedded_model

from tactful.profile import Profile

__all__ = ["embedded_model"]

PROGRAM = str(Path(sys.executable).with_name("tactful"))
TMUX = shutil.which("tmux") or ""
PATIENCE = 50.0

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(not TMUX, reason="tmux is not installed"),
]


@dataclass(frozen=True)
class Pane:
    """A terminal of 80 columns and 24 lines in a tmux server of its own."""

    socket: Path

    def tmux(self, *arguments: str) -> str:
        run = subprocess.run(
            [TMUX, "-S", str(self.socket), "-f", os.devnull, *arguments],
            capture_output=True,
            text=True,
            check=True,
        )
        return run.stdout

    def text(self) -> str:
        return self.tmux("capture-pane", "-p")

    def shows(self, *words: str) -> str:
        """Waits until all of the words are there."""
        deadline = time.monotonic() + PATIENCE
        while not all(word in (text := self.text()) for word in words):
            assert time.monotonic() < deadline, f"{words} were not seen in:\n{text}"
            time.sleep(0.1)  # another program's screen: there is no event to wait for
        return text

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)


@pytest.fixture
def pane(profile_dir: Path) -> Iterator[Pane]:
    terminal = Pane(profile_dir / "tmux")
    shell = "env -u TMUX PS1='$ ' sh"
    terminal.tmux("new-session", "-d", "-x", "80", "-y", "24", shell)
    try:
        yield terminal
    finally:
        terminal.tmux("kill-server")


@pytest.fixture
def profile(profile_dir: Path, embedded_model: Path) -> Profile:
    return make_profile(profile_dir / "p")


def test_a_terminal_shows_the_daemon_go_and_come_back(pane: Pane, profile: Profile) -> None:
    # Some shells export the size that they began with.
    command = shlex.join([PROGRAM, "tui", "--profile", str(root_of(profile))])
    with serving(profile):
        pane.press(f"COLUMNS=80 LINES=24 {command}; echo left with $?", "Enter")
        text = pane.shows("● running", "diabetes", "debt", "0.000 of 2.000", "meals")
        assert len(text.rstrip("\n").split("\n")) <= 24
    text = pane.shows("○ not running", "Start it with `tactful start`")
    assert "0.000 of 2.000" in text
    with serving(profile):
        pane.shows("● running", "0.000 of 2.000")
        pane.tmux("resize-window", "-x", "120", "-y", "40")
        pane.shows("lifetime 0.000")
        pane.tmux("resize-window", "-x", "12", "-y", "4")
        pane.tmux("resize-window", "-x", "80", "-y", "24")
        text = pane.shows("● running", "untouched")
        assert "not running" not in text
        pane.press("C-c")
        text = pane.shows("left with 0")
        assert "Traceback" not in text


def test_without_colours_the_same_is_said(pane: Pane, profile: Profile) -> None:
    command = shlex.join([PROGRAM, "tui", "--profile", str(root_of(profile))])
    with serving(profile):
        pane.press(f"NO_COLOR=1 {command}; echo left with $?", "Enter")
        pane.shows("● running", "0.000 of 2.000", "untouched")
        pane.press("q")
        pane.shows("left with 0")
