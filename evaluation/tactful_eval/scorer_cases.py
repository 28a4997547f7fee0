"""Cases for comparing scorers: what is on a shelf, and which view is then the right one.

Decides three sets of cases, each with its opposite, where the right view is the generic one:

- `held_out`: statements that support a view of the everyday policy, each taken out of the
  vocabulary and put on a shelf between everyday ones; opposite: everyday ones alone;
- `benchmark`: stores M and M' of the allocation benchmark with the view that its author had in
  mind; the embeddings were looked at when these were written;
- `evidence`: `attribute_evidence` of the evaluation data, what the speaker has now; opposite: the
  same text with the signal edited out. The views of the everyday policy are the vocabulary.

What is *not* here: any scorer (`scorer_rates`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from tactful_core.layout import GENERIC, Shelf, Slot, View
from tactful_core.values import Position, ShelfName, SlotName, ViewName
from tactful_eval.benchmark import SOURCE
from tactful_eval.coverage_statements import Kind, own_statements
from tactful_policies import starter_text
from tactfuld.policy.loading import parse_policy

TOKENS: Final = 48
BACKGROUND: Final = 2
"""Everyday statements on the shelf beside the one that counts."""

SETS: Final = ("held_out", "benchmark", "evidence")

VIEWS_OF: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "diabetes": (("health", "steady_energy"), ("food", "blood_sugar")),
    "pregnancy": (("family", "new_arrival"),),
    "debt": (("finance", "owed_first"),),
    "job_loss": (("work", "next_job"), ("finance", "lean_month")),
}
"""Views of the everyday policy that are right for whoever has an attribute, by slot."""


@dataclass(frozen=True, slots=True)
class Case:
    """Attributes:
    slot: its name differs for each vocabulary; its one shelf has a position for each row.
    right: the view that is right for `rows`, and wrong for `opposite`.
    """

    slot: Slot
    rows: tuple[str, ...]
    opposite: tuple[str, ...]
    right: ViewName


def cases(name: str, data: Path | None) -> tuple[Case, ...]:
    """The cases of a set; those of `evidence` from the folder of the evaluation data.

    Raises:
        ValueError: there is no such set, or no evaluation data for it.
    """
    if name == "held_out":
        return tuple(_held_out())
    if name == "benchmark":
        return tuple(_benchmark())
    if name == "evidence" and data is not None:
        return tuple(_evidence(data))
    raise ValueError(f"There are no cases '{name}'; evidence needs TACTFUL_EVAL_DATA.")


def _held_out() -> Iterator[Case]:
    everyday, number = _everyday(), 0
    for slot in _policy_slots():
        for fold in range(max(len(view.supports) for view in slot.vocabulary)):
            views = tuple(_without(view, fold) for view in slot.vocabulary)
            for view in slot.vocabulary[1:]:
                if fold >= len(view.supports) or len(view.supports) == 1:
                    continue
                around = _around(everyday, number)
                yield _case(
                    f"{slot.name}.{fold}",
                    views,
                    (view.supports[fold], *around),
                    (everyday[-1 - number % len(everyday)], *around),
                    view.name,
                    turn=number,
                )
                number += 1


def _benchmark() -> Iterator[Case]:
    document = _yaml(SOURCE)
    for number, each in enumerate(document["cases"]):
        slot = document["slots"][each["slot"]]
        views = tuple(
            View(ViewName(name), texts["guidance"], tuple(texts.get("supports", ())))
            for name, texts in slot["views"].items()
        )
        background = tuple(slot["background"])
        yield _case(
            each["slot"],
            views,
            (each["memory"], *background),
            (each["neutral"], *background),
            ViewName(each["view"]),
            turn=number,
        )


def _evidence(data: Path) -> Iterator[Case]:
    slots = {str(slot.name): slot for slot in _policy_slots()}
    everyday = _everyday()
    with (data / "attribute_evidence" / "evidence.jsonl").open(encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    found = [each for each in records if each["status"] == "current_self" and each["edit"]]
    for number, each in enumerate(found):
        choices = VIEWS_OF[each["attribute"]]
        slot, view = choices[number % len(choices)]
        around = _around(everyday, number)
        yield _case(
            slot,
            slots[slot].vocabulary,
            (each["text"], *around),
            (each["edit"], *around),
            ViewName(view),
            turn=number,
        )


def _case(
    name: str,
    views: tuple[View, ...],
    rows: tuple[str, ...],
    opposite: tuple[str, ...],
    right: ViewName,
    *,
    turn: int,
) -> Case:
    """The row that counts stands at another place each time."""
    positions = tuple(map(Position, range(1, len(rows) + 1)))
    shelf = Shelf(ShelfName(f"{name}.all"), positions, TOKENS)
    slot = Slot(SlotName(name), "a topic", (shelf,), views)
    return Case(slot, _turned(rows, turn), _turned(opposite, turn), right)


def _turned(rows: tuple[str, ...], turn: int) -> tuple[str, ...]:
    place = turn % len(rows)
    return (*rows[1 : place + 1], rows[0], *rows[place + 1 :])


def _without(view: View, fold: int) -> View:
    if view.name == GENERIC or len(view.supports) == 1:
        return view
    kept = tuple(text for number, text in enumerate(view.supports) if number != fold)
    return replace(view, supports=kept)


def _around(everyday: Sequence[str], number: int) -> tuple[str, ...]:
    return tuple(
        everyday[(number * BACKGROUND + each) % (len(everyday) // 2)] for each in range(BACKGROUND)
    )


def _everyday() -> tuple[str, ...]:
    return tuple(
        each.text
        for each in own_statements()
        if each.kind == Kind.EVERYDAY and each.source == "plain"
    )


def _policy_slots() -> tuple[Slot, ...]:
    return parse_policy(starter_text("everyday"), source="everyday").layout.slots


def _yaml(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text("utf-8"))
