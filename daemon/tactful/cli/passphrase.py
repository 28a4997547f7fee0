"""Passphrases on their way from the owner to the daemon.

Decides where a passphrase may come from: `TACTFUL_PASSPHRASE`, a file, a prompt. What is *not*
here: how it reaches a child (`process`: through a pipe), and what it unlocks (the daemon).

Invariants:

- the variable leaves our environment before any child can inherit it;
- a passphrase has no text form: it is never an argument, printed, logged or part of an error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import TypeVar

from tactful.errors import KeyUnavailable, NotFound, PassphraseNeeded

ENVIRONMENT = "TACTFUL_PASSPHRASE"
ATTEMPTS = 3

T = TypeVar("T")


class Passphrase:
    """What the owner typed; only `reveal` gives it out."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Passphrase(…)"

    __str__ = __repr__


def take_from_environment(environ: MutableMapping[str, str]) -> Passphrase | None:
    """Removes `TACTFUL_PASSPHRASE` and returns it; an empty one counts as absent."""
    text = environ.pop(ENVIRONMENT, "")
    return Passphrase(text) if text else None


def to_bytes(passphrase: Passphrase) -> bytes:
    """What goes through the pipe: one line, whose end the reader does not need.

    Raises:
        KeyUnavailable: the passphrase is not one line of text.
    """
    text = passphrase.reveal()
    if len(text.splitlines()) > 1 or not text.isprintable():
        raise KeyUnavailable("A passphrase is one line without control characters.")
    return text.encode()


def from_file(path: Path) -> Passphrase:
    """The first line of a file that nobody else may read.

    Raises:
        NotFound, KeyUnavailable: no such file; empty, or open to others.
    """
    try:
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.readline().rstrip("\r\n")
    except FileNotFoundError as error:
        raise NotFound(f"There is no passphrase file {path}.") from error
    except UnicodeDecodeError as error:
        raise KeyUnavailable(f"The passphrase file {path} is not UTF-8 text.") from error
    if mode & 0o077:
        raise KeyUnavailable(
            f"The passphrase file {path} may be used by others; run `chmod 600 {path}` first."
        )
    if not text:
        raise KeyUnavailable(f"The passphrase file {path} is empty; write it on its first line.")
    return Passphrase(text)


def can_ask() -> bool:
    """Whether somebody at a terminal could answer."""
    return sys.stdin.isatty()


def ask_for_new() -> Passphrase:
    """Asks twice, until both are the same.

    Raises:
        PassphraseNeeded: nobody can be asked.
    """
    if not can_ask():
        raise PassphraseNeeded(
            "A passphrase is needed and there is no terminal to ask on. "
            f"Set {ENVIRONMENT} or give --passphrase-file."
        )
    while True:
        first = _typed("New passphrase: ")
        if not first:
            _say("A passphrase cannot be empty.")
        elif first == _typed("The same again: "):
            return Passphrase(first)
        else:
            _say("The two are not the same; please type it again.")


def given_phrase() -> Passphrase:
    """The recovery phrase: typed at a terminal without being shown, else a line of standard input.

    Raises:
        KeyUnavailable: there is none.
    """
    text = _typed("Recovery phrase: ") if can_ask() else sys.stdin.readline()
    if not text.strip():
        raise KeyUnavailable("No recovery phrase was given.")
    return Passphrase(" ".join(text.split()))


def given_passphrase(prompt: str) -> Passphrase:
    """A passphrase that is set already: typed at a terminal, else a line of standard input.

    Raises:
        PassphraseNeeded: there is none.
    """
    text = _typed(prompt) if can_ask() else sys.stdin.readline().rstrip("\r\n")
    if not text:
        raise PassphraseNeeded("No passphrase was given.")
    return Passphrase(text)


def unlocked(attempt: Callable[[Passphrase | None], T], given: Passphrase | None) -> T:
    """Runs `attempt` with the given passphrase; asks on a terminal where one is needed.

    A wrong one may be typed again, three times in all; a wrong one from a file or the environment
    is final.
    """
    try:
        return attempt(given)
    except PassphraseNeeded:
        if not can_ask():
            raise
    for _ in range(ATTEMPTS - 1):
        try:
            return attempt(_asked())
        except KeyUnavailable as error:
            _say(str(error))
    return attempt(_asked())


def _asked() -> Passphrase:
    while not (text := _typed("Passphrase: ")):
        _say("A passphrase cannot be empty.")
    return Passphrase(text)


def _typed(prompt: str) -> str:
    from getpass import getpass

    return getpass(prompt)


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()
