"""Questions to somebody at a terminal.

Decides how an answer is read. What is *not* here: what is asked, and passphrases (`passphrase`).
"""

from __future__ import annotations

import select
import sys

from rich.console import Console

_LOOK_SECONDS = 0.2


def answer(notes: Console, question: str) -> str:
    """What is typed after the question, without spaces around it.

    Waits in short steps: a Ctrl-C that comes just before `input` begins to wait would otherwise be
    noticed only after the next line.

    Raises:
        EOFError, KeyboardInterrupt: nobody wants to answer.
    """
    notes.print(question, end="")
    while not select.select([sys.stdin], [], [], _LOOK_SECONDS)[0]:
        pass
    return input().strip()
