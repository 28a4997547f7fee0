"""What was found when every row of a database was opened.

What is *not* here: opening them (`memory`, `history`), and what SQLite itself says (`connection`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Examined:
    """All rows of one database, in one state.

    Attributes:
        rows: how many there are.
        unreadable: the numbers of those that do not open as they were written, or are missing.
        whole: whether what binds them together is as it was written.
    """

    rows: int
    unreadable: tuple[int, ...]
    whole: bool
