"""What there is to choose from before a profile is made: `tactfuld one-shot init-choices`.

Decides names and types. What is *not* here: how it is found out (`tactfuld.one_shot`), and asking
(`tactful.cli.init_wizard`).
"""

from __future__ import annotations

from tactful.wire import Message


class Starter(Message):
    """A policy to begin with."""

    name: str
    about: str


class OfferedModel(Message):
    """The model that a new profile answers with; `size` in bytes."""

    name: str
    size: int
    licence: str
    installed: bool


class InitChoices(Message):
    """Starters, the default first; the keyring that would hold the key, if there is one."""

    starters: tuple[Starter, ...]
    keyring: str | None
    model: OfferedModel
