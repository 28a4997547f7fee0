"""The questions and checks of `view_questions.yaml`.

Decides whether an answer shows a view, and whether it mentions what the view forbids; both are
functions of the answer's text. What is *not* here: faults that no view has to do with
(`answer_faults`), how answers come about (`answer_writing`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

SOURCE: Final = Path(__file__).with_name("view_questions.yaml")

# Hyphens, and all that a line may be broken by, are blanks to the checks.
BLANKS: Final = re.compile(r"[\s\-\u2010\u2011]+")


@dataclass(frozen=True, slots=True)
class ViewCheck:
    """What an answer under one view must and must not contain; patterns are of whole words."""

    view: str
    guidance: str
    shown_by: tuple[re.Pattern[str], ...]
    spoiled_by: tuple[re.Pattern[str], ...]
    forbidden: tuple[re.Pattern[str], ...]

    def shows(self, answer: str) -> bool:
        """Whether the view shows in `answer`."""
        return _any(self.shown_by, answer) and not _any(self.spoiled_by, answer)

    def breached(self, answer: str) -> bool:
        """Whether `answer` mentions what the view forbids."""
        return _any(self.forbidden, answer)


@dataclass(frozen=True, slots=True)
class SlotQuestions:
    """One slot: its questions, its generic guidance, and a check for each special view."""

    slot: str
    generic: str
    reported: tuple[str, ...]
    tuning: tuple[str, ...]
    checks: tuple[ViewCheck, ...]


@cache
def slots(policy: str) -> tuple[SlotQuestions, ...]:
    """The questions and checks, with the guidance of the policy text `policy`."""
    document, guidance = _yaml(SOURCE.read_text("utf-8")), _guidance(policy)
    return tuple(
        SlotQuestions(
            slot=name,
            generic=guidance[name, "generic"],
            reported=tuple(slot["reported"]),
            tuning=tuple(slot["tuning"]),
            checks=tuple(
                _check(view, guidance[name, view], lists) for view, lists in slot["views"].items()
            ),
        )
        for name, slot in document["slots"].items()
    )


def _guidance(policy: str) -> Mapping[tuple[str, str], str]:
    return {
        (name, view): body["guidance"]
        for name, slot in _yaml(policy)["slots"].items()
        for view, body in slot["views"].items()
    }


def _check(view: str, guidance: str, lists: Mapping[str, Sequence[str]]) -> ViewCheck:
    return ViewCheck(
        view=view,
        guidance=guidance,
        shown_by=_patterns(lists["shows"]),
        spoiled_by=_patterns(lists.get("spoiled_by", ())),
        forbidden=_patterns(lists.get("breaches", ())),
    )


def _patterns(expressions: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    # Not `\b`: an expression may begin or end with a quotation mark.
    return tuple(re.compile(rf"(?<!\w)(?:{each})(?!\w)", re.IGNORECASE) for each in expressions)


def _any(patterns: Sequence[re.Pattern[str]], answer: str) -> bool:
    text = BLANKS.sub(" ", answer)
    return any(pattern.search(text) for pattern in patterns)


def _yaml(text: str) -> Any:
    return YAML(typ="safe").load(text)
