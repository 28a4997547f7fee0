"""Questions to somebody at a terminal.

Decides how an answer is read, and where a command's text comes from. What is *not* here: what is
asked, and passphrases (`passphrase`).
"""

from __future__ import annotations

import select
import sys
from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

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


def yes(notes: Console, question: str) -> bool:
    """Whether the owner agrees; the return key alone does."""
    while True:
        match answer(notes, f"{question} [Y/n] ").lower():
            case "" | "y" | "yes":
                return True
            case "n" | "no":
                return False
            case _:
                notes.print("Please answer y or n.")


def choice(notes: Console, question: str, options: Mapping[str, str]) -> str:
    """One of the options, each shown with what it means; the return key alone takes the first."""
    names = list(options)
    width = max(map(len, names))
    notes.print(Text(question, style="bold"))
    for number, (name, about) in enumerate(options.items(), 1):
        notes.print(
            Text.assemble(f"  {number}  {name.ljust(width)}  ", (about, "dim")), soft_wrap=True
        )
    while True:
        typed = answer(notes, f"1 to {len(names)}, or the return key for {names[0]}: ").lower()
        found = [name for number, name in enumerate(names, 1) if typed in {str(number), name}]
        if not typed or found:
            return found[0] if found else names[0]
        notes.print(f"Please answer with a number from 1 to {len(names)}.")


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
