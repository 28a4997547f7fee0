"""The recovery phrase: twelve words that open a store whose passphrase or keyring is gone.

Decides which words are a phrase. What is *not* here: what it opens (`ring`), and showing it to
anybody (`tactful.cli`).

A phrase is 128 random bits and a checksum of 4, in words of the English list of BIP-39. No word
begins with the same four letters as another, so four letters of each are enough.
"""

from __future__ import annotations

import os
from functools import cache

from mnemonic import Mnemonic

from tactful.errors import KeyUnavailable
from tactful_core.sealing import PassphraseParameters
from tactful_core.values import Secret

WORDS = 12
_BYTES = 16
_SHORTEST = 4


def new_phrase() -> Secret[str]:
    """A fresh phrase."""
    return Secret(_list().to_mnemonic(os.urandom(_BYTES)))


def recovery_parameters() -> PassphraseParameters:
    """Recorded beside what a phrase wraps; cheap, for 128 random bits need no stretching."""
    return PassphraseParameters(os.urandom(_BYTES), iterations=1, lanes=1, memory_kib=64)


def phrase_of(typed: Secret[str]) -> Secret[str]:
    """The phrase that somebody typed: in any case, with any white space, words cut off or not.

    Raises:
        KeyUnavailable: it is no phrase; the sentence says which word is none, or that one must be
            another.
    """
    words = typed.reveal().lower().split()
    if len(words) != WORDS:
        raise KeyUnavailable(f"A recovery phrase has {WORDS} words; {len(words)} were given.")
    whole = [_whole(word) for word in words]
    unknown = [number for number, word in enumerate(whole, start=1) if word is None]
    if unknown:
        which = f"Word {unknown[0]}" if len(unknown) == 1 else f"Words {_listed(unknown)}"
        is_none = "is" if len(unknown) == 1 else "are"
        raise KeyUnavailable(
            f"{which} of the recovery phrase {is_none} not in its list of words; read the paper "
            "again."
        )
    phrase = " ".join(word for word in whole if word is not None)
    if not _list().check(phrase):
        raise KeyUnavailable(
            "Some word of the recovery phrase must be another one, or two have changed places; "
            "read the paper again."
        )
    return Secret(phrase)


def _whole(word: str) -> str | None:
    known = _list().wordlist
    if word in known:
        return word
    found = [each for each in known if each.startswith(word)]
    return found[0] if len(word) >= _SHORTEST and len(found) == 1 else None


def _listed(numbers: list[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


@cache
def _list() -> Mnemonic:
    return Mnemonic("english")
