"""Text that may be shown on a terminal, whoever wrote it. A leaf.

Decides which characters reach a terminal. What is *not* here: where text is printed.

Invariant: no character that steers a terminal or reorders what is read comes out, unless the caller
asked to keep it.
"""

from __future__ import annotations

import unicodedata

_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
_JOINERS = "\u200c\u200d"


def visible(text: str, keep: str = "") -> str:
    """The text without characters that steer a terminal or reorder what is read.

    Line breaks and tabs become spaces, except those in `keep`.
    """
    return "".join(_visible(character, keep) for character in text)


def _visible(character: str, keep: str) -> str:
    if character in keep or character in _JOINERS:
        return character
    if character in "\n\r\t":
        return " "
    return "" if unicodedata.category(character) in _UNSAFE else character
