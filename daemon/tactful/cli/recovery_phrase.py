"""The recovery phrase on its way to paper: shown once, and typed back in part.

Decides how it is shown and how much of it is asked for. What is *not* here: what it opens, and
which words are a phrase (`tactfuld`).

Invariant: it goes to a terminal or into the one JSON line that was asked for, nowhere else.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from tactful.cli.questions import answer

ASKED = 3
"""So many words are typed back."""
_COLUMNS = 3


def hand_over(notes: Console, phrase: str, *, verify: bool, again: str) -> None:
    """Shows the phrase, and goes on when some of its words were typed back.

    Args:
        verify: whether somebody can be asked.
        again: the command that makes another phrase, for those who break off.

    Raises:
        KeyboardInterrupt, EOFError: whoever was asked broke off.
    """
    words = phrase.split()
    notes.print()
    notes.print(Text("Your recovery phrase, shown this once:", style="bold"))
    rows = -(-len(words) // _COLUMNS)
    for row in range(rows):
        cells = [f"{number + 1:>4}. {words[number]:<10}" for number in range(row, len(words), rows)]
        notes.print(Text("".join(cells).rstrip()))
    notes.print(
        "Write it on paper. It opens your memory when the passphrase or the keyring is lost "
        "(`tactful recover`), and whoever finds it can do the same."
    )
    if verify:
        try:
            _verify(notes, words, sorted(random.SystemRandom().sample(range(len(words)), ASKED)))
        except (KeyboardInterrupt, EOFError):
            notes.print(
                f"\nThe phrase was not verified. It is in force; `{again}` makes another.",
                soft_wrap=True,
            )
            raise
        notes.print("That is right.")


def _verify(notes: Console, words: Sequence[str], asked: Sequence[int]) -> None:
    for index in asked:
        while answer(notes, f"Type word {index + 1} of it: ").lower() != words[index]:
            notes.print(f"That is not word {index + 1}; look at your paper.")
