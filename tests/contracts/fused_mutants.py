"""Ways of fusing text that are broken on purpose: each has one safeguard of GUARANTEE §5 off."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from tests.contracts.fused_enumeration import (
    REAL,
    TOKENIZER,
    Distribution,
    Fusing,
    Masses,
    Replying,
    mixed,
    real_rows,
    real_weigh,
)
from tests.fakes.in_memory_rows import Contents

from tactful_core.fusion import FusedDraw, FusionParameters
from tactful_core.mixtures import STEPS, Condition, Mixer, PublicRow, Row, Weights, Work
from tactful_core.sampling import SystemRandomness
from tactful_core.values import AttributeName
from tactfuld.fusing.cells import CellPlan
from tactfuld.fusing.contexts import Frame, Rows, joined, memory_ids

# ---- what is settled ----------------------------------------------------------------------------


def visible_tokens(reply: Replying) -> int:
    """The end token and what was drawn when the app had gone are not counted."""
    return len(reply.visible)


def all_but_the_first(reply: Replying) -> int:
    return max(0, reply.charged - 1)


def nothing_if_the_app_went_away(reply: Replying) -> int:
    return 0 if reply.call.leaves_after is not None else reply.charged


# ---- rows ---------------------------------------------------------------------------------------


def one_placeholder_for_each_secret_token(
    public: Frame, plan: CellPlan, contents: Contents
) -> Rows:
    """As long as what it stands for, so the public row tells the length."""
    held = [memory_ids(contents.get(place.position, ""), TOKENIZER) for place in public.places]
    return tuple(
        joined(
            public.pieces,
            (
                ids if place.charged == cell else (public.filler,) * len(ids)
                for place, ids in zip(public.places, held, strict=True)
            ),
        )
        for cell in (None, *plan.cells)
    )


def whole_string_tokenised(public: Frame, plan: CellPlan, contents: Contents) -> Rows:
    """Ids that overlap a secret are masked afterwards; some of them hold public text as well."""
    texts = [contents.get(place.position, "").ljust(8, "_") for place in public.places]
    first, *later = (TOKENIZER.text(piece) for piece in public.pieces)
    whole = first
    owners: list[frozenset[AttributeName] | None] = [None] * len(first)
    for place, text, piece in zip(public.places, texts, later, strict=True):
        whole += text + piece
        owners += [place.charged] * len(text) + [None] * len(piece)
    rows: list[list[int]] = [[] for _ in (None, *plan.cells)]
    start = 0
    for token in TOKENIZER.tokenize(whole, special=False):
        end = start + len(TOKENIZER.text([token]))
        touched = set(owners[start:end]) - {None}
        for row, cell in zip(rows, (None, *plan.cells), strict=True):
            row.append(token if touched <= {cell} else public.filler)
        start = end
    return tuple(tuple(row) for row in rows)


def every_row_shows_all(public: Frame, plan: CellPlan, contents: Contents) -> Rows:
    """The cells of an attribute that pays for one of them show what another one should pay for."""
    one = CellPlan(tuple(replace(p, charged=frozenset(plan.cells[0])) for p in plan.places))
    blank, full = real_rows(replace(public, places=one.places), one, contents)
    return (blank, *[full] * len(plan.cells))


# ---- the draw -----------------------------------------------------------------------------------


def temperature_after_mixing(
    parameters: FusionParameters, plan: CellPlan, found: Masses, skip_below: float
) -> tuple[Distribution, bool]:
    blunt, charged = real_weigh(parameters, plan, found, skip_below)
    sharper = blunt**2
    return sharper / sharper.sum(), charged


def as_many_cells_as_hold_something(
    parameters: FusionParameters, plan: CellPlan, found: Masses, skip_below: float
) -> tuple[Distribution, bool]:
    """The others get more of the mixture."""
    full = [row for row in found[1:] if not np.array_equal(row, found[0])]
    if not full:
        return mixed(_fused(parameters, plan, rule=_Nothing()), found)
    fused = FusedDraw(
        parameters,
        cells=len(full),
        widest=min(plan.widest, len(full)),
        randomness=SystemRandomness(),
    )
    return mixed(fused, np.array([found[0], *full]))


def part_of_another_cell(
    parameters: FusionParameters, plan: CellPlan, found: Masses, skip_below: float
) -> tuple[Distribution, bool]:
    """Each cell is mixed in as much as the next one may be."""
    condition = _condition(parameters, plan.widest)
    most = int(parameters.limit * STEPS / max(1, len(plan.cells)))
    parts = []
    for row in found[1:]:
        mixer = Mixer(row.size)
        mixer.begin(found[0])
        parts.append(mixer.add(row, condition, most))
    rule = _Given([*parts[1:], *parts[:1]])
    return mixed(_fused(parameters, plan, rule=rule), found)


def as_if_no_attribute_had_two_cells(
    parameters: FusionParameters, plan: CellPlan, found: Masses, skip_below: float
) -> tuple[Distribution, bool]:
    rule = _condition(parameters, 1)
    return mixed(_fused(parameters, plan, rule=rule), found)


def always_as_much_as_the_limit(
    parameters: FusionParameters, plan: CellPlan, found: Masses, skip_below: float
) -> tuple[Distribution, bool]:
    return mixed(_fused(parameters, plan, rule=_Most()), found)


def skips_where_memory_is_certain(
    parameters: FusionParameters, plan: CellPlan, found: Masses, skip_below: float
) -> tuple[Distribution, bool]:
    """What a private row is certain of is not drawn with it, and not charged."""
    parts = found / found.sum(axis=1, keepdims=True)
    if plan.cells and float(parts[1:].max()) > 0.95:
        return parts[0], False
    return real_weigh(parameters, plan, found, skip_below)


class _Given:
    """Parts that were found elsewhere, in order."""

    def __init__(self, parts: list[int]) -> None:
        self._parts = parts

    def part(self, public: PublicRow, private: Row | Weights, most: int, work: Work) -> int:
        return self._parts.pop(0)


class _Most:
    def part(self, public: PublicRow, private: Row | Weights, most: int, work: Work) -> int:
        return most


class _Nothing:
    def part(self, public: PublicRow, private: Row | Weights, most: int, work: Work) -> int:
        return 0


def _condition(parameters: FusionParameters, widest: int) -> Condition:
    return Condition(parameters.alpha, parameters.limit, parameters.divergence, max(1, widest))


def _fused(
    parameters: FusionParameters, plan: CellPlan, rule: Condition | _Given | _Most | _Nothing
) -> FusedDraw:
    return FusedDraw(
        parameters,
        cells=len(plan.cells),
        widest=plan.widest,
        randomness=SystemRandomness(),
        rule=rule,
    )


SCAFFOLD: Mapping[str, Fusing] = {
    "parts_given_from_outside": replace(
        REAL,
        weigh=lambda parameters, plan, found, _: mixed(
            _fused(parameters, plan, rule=_condition(parameters, plan.widest)), found
        ),
    ),
}
"""What mutants are built on, without a fault."""

MUTANTS: Mapping[str, tuple[Fusing, str]] = {
    "settles_by_visible_tokens": (replace(REAL, settled=visible_tokens), "ends_early"),
    "first_token_is_free": (replace(REAL, settled=all_but_the_first), "one_reply"),
    "refunds_cancelled_replies": (
        replace(REAL, settled=nothing_if_the_app_went_away),
        "goes_away_and_asks_again",
    ),
    "one_placeholder_for_each_secret_token": (
        replace(REAL, rows=one_placeholder_for_each_secret_token),
        "one_reply",
    ),
    "whole_string_tokenised": (replace(REAL, rows=whole_string_tokenised), "one_reply"),
    "every_row_shows_all": (replace(REAL, rows=every_row_shows_all), "one_reply"),
    "temperature_after_mixing": (replace(REAL, weigh=temperature_after_mixing), "one_reply"),
    "as_many_cells_as_hold_something": (
        replace(REAL, weigh=as_many_cells_as_hold_something),
        "one_reply",
    ),
    "part_of_another_cell": (replace(REAL, weigh=part_of_another_cell), "one_reply"),
    "as_if_no_attribute_had_two_cells": (
        replace(REAL, weigh=as_if_no_attribute_had_two_cells),
        "one_reply",
    ),
    "always_as_much_as_the_limit": (replace(REAL, weigh=always_as_much_as_the_limit), "one_reply"),
    "skips_where_memory_is_certain": (
        replace(REAL, weigh=skips_where_memory_is_certain),
        "one_reply",
    ),
    "draws_when_refused": (replace(REAL, public_when_refused=False), "until_nothing_is_left"),
}
"""Each with the course that shows it."""
