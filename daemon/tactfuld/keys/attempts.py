"""Wrong passphrases slow down.

Decides how long somebody waits after wrong ones. What is *not* here: whether one is right (`ring`).

Invariants:

- an attempt counts as wrong from before it begins until it turns out right: whoever kills the
  process, or starts another, has gained nothing;
- the pause doubles with each wrong attempt up to a bound, so that the owner is never shut out for
  long, whatever a clock says.

It slows down people who sit at the machine; whoever can write to the state folder can take the file
away, and whoever has a copy of the key file guesses elsewhere: against them stands Argon2id.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tactful.errors import IoFailed, NoPermission, TryLater
from tactfuld.refusals import refusal

FILE_NAME = "attempts.json"

FREE_ATTEMPTS = 3
"""As many may be wrong before the first pause."""
LONGEST_PAUSE = 300
"""Seconds."""


def pause_after(wrong: int) -> int:
    """Seconds that must pass after the last of so many wrong attempts."""
    if wrong < FREE_ATTEMPTS:
        return 0
    return int(min(2.0 ** min(wrong - FREE_ATTEMPTS, 32), LONGEST_PAUSE))


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    wrong: Annotated[int, Field(ge=0, le=2**32)]
    last: Annotated[int, Field(ge=0, le=2**48)]
    """Whole seconds since 1970."""


class Attempts:
    """The wrong attempts at one profile, in a file of its state folder."""

    def __init__(self, state: Path, now: Callable[[], float] = time.time) -> None:
        self._file = state / FILE_NAME
        self._now = now

    @contextmanager
    def trying(self) -> Iterator[None]:
        """One attempt, which the block raises from if it was wrong.

        Raises:
            TryLater: the pause after the last wrong one is not over; the block is not entered.
            IoFailed, NoPermission: the attempt cannot be counted.
        """
        now, before = int(self._now()), self._read()
        last = min(before.last, now)  # a clock that was set back
        left = last + pause_after(before.wrong) - now
        if left > 0:
            self._write(_Record(wrong=before.wrong, last=last))
            raise TryLater(
                f"There were {before.wrong} wrong attempts to unlock this profile; the next one is "
                f"possible in {left} seconds."
            )
        self._write(_Record(wrong=before.wrong + 1, last=now))
        yield
        self._clear()

    def _read(self) -> _Record:
        """A file that is damaged counts as the first pause: it was written after a wrong one."""
        try:
            return _Record.model_validate_json(self._file.read_bytes())
        except FileNotFoundError:
            return _Record(wrong=0, last=0)
        except ValidationError:
            return _Record(wrong=FREE_ATTEMPTS, last=0)
        except OSError as problem:
            raise self._not_counted(problem) from problem

    def _write(self, record: _Record) -> None:
        beside = self._file.with_name(f"{self._file.name}.new")
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(record.model_dump_json())
            beside.replace(self._file)
        except OSError as problem:
            raise self._not_counted(problem) from problem

    def _clear(self) -> None:
        try:
            self._file.unlink(missing_ok=True)
        except OSError as problem:
            raise self._not_counted(problem) from problem

    def _not_counted(self, problem: OSError) -> NoPermission | IoFailed:
        return refusal(
            problem,
            f"Attempts to unlock the profile could not be counted in {self._file} "
            f"({problem.strerror}), so none was made; check the folder and its disk.",
        )
