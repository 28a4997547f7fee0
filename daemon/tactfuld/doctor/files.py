"""What the owner wrote: `settings`, `policy`.

Decides nothing about what a file may say: both are read by the code that the daemon starts with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from tactful.errors import TactfulError
from tactful_core.promises import Promises
from tactfuld.doctor.check import Check, Name, ok, problem
from tactfuld.problems import FileRefusedError
from tactfuld.settings import Settings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """A file of the owner's.

    Attributes:
        content: what it says; `None` where it was refused.
        refusal: why, with the place in the file.
    """

    file: Path
    content: T | None = None
    refusal: str = ""


def read(file: Path, load: Callable[[Path], T]) -> Read[T]:
    """Reads a file, whatever is wrong with it."""
    try:
        return Read(file, load(file))
    except FileRefusedError as refused:
        more = len(refused.problems) - 1
        first = str(refused.problems[0])
        return Read(file, refusal=first + (f" (And {more} more.)" if more else ""))
    except TactfulError as refused:
        return Read(file, refusal=str(refused))


def check_settings(found: Read[Settings]) -> Check:
    """The settings can be read."""
    if found.content is None:
        return problem(
            Name.SETTINGS,
            found.refusal,
            "Mend that place; `tactful config list` shows all of them.",
        )
    return ok(Name.SETTINGS, f"{found.file} is in order.")


def check_policy(found: Read[Promises]) -> Check:
    """The policy can be read."""
    if found.content is None:
        return problem(
            Name.POLICY, found.refusal, "Mend that place; `tactful policy check` shows all of them."
        )
    return ok(Name.POLICY, f"{found.file} is in order.")
