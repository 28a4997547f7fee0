"""What the commands about models report: `tactfuld one-shot model-...` to the command line.

Decides names and types. What is *not* here: how they are found out (`tactfuld.models`).

Sizes are in bytes, times in seconds since 1970.
"""

from __future__ import annotations

from typing import Literal

from tactful.wire import Message

Vouched = Literal["tactful", "hub"]
"""Where a hash comes from: pinned in this program, or what the hub says of its file."""


class InstalledModel(Message):
    """A model file on this machine; what is not known of it is null.

    Attributes:
        source: `pypi:...` or `hf:REPOSITORY/FILE@COMMIT`; null for a file that somebody put there.
        sha256: of the bytes that were installed; `vouched_by` says what it was compared with.
    """

    name: str
    path: str
    size: int
    in_use: bool
    source: str | None
    sha256: str | None
    vouched_by: Vouched | None
    licence: str | None
    installed_at: int | None


class KnownModel(Message):
    """A model of the catalogue.

    Attributes:
        size, sha256: null where only the hub knows them.
        terms: what has to be accepted before it may be used, as a sentence.
        suits: the machine it suits, in words.
    """

    name: str
    title: str
    parameters: str
    source: str
    licence: str
    terms: str | None
    size: int | None
    sha256: str | None
    suits: str
    installed: bool


class ModelList(Message):
    """The models of this machine and of the catalogue; `use` is what the settings name."""

    use: str
    installed: tuple[InstalledModel, ...]
    catalogue: tuple[KnownModel, ...]


class ModelInfo(Message):
    """One file in detail.

    Attributes:
        title, architecture, trained_context: what the file says of itself.
        memory, free_memory: what it takes with the context of the settings, and what is free.
        loaded_before: whether it was loaded on this machine once, as it is now.
        problem: why it cannot be used, as a sentence.
    """

    model: InstalledModel
    title: str | None
    architecture: str | None
    trained_context: int | None
    context: int | None
    memory: int | None
    free_memory: int | None
    loaded_before: bool
    problem: str | None


class ModelObtained(Message):
    """`fetched` is false where it was there already."""

    model: InstalledModel
    fetched: bool


class ModelUse(Message):
    """What the settings name now, and what they named before."""

    use: str
    before: str
    path: str


class ModelRemoved(Message):
    """The file is gone."""

    name: str
    path: str
    size: int
