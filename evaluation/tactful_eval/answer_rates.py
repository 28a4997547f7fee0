"""In how many answers a view shows, against how many generic ones would pass for it.

Decides which prompts are answered, what is counted, and the intervals. What is *not* here: the
checks (`view_questions`, `answer_faults`), the model (`answer_writing`).

Invariants:

- a view and the generic view of its slot answer the same questions from the same seeds;
- an answer is a function of its prompt and seed, so the order of questions decides nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from tactful_eval.answer_faults import Fault, faults
from tactful_eval.view_questions import SlotQuestions, ViewCheck
from tactfuld.inference.prompt import FORM, Prompt, build_prompt

Z: Final = 1.959964
"""Of a 95 % interval."""

Answering = Callable[[Prompt, int], str]
"""An answer from a prompt and a seed."""


@dataclass(frozen=True, slots=True)
class Rate:
    """`hits` of `of`, with Wilson's 95 % interval."""

    hits: int
    of: int

    @property
    def share(self) -> float:
        """A number from 0 to 1."""
        return self.hits / self.of

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson (1927): holds its level for small numbers and near 0 and 1, too."""
        n, z2 = self.of, Z * Z
        middle = (self.share + z2 / (2 * n)) / (1 + z2 / n)
        half = Z / (1 + z2 / n) * sqrt(self.share * (1 - self.share) / n + z2 / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.hits + other.hits, self.of + other.of)


@dataclass(frozen=True, slots=True)
class ViewRates:
    """One view: how often it shows with it and with the generic view in its place.

    `breaches` counts answers under the view that mention what it forbids.
    """

    slot: str
    view: str
    shown: Rate
    generic: Rate
    breaches: int


@dataclass(frozen=True, slots=True)
class Rates:
    """All views; `faults` counts over `answers` answers, generic ones included."""

    views: tuple[ViewRates, ...]
    faults: dict[Fault, int]
    answers: int
    words: float

    @property
    def shown(self) -> Rate:
        """All views together."""
        return sum((view.shown for view in self.views), Rate(0, 0))

    @property
    def generic(self) -> Rate:
        """All views together, each checked on its slot's generic answers."""
        return sum((view.generic for view in self.views), Rate(0, 0))


@dataclass(frozen=True, slots=True)
class _Answered:
    text: str
    faults: frozenset[Fault]


def rates(
    slots: Sequence[SlotQuestions],
    questions: Callable[[SlotQuestions], Sequence[str]],
    answer: Answering,
) -> Rates:
    """Answer the `questions` of every slot under every view, and count."""
    views: list[ViewRates] = []
    every: list[_Answered] = []
    for slot in slots:
        asked = questions(slot)
        generic = _answers(asked, slot.generic, answer)
        every += generic
        for check in slot.checks:
            special = _answers(asked, check.guidance, answer)
            every += special
            views.append(_view_rates(slot, check, special, generic))
    counts = Counter(fault for answered in every for fault in answered.faults)
    return Rates(
        views=tuple(views),
        faults={fault: counts[fault] for fault in Fault},
        answers=len(every),
        words=sum(len(answered.text.split()) for answered in every) / len(every),
    )


def _answers(questions: Sequence[str], guidance: str, answer: Answering) -> list[_Answered]:
    found = []
    for seed, question in enumerate(questions):
        prompt = build_prompt(question, (guidance,))
        text = answer(prompt, seed)
        found.append(_Answered(text, faults(text, f"{prompt.system} {FORM}", guidance)))
    return found


def _view_rates(
    slot: SlotQuestions,
    check: ViewCheck,
    special: Sequence[_Answered],
    generic: Sequence[_Answered],
) -> ViewRates:
    def rate(answers: Sequence[_Answered]) -> Rate:
        return Rate(sum(check.shows(answered.text) for answered in answers), len(answers))

    return ViewRates(
        slot=slot.slot,
        view=check.view,
        shown=rate(special),
        generic=rate(generic),
        breaches=sum(check.breached(answered.text) for answered in special),
    )
