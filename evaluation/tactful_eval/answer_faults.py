"""What is wrong with an answer, whatever it was asked and whichever view it had.

Decides, from the text of an answer and of the prompt that it was written to, which faults it has.
What is *not* here: whether a view shows (`view_questions`), whether the answer is true.

Invariants:

- a fault is a function of the answer, the instruction and the guidance;
- a good answer has none, so each rule names what a person would not write.
"""

from __future__ import annotations

import re
from collections import Counter
from enum import StrEnum
from typing import Final


class Fault(StrEnum):
    """Kinds of faults; an answer may have several."""

    EMPTY = "empty"
    ROLE = "role"
    """It writes both sides of the conversation, or speaks of itself as a machine, or of its answer
    as one."""
    PARROT = "parrot"
    """It repeats its instruction, or gives it on instead of following it."""
    ECHO = "echo"
    """It says what its guidance says, and nothing else."""
    LOOP = "loop"
    UNFINISHED = "unfinished"
    """It stops in the middle of a sentence."""


SPEAKER: Final = re.compile(
    r"^\W*(?:user|assistant|system|human|question|answer|reply|response|q|a)\W{0,3}:",
    re.IGNORECASE | re.MULTILINE,
)
MARK: Final = re.compile(r"<\|?\w+\|?>|\[/?INST\]", re.IGNORECASE)
MACHINE: Final = re.compile(
    r"\b(?:as an? (?:ai|assistant|language model)|i(?:'|’)?(?: a)?m an? (?:ai|assistant|helpful)|"
    r"language model|ai assistant|the user)\b",
    re.IGNORECASE,
)
ABOUT_ITSELF: Final = re.compile(
    r"\b(?:(?:your|my|a|this|the) (?:\w+ )?(?:suggestion|answer|request|response) (?:is|could be)|"
    r"your (?:\w+ )?(?:suggestion|answer|request)|(?:friendly|helpful) assistant|"
    r"(?:my|your) explanation)\b",
    re.IGNORECASE,
)
GIVEN_ON: Final = re.compile(
    r"(?:^|[.!?:]\s+)(?:suggest|prefer|remind|be warm)\b|\bthe reader\b", re.IGNORECASE
)
END: Final = re.compile(r"[.!?…][\"”'’)*]*\s*\Z")
SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")
WORD: Final = re.compile(r"\w+")

PARROTED_WORDS: Final = 6
ECHOED_WORDS: Final = 4
OWN_WORDS: Final = 4
LOOPED_WORDS: Final = 5
LOOPED_TIMES: Final = 3


def faults(answer: str, instruction: str, guidance: str) -> frozenset[Fault]:
    """The faults of `answer`, which was written under `instruction` to follow `guidance`."""
    if not answer.strip():
        return frozenset({Fault.EMPTY})
    found = {
        Fault.ROLE: _confuses_roles(answer),
        Fault.PARROT: _parrots(answer, instruction),
        Fault.ECHO: _echoes(answer, guidance),
        Fault.LOOP: _loops(answer),
        Fault.UNFINISHED: END.search(answer) is None,
    }
    return frozenset(fault for fault, has in found.items() if has)


def _confuses_roles(answer: str) -> bool:
    return any(pattern.search(answer) for pattern in (SPEAKER, MARK, MACHINE, ABOUT_ITSELF))


def _parrots(answer: str, instruction: str) -> bool:
    if GIVEN_ON.search(answer):
        return True
    return bool(_runs(answer, PARROTED_WORDS).keys() & _runs(instruction, PARROTED_WORDS).keys())


def _echoes(answer: str, guidance: str) -> bool:
    words, given = set(_words(answer)), set(_words(guidance))
    return len(words & given) >= ECHOED_WORDS and len(words - given) < OWN_WORDS


def _loops(answer: str) -> bool:
    """The same run of words three times, or the same sentence twice."""
    if any(times >= LOOPED_TIMES for times in _runs(answer, LOOPED_WORDS).values()):
        return True
    sentences = [tuple(_words(sentence)) for sentence in SENTENCE_END.split(answer)]
    long = [sentence for sentence in sentences if len(sentence) >= LOOPED_WORDS]
    return len(long) != len(set(long))


def _runs(text: str, length: int) -> Counter[tuple[str, ...]]:
    words = _words(text)
    return Counter(tuple(words[at : at + length]) for at in range(len(words) - length + 1))


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())
