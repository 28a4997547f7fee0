"""Parting a text that is longer than one position.

Decides where a text may be parted: between sentences and between lines, nowhere else. What is *not*
here: whether the owner agrees, and where the parts go (`store.filing`).

Invariant: the parts, read one after the other, are the text, but for the white space between them.
"""

from __future__ import annotations

import re

from tactful.errors import DoesNotFit

_END = re.compile(r"(?<=[.!?…。])[\"'”’»)]*\s+|\n+")


def parted(text: str, limit: int) -> tuple[str, ...]:
    """As few parts as whole sentences allow, each of at most `limit` bytes in UTF-8.

    Raises:
        DoesNotFit: one sentence alone is longer.
    """
    parts: list[str] = []
    for sentence in _sentences(text):
        longer = f"{parts[-1]}{sentence}" if parts else sentence
        if parts and _size(longer) <= limit:
            parts[-1] = longer
        elif _size(sentence) <= limit:
            parts.append(sentence)
        else:
            raise DoesNotFit(
                f"A sentence of the text has {_size(sentence)} bytes in UTF-8 and a position of "
                f"the shelf holds at most {limit}, so it cannot be split between sentences; "
                "shorten it."
            )
    return tuple(part.strip() for part in parts)


def _sentences(text: str) -> list[str]:
    """The sentences, each with the white space after it."""
    ends = [found.end() for found in _END.finditer(text)]
    pieces = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    return [piece for piece in pieces if piece.strip()]


def _size(part: str) -> int:
    return len(part.strip().encode(errors="surrogatepass"))
