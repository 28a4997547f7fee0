"""One call of the command line: the profile it is about, and where its output goes.

Decides how the options that every command has are merged with those given before the command. What
is *not* here: what is printed (`output`), what a profile holds (`tactful.profile`).
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tactful.cli.passphrase import Passphrase, can_ask, from_file

if TYPE_CHECKING:
    from tactful.cli.output import Output
    from tactful.profile import Profile

ProfileOption = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        metavar="DIR",
        help="Keep everything under one folder (or set TACTFUL_PROFILE).",
        show_default=False,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print one line of JSON.", show_default=False),
]
PassphraseFileOption = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file",
        metavar="FILE",
        help="Read the passphrase from the first line of a file (or set TACTFUL_PASSPHRASE).",
        show_default=False,
    ),
]


@dataclass(slots=True)
class Surroundings:
    """What a call found around it.

    Attributes:
        passphrase: from the environment.
        profile: `--profile` in front of the command.
        as_json: whether `--json` is anywhere in the command line.
    """

    passphrase: Passphrase | None = None
    profile: Path | None = None
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Invocation:
    """A call's profile, output and passphrase.

    Attributes:
        folder: what `--profile` or `TACTFUL_PROFILE` named; a child of ours is told the same.
        typed: whether it was `--profile`, which the owner then has to type again.
        given_passphrase: from the environment; a file goes before it.
    """

    profile: Profile
    folder: Path | None
    typed: bool
    output: Output
    given_passphrase: Passphrase | None = field(repr=False)

    def passphrase(self, file: Path | None) -> Passphrase | None:
        """The passphrase of a file if one is named, else the environment's."""
        return from_file(file) if file is not None else self.given_passphrase

    @property
    def can_ask(self) -> bool:
        """Whether somebody at a terminal could answer a question of this command."""
        return can_ask() and not self.output.as_json

    def command(self, words: str) -> str:
        """A command line that the owner can type next for this profile, from where they are."""
        from tactful.cli.process import own_name

        option = f" --profile {shlex.quote(str(self.folder))}" if self.typed else ""
        return f"{own_name()} {words}{option}"


def surroundings(context: typer.Context) -> Surroundings:
    """What `main` put beside the outermost command."""
    found = context.find_root().obj
    return found if isinstance(found, Surroundings) else Surroundings()


def invocation(context: typer.Context, profile: Path | None, as_json: bool) -> Invocation:
    """This call; an option after the command goes before the same one in front of it."""
    from tactful.cli.output import open_output
    from tactful.profile import ENVIRONMENT, Profile

    around = surroundings(context)
    named = os.environ.get(ENVIRONMENT)
    option = profile or around.profile
    folder = option or (Path(named) if named else None)
    return Invocation(
        profile=Profile.chosen(folder),
        folder=folder.expanduser().absolute() if folder is not None else None,
        typed=option is not None,
        output=open_output(as_json=as_json or around.as_json),
        given_passphrase=around.passphrase,
    )
