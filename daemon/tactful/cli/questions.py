"""Questions to somebody at a terminal.

Decides how an answer is read, and where a command's text comes from. What is *not* here: what is
asked, and passphrases (`passphrase`).
"""

from __future__ import annotations

import select
import sys

from rich.console import Console

from tactful.errors import UsageError

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


def given_text(notes: Console, words: str, *, question: str, nothing: str) -> str:
    """The text of a command: its words; without any what is typed at a terminal; else, and for `-`,
    all of standard input.

    Raises:
        UsageError: it is empty; `nothing` says so.
    """
    if words not in {"", "-"}:
        text = words.strip()
    elif not words and sys.stdin.isatty():
        text = answer(notes, question)
    else:
        text = sys.stdin.read().strip()
    if not text:
        raise UsageError(nothing)
    return text
