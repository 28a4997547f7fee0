"""Whether a text mentions one of the words or phrases that a policy lists.

Decides by whole words, whatever their case and whatever stands between them. What is *not* here:
what follows from it (`router`, `reading`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_WORD = re.compile(r"\w+")


def mentions(text: str, phrases: Iterable[str]) -> bool:
    """Whether the words of some phrase stand in `text`, one after the other."""
    padded = f" {_words(text)} "
    return any(f" {_words(phrase)} " in padded for phrase in phrases)


def _words(text: str) -> str:
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))
