"""Fixtures of the command line's tests: the command, a profile that is made, a running daemon."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tactful.cli.command_line import Tactful
from tests.tactful.cli.fake_tactfuld import PASSPHRASE, make_profile

from tactful.profile import Profile


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
    """The command, with a profile as `init` makes it."""
    make_profile(Profile.at(Path(tactful.environment["TACTFUL_PROFILE"])), "demo", PASSPHRASE)
    return tactful


@pytest.fixture
def running(made: Tactful) -> Tactful:
    """The command, where a daemon runs."""
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE)
    return made
