"""Fixtures of the command line's tests: the command, a profile that is made, a running daemon."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tactful.cli.command_line import Tactful
from tests.tactful.cli.fake_tactfuld import PASSPHRASE


@pytest.fixture
def tactful(profile_dir: Path) -> Iterator[Tactful]:
    """The command, with `TACTFUL_PROFILE` set to a folder of the test's own.

    A daemon that a test leaves running is stopped afterwards.
    """
    folder = profile_dir / "p"
    command = Tactful(environment={"TACTFUL_PROFILE": str(folder)})
    yield command
    if (folder / "run" / "owner.sock").exists():
        command.run("stop", "--json")


@pytest.fixture
def made(tactful: Tactful) -> Tactful:
    """The command, where `init` has been run."""
    assert tactful.run("init", TACTFUL_PASSPHRASE=PASSPHRASE).status == 0
    return tactful


@pytest.fixture
def running(made: Tactful) -> Tactful:
    """The command, where a daemon runs."""
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE)
    return made
